"""What is known of the order of a query's vertices: bit sets of ancestors, weights of cones and of what lies below.

The models that hold a vertex hold its ancestors too, since ids contain them. Where the edges of a query are known, its
vertices found in the index (from here on 0 to q - 1, in topological order) each have a *cone*: itself and its
ancestors. Where they are not, each cone is the vertex alone, which makes the same rules true and less useful.
"""

from __future__ import annotations

import numpy as np

from daskevo.index.compiled.compilation import helper
from daskevo.index.query import Array

_ONE = np.uint64(1)
_NONE = np.uint64(0)


@helper
def check_edges(edges: Array, count: int) -> bool:
    """Return whether edges join vertices below `count` forwards, ordered by target."""
    for edge in range(len(edges) // 2):
        source, target = edges[2 * edge], edges[2 * edge + 1]
        if not 0 <= source < target < count or (edge > 0 and target < edges[2 * edge - 1]):
            return False
    return True


@helper
def drop_below_absent(found: Array, edges: Array) -> None:
    """Make absent, -1, what lies below an absent vertex."""
    for edge in range(len(edges) // 2):
        if found[edges[2 * edge]] < 0:
            found[edges[2 * edge + 1]] = -1


@helper
def ancestors_of(number: Array, count: int, edges: Array) -> Array:
    """Return the cones as bit sets. # (count, words)

    Parameters
    ----------
    number:
        Vertex of the query -> its number among those that were found, or -1.
    """
    cones = np.zeros((count, (count + 63) >> 6), np.uint64)
    for vertex in range(count):
        cones[vertex, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
    for edge in range(len(edges) // 2):
        source, target = number[edges[2 * edge]], number[edges[2 * edge + 1]]
        if target >= 0:
            for word in range((source >> 6) + 1):
                cones[target, word] |= cones[source, word]
    return cones


@helper
def holds(cones: Array, lower: int, upper: int) -> bool:
    """Return whether `upper` is in the cone of `lower`; without cones, whether they are one."""
    if len(cones) == 0:
        return lower == upper
    return (cones[lower, upper >> 6] >> np.uint64(upper & 63)) & _ONE != _NONE  # type: ignore[no-any-return]


@helper
def sums(cones: Array, weights: Array) -> tuple[Array, Array]:
    """Return the weight of each vertex' cone, and of all vertices whose cones it is in (itself included)."""
    count = len(weights)
    above, below = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for vertex in range(count if len(cones) == 0 else 0):
        above[vertex] = below[vertex] = weights[vertex]
    for lower in range(len(cones)):
        total = 0
        for word in range((lower >> 6) + 1):
            bits = cones[lower, word]
            upper = word << 6
            while bits != _NONE:
                if bits & _ONE != _NONE:
                    total += weights[upper]
                    below[upper] += weights[lower]
                bits >>= _ONE
                upper += 1
        above[lower] = total
    return above, below
