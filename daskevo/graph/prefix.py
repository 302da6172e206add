"""The longest common prefix of two architecture graphs, with every pair of vertices compared again.

Source: paper 000, sections 2 and 4.2. The definition is the text's, not Algorithm 1 as printed: a vertex of G is in
the prefix with A if and only if its leaf layer is identical in both and all vertices whose outputs flow into it are
in the prefix too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from daskevo.errors import InvalidInput
from daskevo.graph.architecture import ArchitectureGraph
from daskevo.graph.identity import by_cone


@dataclass(frozen=True, slots=True)
class Prefix:
    """What two graphs share.

    Parameters
    ----------
    vertices:
        (vertex in the graph, its partner in the other), in the graph's flatten order. No vertex stands twice.
    """

    vertices: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.vertices)

    def without(self, graph: ArchitectureGraph, layers: Collection[int]) -> Prefix:
        """Return the prefix that ends before some layers of `graph`: without their calls and all behind them."""
        inside: set[int] = set()
        shared = {mine for mine, _ in self.vertices}
        # A layer's first call comes before its others, which are outside if that one is: it brings the weights.
        for mine in by_cone(graph.layers, graph.vertices):
            if mine not in shared:
                continue
            vertex = graph.vertices[mine]
            first = graph.calls[vertex.layer][0]
            begun = first == mine or first in inside
            if vertex.layer not in layers and begun and all(edge.source in inside for edge in vertex.edges):
                inside.add(mine)
        return Prefix(tuple(pair for pair in self.vertices if pair[0] in inside))

    def layers(self, graph: ArchitectureGraph, other: ArchitectureGraph) -> tuple[tuple[int, int], ...]:
        """Return (layer in `graph`, its partner in `other`) of all layers whose weights can be inherited.

        Weights travel with the first call of a layer; the first call of one is the partner of the first of the other.
        """
        return tuple(
            (graph.vertices[mine].layer, other.vertices[theirs].layer)
            for mine, theirs in self.vertices
            if graph.calls[graph.vertices[mine].layer][0] == mine
        )

    def tensors(self, graph: ArchitectureGraph, other: ArchitectureGraph) -> tuple[tuple[int, int], ...]:
        """Return (tensor number in `graph`, tensor number in `other`) of all tensors that can be inherited."""
        return tuple(
            pair
            for mine, theirs in self.layers(graph, other)
            for pair in zip(graph.tensor_numbers(mine), other.tensor_numbers(theirs), strict=True)
        )

    def freezable(self, graph: ArchitectureGraph) -> tuple[int, ...]:
        """Return the layers of `graph` all of whose calls are in the prefix.

        A layer that is called again outside the prefix inherits its weights but has to go on training there.
        """
        inside = {mine for mine, _ in self.vertices}
        return tuple(layer for layer, calls in enumerate(graph.calls) if inside.issuperset(calls))


def closed(graph: ArchitectureGraph, chosen: Sequence[int], trains: Sequence[bool]) -> list[int]:
    """Return those of the layers chosen to be frozen before which, at each of their calls, nothing goes on training.

    Parameters
    ----------
    trains:
        Whether each layer of `graph` changes in training unless it is frozen.
    """
    vertices, frozen = graph.vertices, set(chosen)
    while True:
        behind: list[bool] = []  # whether something that flows into a vertex trains
        for vertex in vertices:
            sources = [(edge.source, vertices[edge.source].layer) for edge in vertex.edges]
            behind.append(any(behind[source] or (trains[of] and of not in frozen) for source, of in sources))
        # What is taken out trains, and may open layers behind it at another call: until nothing changes.
        open_ = {vertex.layer for vertex, is_behind in zip(vertices, behind, strict=True) if is_behind} & frozen
        if not open_:
            return [layer for layer in chosen if layer in frozen]
        frozen -= open_


def frozen_share(graph: ArchitectureGraph, frozen: Collection[int]) -> float:
    """Return the share of vertices that need no gradients, 0 to 1: calls of frozen layers, and calls without weights
    whose inputs are all such. It is 0 if nothing is frozen, although inputs need none either."""
    if not frozen:
        return 0.0
    still: list[bool] = []
    for vertex in graph.vertices:
        inside = not graph.layers[vertex.layer].tensors and all(still[edge.source] for edge in vertex.edges)
        still.append(vertex.layer in frozen or inside)
    return sum(still) / len(still)


def longest_common_prefix(graph: ArchitectureGraph, other: ArchitectureGraph) -> Prefix:
    """Return the longest common prefix of `graph` with `other`.

    Candidates are found by equal ids; then each pair is compared again, vertex by vertex: signature, tensors,
    predecessors, whether it is a model input and which, whether it is the first call of its layer. So not even a
    collision of hashes makes a pair of vertices that differ, or gives one vertex two partners.
    """
    # Twins have ids of their own, so no vertex of the other graph is lost here.
    known = {vertex_id: index for index, vertex_id in enumerate(other.ids)}
    partners: dict[int, int] = {}
    taken: set[int] = set()
    for mine in by_cone(graph.layers, graph.vertices):  # a layer's first call before its others
        theirs = known.get(graph.ids[mine])
        if theirs is not None and theirs not in taken and _same_call(graph, mine, other, theirs, partners):
            partners[mine] = theirs
            taken.add(theirs)
    return Prefix(tuple(sorted(partners.items())))


def _same_call(
    graph: ArchitectureGraph, mine: int, other: ArchitectureGraph, theirs: int, partners: dict[int, int]
) -> bool:
    vertex, partner = graph.vertices[mine], other.vertices[theirs]
    if vertex.signature != partner.signature or vertex.commutative != partner.commutative:
        return False
    # A source without a partner becomes -1, which no source of the partner is.
    feeds = [(argument, partners.get(source, -1), slot) for argument, source, slot in vertex.slots_in()]
    if vertex.commutative:
        feeds.sort()
    if feeds != partner.slots_in():
        return False
    if graph.input_positions.get(mine) != other.input_positions.get(theirs):
        return False
    first, partner_first = graph.calls[vertex.layer][0], other.calls[partner.layer][0]
    if first == mine:
        one, two = graph.layers[vertex.layer], other.layers[partner.layer]
        # Signatures say nothing of tensors and loaded weights, which vertex ids contain: they are compared here.
        return partner_first == theirs and (one.tensors, one.start) == (two.tensors, two.start)
    return partners.get(first) == partner_first


def weights(graph: ArchitectureGraph, by: Literal["vertex", "bytes"] = "vertex") -> list[int]:
    """Return what each vertex counts in the score of a match, in flatten order; all are positive.

    ``vertex`` counts each as 1. ``bytes`` counts the bytes that it transfers (a layer's tensors with its first
    call): ``bytes * K + 1`` with K above the number of vertices, so that bytes come first and vertices decide ties.

    Raises
    ------
    InvalidInput
        If `by` is neither.
    """
    if by == "vertex":
        return [1] * len(graph.vertices)
    if by == "bytes":
        factor = len(graph.vertices) + 1
        return [
            1 + factor * sum(spec.nbytes for spec in graph.layers[vertex.layer].tensors)
            if graph.calls[vertex.layer][0] == index
            else 1
            for index, vertex in enumerate(graph.vertices)
        ]
    raise InvalidInput(f"vertices can't be weighed by {by!r}: use 'vertex' or 'bytes'")
