"""Algorithm 1 of paper 000 as printed, over all models: in Python, and compiled, which stands for the paper's C++.

The printed algorithm ignores the order of predecessors and knows no quality; it is a baseline here, not an oracle.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from benchmarks.prefix.space import Leaf, Model

Array = np.ndarray[Any, Any]


class Graph(NamedTuple):
    """What the algorithm looks at: the leaf layer of each vertex, where its output flows, how many edges flow in."""

    layers: Sequence[str]
    out_edges: Sequence[Sequence[int]]
    in_degrees: Sequence[int]


def graph_of(leaves: Sequence[Leaf]) -> Graph:
    """Return the graph of vertices."""
    out_edges: list[list[int]] = [[] for _ in leaves]
    for target, leaf in enumerate(leaves):
        for source in leaf.sources:
            out_edges[source].append(target)
    return Graph([leaf.signature for leaf in leaves], out_edges, [len(leaf.sources) for leaf in leaves])


def longest_common_prefix(graph: Graph, ancestor: Graph) -> int:
    """Return the size of the prefix, as the inner part of Algorithm 1 finds it."""
    partner = {0: 0}
    visits: dict[int, int] = {}
    frontier = deque([0])
    size = 0
    while frontier:
        vertex = frontier.popleft()
        size += 1
        theirs = ancestor.out_edges[partner[vertex]]
        for target in graph.out_edges[vertex]:
            known = partner.get(target)
            for other in theirs:
                if other == known or (known is None and graph.layers[target] == ancestor.layers[other]):
                    partner[target] = other
                    visits[target] = visits.get(target, 0) + 1
                    if visits[target] == max(graph.in_degrees[target], ancestor.in_degrees[other]):
                        frontier.append(target)
                    break
    return size


def scan(graph: Graph, ancestors: Iterable[Graph]) -> int:
    """Return the largest prefix with any ancestor."""
    return max(longest_common_prefix(graph, ancestor) for ancestor in ancestors)


class Compact(NamedTuple):
    """Graphs one after the other in flat arrays, as compact as a scan wants them.

    Parameters
    ----------
    starts:
        First vertex of each graph. # (n_graphs + 1,)
    layers, in_degrees:
        Number of the leaf layer's kind, and of edges that flow in. # (n_vertices,)
    edges:
        First out-edge of each vertex. # (n_vertices + 1,)
    targets:
        Where it leads, counted inside the graph. # (n_edges,)
    """

    starts: Array
    layers: Array
    in_degrees: Array
    edges: Array
    targets: Array


def compact(models: Iterable[Model], kinds: dict[str, int]) -> Compact:
    """Put models into flat arrays; `kinds` numbers the leaf layers, and grows."""
    starts, layers, in_degrees, edges, targets = (array(code) for code in "qhbqb")
    starts.append(0)
    for model in models:
        graph = graph_of(model.leaves)
        layers.extend(kinds.setdefault(layer, len(kinds)) for layer in graph.layers)
        in_degrees.extend(graph.in_degrees)
        for out_edges in graph.out_edges:
            edges.append(len(targets))
            targets.extend(out_edges)
        starts.append(len(layers))
    edges.append(len(targets))
    return Compact(*(np.array(part) for part in (starts, layers, in_degrees, edges, targets)))


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def compiled_scan(graph: Compact, ancestors: Compact) -> tuple[int, int]:
    """Return (ancestor, size of its prefix) of the largest prefix of one graph with any ancestor."""
    count = len(graph.layers)
    partner, visits, frontier = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    best, most = -1, 0
    for ancestor in range(len(ancestors.starts) - 1):
        start = ancestors.starts[ancestor]
        for vertex in range(count):
            partner[vertex], visits[vertex] = -1, 0
        partner[0], frontier[0] = 0, 0
        first, end = 0, 1
        while first < end:
            vertex = frontier[first]
            first += 1
            mine = start + partner[vertex]
            for edge in range(graph.edges[vertex], graph.edges[vertex + 1]):
                target = graph.targets[edge]
                for theirs in range(ancestors.edges[mine], ancestors.edges[mine + 1]):
                    other = ancestors.targets[theirs]
                    if partner[target] == other or (
                        partner[target] < 0 and graph.layers[target] == ancestors.layers[start + other]
                    ):
                        partner[target] = other
                        visits[target] += 1
                        if visits[target] == max(graph.in_degrees[target], ancestors.in_degrees[start + other]):
                            frontier[end] = target
                            end += 1
                        break
        if end > most:
            best, most = ancestor, end
    return best, most
