"""Non-dominated sorting and crowding distance: Deb et al. 2002 (NSGA-II).

Points have one value per objective, larger is better: negate what is to be minimised
(:meth:`daskevo.types.Objective.rank` does).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskevo.types import Objective

Points = Sequence[Sequence[float]]
"""Finite values, larger is better. # (n_points, n_objectives)"""


def ranks_of(objectives: Sequence[Objective], metrics: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Return one value per objective, larger is better; None if one is missing or not finite."""
    qualities = [objective.quality(dict(metrics)) for objective in objectives]
    ranks = [objective.rank(q) for objective, q in zip(objectives, qualities, strict=True) if q is not None]
    return tuple(ranks) if len(ranks) == len(qualities) else None


def dominance(points: Points) -> NDArray[np.bool_]:
    """Compute which points dominate which: nowhere worse, and better somewhere.

    Returns
    -------
    numpy.ndarray
        True at ``[i, j]`` if point i dominates point j; equal points don't dominate each other. # (n_points, n_points)
    """
    table = np.asarray(points, dtype=np.float64)
    if not len(table):
        return np.zeros((0, 0), dtype=bool)
    ahead, behind = table[:, None, :], table[None, :, :]
    return np.asarray((ahead >= behind).all(axis=2) & (ahead > behind).any(axis=2), dtype=np.bool_)


def front(points: Points) -> list[int]:
    """Return the indices of the non-dominated points, in order.

    >>> front([(1, 3), (2, 2), (1, 2), (2, 2)])
    [0, 1, 3]
    """
    return [int(index) for index in np.flatnonzero(~dominance(points).any(axis=0))]


def fronts(points: Points) -> list[list[int]]:
    """Sort points into fronts: the first is dominated by none, each further one only by those before.

    Section III.A of the paper, fast non-dominated sorting: O(n_objectives * n_points^2).

    Returns
    -------
    list of list of int
        Indices, in order within each front; every point is in one.

    Examples
    --------
    >>> fronts([(1, 3), (2, 2), (1, 2), (0, 0)])
    [[0, 1], [2], [3]]
    """
    dominates = dominance(points)
    dominators = dominates.sum(axis=0)
    found: list[list[int]] = []
    while (current := np.flatnonzero(dominators == 0)).size:
        found.append([int(index) for index in current])
        dominators = dominators - dominates[current].sum(axis=0)
        dominators[current] = -1
    return found


def crowding(points: Points) -> list[float]:
    """Return the crowding distance of each point of one front, section III.B of the paper.

    That is the distance between its neighbours on both sides, as a share of the objective's range, summed over the
    objectives; infinite for points at an end. Among equal values the earlier point comes first.

    Examples
    --------
    >>> crowding([(0, 4), (1, 3), (4, 0)])
    [inf, 2.0, inf]
    """
    distances = [0.0] * len(points)
    for objective in range(len(points[0]) if points else 0):
        values = [float(point[objective]) for point in points]
        order = sorted(range(len(points)), key=values.__getitem__)
        low, high = values[order[0]], values[order[-1]]
        distances[order[0]] = distances[order[-1]] = math.inf
        if high == low:
            continue
        for before, index, after in zip(order, order[1:], order[2:], strict=False):
            # Halved, because the difference of two floats may overflow.
            distances[index] += (values[after] / 2 - values[before] / 2) / (high / 2 - low / 2)
    return distances
