"""A space without bounds: a small network that grows by nodes, edges and paths.

Sources: Gaier and Ha, "Weight Agnostic Neural Networks", NeurIPS 2019, section 3 (insert a node, add a connection,
change an activation); Cai et al., "Path-Level Network Transformation for Efficient Architecture Search", ICML 2018,
section 3 (replication with a mean, split with concatenation). Both evolve: no size is published to compare with.
"""

from __future__ import annotations

from typing import Any

from daskevo.models import Mutated
from daskevo.space import Choose, Match, ModelGraph, Mutator, NodePattern, layer, named, of_kind

ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "linear")
OUTPUT = "output"


def evolving(
    input_shape: tuple[int, ...] = (64,),
    classes: int = 10,
    *,
    widths: tuple[int, ...] = (8, 16, 32),
    steps: int | None = None,
) -> Mutated:
    """Return the space; its base is a softmax right on the input.

    Parameters
    ----------
    input_shape:
        Of one example; flattened if it has several dimensions.
    classes:
        Of the softmax.
    widths:
        Of new nodes.
    steps:
        The most mutations; None: any number.
    """

    def base() -> Any:
        import keras

        inputs = keras.Input(input_shape, name="input")
        tensor = keras.layers.Flatten(name="flat")(inputs) if len(input_shape) > 1 else inputs
        outputs = keras.layers.Dense(classes, activation="softmax", name=OUTPUT)(tensor)
        return keras.Model(inputs, outputs, name="evolving")

    mutators = [InsertNode(widths), AddConnection(), ChangeActivation(), Replicate(), Split()]
    return Mutated("evolving", base, evolve=mutators, steps=steps)


DENSE = of_kind("Dense")
HIDDEN: NodePattern = DENSE & ~named(OUTPUT)


class InsertNode(Mutator):
    """A new layer on an edge into a layer."""

    targets = DENSE

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__("insert node")
        self.widths = widths

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        inputs = graph[match.node].inputs
        source = choose("edge from", list(inputs))
        units, activation = choose("units", self.widths), choose("activation", ACTIVATIONS)
        made = graph.create("node", layer("Dense", units=units, activation=activation), [source])
        graph.change_input(match.node, inputs.index(source), made)


class AddConnection(Mutator):
    """A new edge into a layer, from any node that doesn't need it; what meets there is concatenated."""

    targets = DENSE

    def __init__(self) -> None:
        super().__init__("add connection")

    def matches(self, graph: ModelGraph) -> list[Match]:
        return [match for match in super().matches(graph) if self._sources(graph, match.node)]

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        graph.connect(choose("from", self._sources(graph, match.node)), match.node)

    @staticmethod
    def _sources(graph: ModelGraph, name: str) -> list[str]:
        # An edge from a descendant would make a cycle, one from an input is there already.
        later = {name, *graph.descendants(name), *graph[name].inputs}
        return [node.name for node in graph.nodes if node.name not in later]


class ChangeActivation(Mutator):
    """Another activation in a layer."""

    targets = HIDDEN

    def __init__(self) -> None:
        super().__init__("change activation")

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        node: Any = graph[match.node]
        others = [each for each in ACTIVATIONS if each != node.config["activation"]]
        graph.replace(match.node, node.layer.changed(activation=choose("activation", others)))


class Replicate(Mutator):
    """A layer becomes two equal ones, side by side, and their mean goes on."""

    targets = HIDDEN

    def __init__(self) -> None:
        super().__init__("replicate")

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        node: Any = graph[match.node]
        # Of two equal layers the mean: with equal weights the network would compute what it did.
        merged = graph.insert_after(match.node, layer("Average"), "mean")
        graph.connect(graph.create("copy", node.layer, node.inputs), merged)


class Split(Mutator):
    """A layer becomes two of half its width, side by side, and both go on, concatenated."""

    targets = HIDDEN

    def __init__(self) -> None:
        super().__init__("split")

    def matches(self, graph: ModelGraph) -> list[Match]:
        return [match for match in super().matches(graph) if _units(graph, match.node) > 1]

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        node: Any = graph[match.node]
        units = _units(graph, match.node)
        merged = graph.insert_after(match.node, layer("Concatenate"), "both")
        graph.connect(graph.create("half", node.layer.changed(units=units // 2), node.inputs), merged)
        # Of an odd width the first half is wider by one, so that the sum stays.
        graph.replace(match.node, node.layer.changed(units=units - units // 2))


def _units(graph: ModelGraph, name: str) -> int:
    units: Any = graph[name].config["units"]
    return int(units)
