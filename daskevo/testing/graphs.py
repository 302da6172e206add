"""Architecture graphs for tests: a builder by hand, and hypothesis strategies of random graphs and related pairs.

The random graphs are small and drawn from few kinds of layers, so that what makes prefixes hard is frequent in them:
twins (equal branches), layers called twice, several inputs, roots that aren't inputs, commutative and ordered merges,
double edges, several outputs of a vertex and of a model, keyword arguments, layers without tensors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import strategies as st

from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Vertex
from daskevo.types import JSON, TensorSpec


class GraphBuilder:
    """Builds an architecture graph call by call.

    Examples
    --------
    >>> builder = GraphBuilder()
    >>> x = builder.input(4)
    >>> dense = builder.layer("Dense", 8, tensors=[(4, 8), (8,)])
    >>> a, b = builder.call(dense, x), builder.call(dense, x)
    >>> graph = builder.graph(builder.merge("Concatenate", a, b))
    >>> len(graph.vertices), len(graph.layers), len(graph.tensors)
    (4, 3, 2)
    """

    def __init__(self) -> None:
        self._layers: list[tuple[str, JSON, tuple[TensorSpec, ...]]] = []
        self._numbers: dict[int, int] = {}  # layer as handed out -> its number in order of first call
        self._records: list[LayerRecord] = []
        self._vertices: list[Vertex] = []
        self._inputs: list[int] = []

    def __len__(self) -> int:
        return len(self._vertices)

    def layer(self, kind: str, config: JSON = None, tensors: Sequence[tuple[int, ...]] = ()) -> int:
        """Return a new layer of float32 tensors of these shapes; its number becomes final with its first call."""
        self._layers.append((kind, config, tuple(TensorSpec(shape, "float32") for shape in tensors)))
        return len(self._layers) - 1

    def input(self, width: int) -> int:
        """Return the vertex of a new model input."""
        vertex = self.call(self.layer("InputLayer", width))
        self._inputs.append(vertex)
        return vertex

    def call(self, layer: int, *sources: int | tuple[int, int], commutative: bool = False, **keywords: int) -> int:
        """Return the vertex of a new call of a layer.

        Parameters
        ----------
        sources:
            Vertices, or (vertex, slot), that flow into the argument ``inputs``.
        keywords:
            Vertices that flow into arguments of these names.
        """
        kind, config, tensors = self._layers[layer]
        if layer not in self._numbers:
            # An architecture graph has its layers in this order, and none that is never called.
            self._numbers[layer] = len(self._records)
            self._records.append(LayerRecord(f"{kind}_{len(self._records)}", {"config": config}, tensors))
        edges = []
        for position, source in enumerate(sources):
            vertex, slot = source if isinstance(source, tuple) else (source, 0)
            edges.append(Edge(vertex, slot, f"inputs/{position}" if len(sources) > 1 else "inputs"))
        edges += [Edge(vertex, 0, name) for name, vertex in keywords.items()]
        signature = json.dumps([kind, config, [spec.to_json() for spec in tensors]])
        self._vertices.append(Vertex(self._numbers[layer], signature, tuple(edges), commutative))
        return len(self._vertices) - 1

    def dense(self, source: int, units: int = 8) -> int:
        """Return the vertex of a new Dense layer."""
        return self.call(self.layer("Dense", units, [(4, units), (units,)]), source)

    def merge(self, kind: str, *sources: int | tuple[int, int]) -> int:
        """Return the vertex of a new merge layer; ``Add`` is commutative, every other kind isn't."""
        return self.call(self.layer(kind), *sources, commutative=kind == "Add")

    def graph(self, *outputs: int | tuple[int, int]) -> ArchitectureGraph:
        """Return the graph with these outputs."""
        return ArchitectureGraph(
            layers=tuple(self._records),
            vertices=tuple(self._vertices),
            inputs=tuple(self._inputs),
            outputs=tuple(output if isinstance(output, tuple) else (output, 0) for output in outputs),
        )


class GraphStep(NamedTuple):
    """One vertex of a recipe. Every list of steps makes a graph, so that steps may be dropped and changed at will.

    `picks` choose among the vertices so far, the latest being 0; `option` chooses among a few configurations.
    """

    kind: str
    picks: tuple[int, ...]
    option: int


KINDS = ("input", "root", "dense", "activation", "again", "add", "concatenate", "split", "masked")

_INPUT = GraphStep("input", (), 0)


def steps() -> st.SearchStrategy[GraphStep]:
    """Return a strategy of recipe steps."""
    return st.builds(
        GraphStep,
        # The usual kinds more often, else most graphs are heaps of inputs.
        st.sampled_from((*KINDS, "dense", "dense", "again", "add", "concatenate")),
        st.lists(st.integers(0, 4), min_size=2, max_size=3).map(tuple),
        st.integers(0, 1),
    )


def recipes(max_vertices: int = 12) -> st.SearchStrategy[list[GraphStep]]:
    """Return a strategy of recipes, each of 1 to `max_vertices` vertices."""
    return st.lists(steps(), max_size=max_vertices - 1).map(lambda tail: [_INPUT, *tail])


