"""How much of a query a graph has, and whether its best member is better than the best so far."""

from __future__ import annotations

import numpy as np

from daskevo.index.compiled.compilation import helper
from daskevo.index.compiled.layout import HEADER, LINE, SCORING_PLACES, SIZE, UNIT
from daskevo.index.compiled.order import beats, first_allowed
from daskevo.index.compiled.prefetch import prefetch
from daskevo.index.query import Array


@helper
def power_of_two(least: int) -> int:
    """Return the smallest power of two above `least`."""
    size = 2
    while size <= least:
        size *= 2
    return size


@helper
def prefetch_graph(pool: Array, graph: int) -> None:
    """Fetch a graph's size and its first nodes."""
    prefetch(pool, graph * UNIT)
    prefetch(pool, graph * UNIT + LINE)


@helper
def weights_by_node(at: Array, weights: Array) -> tuple[Array, Array, bool]:
    """Return a small hash table, node -> weight: nodes plus 1, 0 in empty places; weights; whether no two collide.

    Without collisions a model is scored without a branch that the processor could guess wrong, in half the time: so
    the table is made larger for it, within what the first cache holds.
    """
    size = power_of_two(4 * len(at))
    while size < SCORING_PLACES and collide(at, size):
        size *= 2
    keys, values = np.zeros(size, np.int32), np.zeros(size, np.int64)
    apart = True
    for vertex in range(len(at)):
        place = at[vertex] & (size - 1)
        while keys[place] > 0:
            apart = False
            place = (place + 1) & (size - 1)
        keys[place] = at[vertex] + 1
        values[place] = weights[vertex]
    return keys, values, apart


@helper
def collide(at: Array, size: int) -> bool:
    """Return whether two nodes have the same place in a table of this size."""
    taken = np.zeros(size, np.bool_)
    for vertex in range(len(at)):
        place = at[vertex] & (size - 1)
        if taken[place]:
            return True
        taken[place] = True
    return False


@helper
def score_of(pool: Array, graph: int, keys: Array, values: Array, apart: bool) -> int:
    """Return the weight of the vertices that a graph shares with the query."""
    mask = len(keys) - 1
    first = graph * UNIT + HEADER
    end = first + pool[graph * UNIT + SIZE]
    score = 0
    if apart:
        for word in range(first, end):
            place = pool[word] & mask
            score += values[place] * np.int64(keys[place] == pool[word] + 1)
        return score
    for word in range(first, end):
        place = pool[word] & mask
        while keys[place] > 0:
            if keys[place] == pool[word] + 1:
                score += values[place]
                break
            place = (place + 1) & mask
    return score


@helper
def better(
    members: Array, pool: Array, graph: int, score: int, exclude: Array, bound: int, winner: int
) -> tuple[int, int]:
    """Return (score, member) of the better of a graph's best member and the winner so far."""
    if score < bound:
        return bound, winner
    member = first_allowed(pool, graph, exclude)
    if member >= 0 and (score > bound or winner < 0 or beats(members, pool, member, winner)):
        return score, member
    return bound, winner
