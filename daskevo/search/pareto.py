"""Which points are not dominated by others, and how crowded it is around each: Deb et al. 2002 (NSGA-II).

Points are rows of figures of which larger is better, one per objective: negate what is to be minimised
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
"""Finite figures, larger is better. # (n_points, n_objectives)"""


def ranks_of(objectives: Sequence[Objective], metrics: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Return a figure per objective, of which larger is better; None if one is missing or no finite number."""
    qualities = [objective.quality(dict(metrics)) for objective in objectives]
    ranks = [objective.rank(q) for objective, q in zip(objectives, qualities, strict=True) if q is not None]
    return tuple(ranks) if len(ranks) == len(qualities) else None


def dominance(points: Points) -> NDArray[np.bool_]:
    """Tell who dominates whom: is nowhere worse, and better somewhere.

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
    """Return the indices of the points that no other dominates, in order.

    >>> front([(1, 3), (2, 2), (1, 2), (2, 2)])
    [0, 1, 3]
    """
    return [int(index) for index in np.flatnonzero(~dominance(points).any(axis=0))]


def fronts(points: Points) -> list[list[int]]:
    """Sort points into fronts: the first is dominated by none, the next only by those before, and so on.

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
    """Return how far apart each point's neighbours are in one front, section III.B of the paper.

    For each objective the distance between the neighbours on both sides, as a share of the objective's range, summed
    up; infinite for those at an end. Of equal figures the earlier point comes first.

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
            # Halves, because the range of two floats may be more than a float holds.
            distances[index] += (values[after] / 2 - values[before] / 2) / (high / 2 - low / 2)
    return distances
