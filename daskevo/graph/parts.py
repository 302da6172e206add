"""What an architecture graph is made of: leaf layers, their calls (vertices) and the edges between calls."""

from __future__ import annotations

from dataclasses import dataclass

from daskevo.types import JSON, TensorSpec


@dataclass(frozen=True, slots=True)
class Edge:
    """One tensor that flows into a vertex.

    Parameters
    ----------
    source:
        Index of the vertex that computes the tensor; always smaller than the index of the vertex it flows into.
    slot:
        Which output of the source it is, counted from 0.
    argument:
        The call argument that it feeds: ``inputs``, ``mask``, or with a position inside a nested argument
        ``inputs/0``.
    """

    source: int
    slot: int
    argument: str


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """One leaf layer: what a rebuild needs, and the specifications of its tensors.

    Parameters
    ----------
    name:
        A label for people; it has no part in any comparison.
    config:
        What rebuilds the layer; read by :mod:`daskevo.models` only.
    tensors:
        Shape and dtype of each of ``layer.weights``, in that order.
    start:
        Digest of the weights that somebody loaded into it before it trained; empty if its initializers drew them.
    """

    name: str
    config: JSON
    tensors: tuple[TensorSpec, ...] = ()
    start: str = ""


@dataclass(frozen=True, slots=True)
class Vertex:
    """One call of a leaf layer. A layer that is called twice gives two vertices.

    Parameters
    ----------
    layer:
        Index of the layer in ``graph.layers``.
    signature:
        Canonical, name-independent text of the layer's configuration and of this call. Two vertices compute the
        same from equal tensors and equal weights if and only if their signatures are equal.
    edges:
        What flows in, in the order of the call's arguments; empty for inputs and other roots.
    commutative:
        Whether the order within an argument doesn't matter (Add, Multiply, Average, Maximum, Minimum).
    call:
        How to call the layer again; read by :mod:`daskevo.models` only.
    """

    layer: int
    signature: str
    edges: tuple[Edge, ...] = ()
    commutative: bool = False
    call: JSON = None

    def slots_in(self) -> list[tuple[str, int, int]]:
        """Return (argument, source, slot) of each edge in the order that matters for comparing.

        In a commutative vertex the position inside an argument is left out and the edges are sorted, so that
        ``Add([a, b])`` reads as ``Add([b, a])``; an edge never moves to another argument.
        """
        if self.commutative:
            return sorted((edge.argument.partition("/")[0], edge.source, edge.slot) for edge in self.edges)
        return [(edge.argument, edge.source, edge.slot) for edge in self.edges]


@dataclass(frozen=True, slots=True)
class TensorKey:
    """The place of a tensor in its model: layer, index in ``layer.weights``, and its specification."""

    layer: int
    index: int
    spec: TensorSpec
