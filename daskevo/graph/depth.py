"""How deep a model is."""

from __future__ import annotations

from daskevo.graph.architecture import ArchitectureGraph


def depth(graph: ArchitectureGraph) -> int:
    """Return the number of layers with weights on the path that has the most of them, calls counted one by one."""
    depths: list[int] = []
    # Vertices stand in topological order: what flows in has its depth already.
    for vertex in graph.vertices:
        before = max((depths[edge.source] for edge in vertex.edges), default=0)
        depths.append(before + bool(graph.layers[vertex.layer].tensors))
    return max((depths[vertex] for vertex, _ in graph.outputs), default=0)
