"""Longest common prefixes by brute force, straight from the definition: no hashes, no sets of ids.

A vertex of G is in the prefix with A if its leaf layer is identical in both and all vertices that flow into it are in
the prefix too. Three readings, for three kinds of questions:

- `is_common_prefix`: may these pairs of vertices share weights? What must never be violated.
- `largest_common_prefix`: the most pairs that may, over all ways to pair twins. Exponential.
- `common_prefix`: twins paired by their ordinal in flatten order. What the library promises, exactly.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations

from daskevo.graph import ArchitectureGraph, Edge

Pairs = dict[int, int]


def _first_call(graph: ArchitectureGraph, vertex: int) -> int:
    layer = graph.vertices[vertex].layer
    return next(index for index in cone_order(graph) if graph.vertices[index].layer == layer)


def cone_order(graph: ArchitectureGraph) -> list[int]:
    """Return the vertices by the number of those upstream, then in flatten order: a layer's first call comes first."""
    upstream: list[set[int]] = []
    for vertex in graph.vertices:
        upstream.append(set().union(*({edge.source} | upstream[edge.source] for edge in vertex.edges)))
    return sorted(range(len(upstream)), key=lambda index: (len(upstream[index]), index))


def _argument(edge: Edge, commutative: bool) -> str:
    return edge.argument.split("/")[0] if commutative else edge.argument


def _same_leaf(graph: ArchitectureGraph, mine: int, other: ArchitectureGraph, theirs: int) -> bool:
    vertex, partner = graph.vertices[mine], other.vertices[theirs]
    place = graph.inputs.index(mine) if mine in graph.inputs else None
    partner_place = other.inputs.index(theirs) if theirs in other.inputs else None
    return (
        vertex.signature == partner.signature
        and vertex.commutative == partner.commutative
        and len(vertex.edges) == len(partner.edges)
        and place == partner_place
        and (_first_call(graph, mine) == mine) == (_first_call(other, theirs) == theirs)
        and graph.layers[vertex.layer].tensors == other.layers[partner.layer].tensors
    )


def _same_flow(edges: tuple[Edge, ...], partners: tuple[Edge, ...], commutative: bool, same_source) -> bool:
    orders = permutations(partners) if commutative else [partners]
    return any(
        all(
            _argument(edge, commutative) == _argument(partner, commutative)
            and edge.slot == partner.slot
            and same_source(edge.source, partner.source)
            for edge, partner in zip(edges, order, strict=True)
        )
        for order in orders
    )


def may_pair(graph: ArchitectureGraph, mine: int, other: ArchitectureGraph, theirs: int, pairs: Pairs) -> bool:
    """Return whether the vertex may join pairs that hold all earlier vertices of the prefix."""
    first = _first_call(graph, mine)
    return (
        theirs not in pairs.values()
        and _same_leaf(graph, mine, other, theirs)
        and (first == mine or pairs.get(first) == _first_call(other, theirs))
        and _same_flow(
            graph.vertices[mine].edges,
            other.vertices[theirs].edges,
            graph.vertices[mine].commutative,
            lambda source, partner: pairs.get(source) == partner,
        )
    )


def is_common_prefix(graph: ArchitectureGraph, other: ArchitectureGraph, pairs: Pairs) -> bool:
    """Return whether the pairs are a common prefix: closed, identical leaf by leaf, one to one."""
    earlier: Pairs = {}
    for mine in (index for index in cone_order(graph) if index in pairs):
        if not may_pair(graph, mine, other, pairs[mine], earlier):
            return False
        earlier[mine] = pairs[mine]
    return True


def largest_common_prefix(graph: ArchitectureGraph, other: ArchitectureGraph) -> int:
    """Return the size of the largest common prefix, by trying all pairings."""

    order = cone_order(graph)

    def most(place: int, pairs: Pairs) -> int:
        if place == len(order):
            return len(pairs)
        mine = order[place]
        found = most(place + 1, pairs)
        for theirs in range(len(other.vertices)):
            if may_pair(graph, mine, other, theirs, pairs):
                found = max(found, most(place + 1, {**pairs, mine: theirs}))
        return found

    return most(0, {})


def common_prefix(graph: ArchitectureGraph, other: ArchitectureGraph) -> Pairs:
    """Return vertex -> partner, twins paired by their ordinal."""
    graphs = (graph, other)

    @cache
    def same_but_for_twins(a: int, mine: int, b: int, theirs: int) -> bool:
        first, partner_first = _first_call(graphs[a], mine), _first_call(graphs[b], theirs)
        return (
            _same_leaf(graphs[a], mine, graphs[b], theirs)
            and (first == mine or same(a, first, b, partner_first))
            and _same_flow(
                graphs[a].vertices[mine].edges,
                graphs[b].vertices[theirs].edges,
                graphs[a].vertices[mine].commutative,
                lambda source, partner: same(a, source, b, partner),
            )
        )

    @cache
    def ordinal(a: int, vertex: int) -> int:
        return sum(same_but_for_twins(a, earlier, a, vertex) for earlier in range(vertex))

    @cache
    def same(a: int, mine: int, b: int, theirs: int) -> bool:
        return same_but_for_twins(a, mine, b, theirs) and ordinal(a, mine) == ordinal(b, theirs)

    return {
        mine: theirs
        for mine in range(len(graph.vertices))
        for theirs in range(len(other.vertices))
        if same(0, mine, 1, theirs)
    }


def has_twins(graph: ArchitectureGraph) -> bool:
    """Return whether any two vertices differ in nothing but their place in flatten order."""
    # Without twins no vertex can take the place of another in a prefix of the graph with itself.
    order = cone_order(graph)
    return any(
        may_pair(graph, order[later], graph, earlier, {index: index for index in order[:later] if index != earlier})
        for later in range(len(order))
        for earlier in order[:later]
    )
