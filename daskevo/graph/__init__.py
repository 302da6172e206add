"""Architecture graphs of leaf layers, vertex ids and longest common prefixes; numpy and the standard library only."""

from __future__ import annotations

from daskevo.graph.architecture import ArchitectureGraph
from daskevo.graph.parts import Edge, LayerRecord, TensorKey, Vertex
from daskevo.graph.prefix import Prefix, longest_common_prefix, weights

__all__ = [
    "ArchitectureGraph",
    "Edge",
    "LayerRecord",
    "Prefix",
    "TensorKey",
    "Vertex",
    "longest_common_prefix",
    "weights",
]
