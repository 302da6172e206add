"""Which layers a simulated evaluation freezes."""

from __future__ import annotations

from daskevo.freeze_policy import FreezePolicy
from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Prefix, Vertex
from daskevo.types import TensorSpec
from daskevo_workflows.simulate.graphs import frozen_layers


def test_nothing_freezes_behind_a_layer_that_goes_on_training() -> None:
    """The second layer is called again outside the prefix; the third is behind its first call."""
    dense = (TensorSpec((4, 4), "float32"),)
    layers = (LayerRecord("x", {}), *(LayerRecord(name, {}, dense) for name in ("a", "b", "c", "d")))
    chain = [Vertex(0, "x")] + [
        Vertex(layer, f"{layer}", (Edge(place, 0, "inputs"),)) for place, layer in enumerate((1, 2, 3, 2, 4))
    ]
    graph = ArchitectureGraph(layers, tuple(chain), (0,), ((5, 0),))
    prefix = Prefix(tuple((vertex, vertex) for vertex in range(4)))
    assert prefix.freezable(graph) == (0, 1, 3)
    assert frozen_layers(graph, prefix, FreezePolicy.parse("prefix"), {}) == (frozenset({1}), 2 / 6)