def build(recipe: Sequence[GraphStep]) -> ArchitectureGraph:
    """Return the graph that a recipe makes; its outputs are the vertices that flow nowhere."""
    builder = GraphBuilder()
    splits: set[int] = set()
    called: list[int] = []
    used: set[int] = set()

    def pick(number: int) -> tuple[int, int]:
        vertex = len(builder) - 1 - number % len(builder)
        used.add(vertex)
        return vertex, number % 2 if vertex in splits else 0

    for kind, picks, option in recipe:
        if not len(builder) or kind == "input":
            builder.input(4 + option)
        elif kind == "root":
            builder.call(builder.layer("Table", option, [(3, 4)]))
        elif kind == "activation":
            builder.call(builder.layer("Activation", ["relu", "tanh"][option]), pick(picks[0]))
        elif kind == "again" and called:
            builder.call(called[picks[0] % len(called)], pick(picks[1]))
        elif kind == "add":
            builder.merge("Add", *map(pick, picks))
        elif kind == "concatenate":
            builder.merge("Concatenate", *map(pick, picks))
        elif kind == "split":
            splits.add(builder.call(builder.layer("Split", option), pick(picks[0])))
        elif kind == "masked":
            source, mask = pick(picks[0]), pick(picks[1])
            builder.call(builder.layer("LSTM", option, [(4, 16), (4, 16), (16,)]), source, mask=mask[0])
        else:
            layer = builder.layer("Dense", 8 * (option + 1), [(4, 8 * (option + 1)), (8 * (option + 1),)])
            called.append(layer)
            builder.call(layer, pick(picks[0]))
    return builder.graph(*(vertex for vertex in range(len(builder)) if vertex not in used))


def architecture_graphs(max_vertices: int = 12) -> st.SearchStrategy[ArchitectureGraph]:
    """Return a strategy of architecture graphs."""
    return recipes(max_vertices).map(build)


@st.composite
def related_recipes(draw: Any, max_vertices: int = 12, models: int = 2) -> list[list[GraphStep]]:
    """Return a strategy of lists of recipes, each made of an earlier one by a few changes, as in a search."""
    base = draw(recipes(max_vertices))
    family = [base]
    while len(family) < models:
        child = list(draw(st.sampled_from(family)))
        for _ in range(draw(st.integers(0, 3))):
            place = draw(st.integers(0, len(child) - 1))
            change = draw(st.sampled_from(("replace", "insert", "drop", "turn")))
            if change == "insert" and len(child) < max_vertices:
                child.insert(place, draw(steps()))
            elif change == "replace":
                child[place] = draw(steps())
            elif change == "drop" and len(child) > 1:
                del child[place]
            elif change == "turn":
                child[place] = child[place]._replace(picks=child[place].picks[::-1])
        family.append(child)
    return family


def related_graphs(max_vertices: int = 12, models: int = 2) -> st.SearchStrategy[list[ArchitectureGraph]]:
    """Return a strategy of lists of graphs that share prefixes, each in a topological order of its own."""
    orders = st.lists(st.integers(0, 3), min_size=1, max_size=max_vertices)
    return st.tuples(related_recipes(max_vertices, models), st.lists(orders, min_size=models, max_size=models)).map(
        lambda drawn: [reordered(build(recipe), picks) for recipe, picks in zip(*drawn, strict=True)]
    )


def reordered(graph: ArchitectureGraph, picks: Sequence[int]) -> ArchitectureGraph:
    """Return the graph with its vertices in another topological order; `picks` says which ready vertex is next."""
    waiting = list(range(len(graph.vertices)))
    places: dict[int, int] = {}
    while waiting:
        ready = [vertex for vertex in waiting if all(edge.source in places for edge in graph.vertices[vertex].edges)]
        chosen = ready[picks[len(places) % len(picks)] % len(ready)]
        waiting.remove(chosen)
        places[chosen] = len(places)
    layers: dict[int, int] = {}
    vertices = []
    for index in places:
        vertex = graph.vertices[index]
        edges = tuple(replace(edge, source=places[edge.source]) for edge in vertex.edges)
        # Layers are numbered in the order of their first call, so another order of vertices numbers them anew.
        vertices.append(replace(vertex, layer=layers.setdefault(vertex.layer, len(layers)), edges=edges))
    return ArchitectureGraph(
        layers=tuple(graph.layers[layer] for layer in layers),
        vertices=tuple(vertices),
        inputs=tuple(places[vertex] for vertex in graph.inputs),
        outputs=tuple((places[vertex], slot) for vertex, slot in graph.outputs),
        structure=graph.structure,
    )


def renamed(graph: ArchitectureGraph) -> ArchitectureGraph:
    """Return the graph with other layer names, which must make no difference to anything but names."""
    layers = tuple(replace(layer, name=f"other_{index}") for index, layer in enumerate(graph.layers))
    return replace(graph, layers=layers)
