"""A small graph that tests of mutators begin with."""

from __future__ import annotations

from daskevo.space import ModelGraph, layer


def base(hidden: int) -> ModelGraph:
    """Return a chain of dense layers: so many hidden ones, and one out."""
    graph = ModelGraph("base")
    place = graph.add_input("in", layer("InputLayer", batch_shape=(None, 4)))
    for number in range(hidden):
        place = graph.create(f"hidden{number}", layer("Dense", units=8), [place])
    graph.create("out", layer("Dense", units=2), [place])
    graph.outputs = ("out",)
    return graph
