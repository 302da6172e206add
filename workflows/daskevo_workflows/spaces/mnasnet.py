"""MnasNet's space: MobileNetV2, block by block, by mutators.

Source: Tan et al., "MnasNet: Platform-Aware Neural Architecture Search for Mobile", CVPR 2019, section 4.1.
"""

from __future__ import annotations

from typing import Any

from daskevo.models import Mutated
from daskevo.space import Choose, Layer, Match, ModelGraph, Mutator, Region, Size, layer
from daskevo.space.nodes import source_of

STAGES = ((1, 2), (3, 4, 5), (6, 7, 8, 9), (10, 11, 12), (13, 14, 15))
"""Blocks of ``keras.applications.MobileNetV2`` that have the same filters: those of more than one layer."""

OPERATORS = ("conv", "dconv", "mbconv3", "mbconv6")
KERNELS = (3, 5)
SQUEEZES = (0.0, 0.25)
SKIPS = ("pool", "identity", "none")
FILTERS = (0.75, 1.0, 1.25)
LAYERS = (-1, 0, 1)


def mnasnet(
    input_shape: tuple[int, int, int] = (224, 224, 3),
    classes: int = 1000,
    *,
    alpha: float = 1.0,
    stages: int = 5,
    divisor: int = 8,
) -> Mutated:
    """Return the space: per block an operator, kernel size, squeeze-and-excitation ratio, skip, filters and depth.

    The base is Keras' own MobileNetV2, unmodified. Each of its five blocks of several layers has 4 x 2 x 2 x 3 x 3 x 3
    = 432 options, which is the paper's S; its B is 5, and its size of 10^13 is 432^5 = 1.5e13. The paper lists
    three operators; 432 takes four, with its inverted bottlenecks of expansion 3 and 6 counted apart, as both stand in
    the published MnasNet-A1. The two blocks of one layer stay MobileNetV2's.

    Parameters
    ----------
    input_shape:
        Height, width, channels; 32 at least.
    classes:
        Of the softmax.
    alpha:
        Width of the base: 0.35, 0.5, 0.75, 1.0, 1.3 or 1.4.
    stages:
        How many of the five blocks vary, from the input on.
    divisor:
        Numbers of filters are multiples of it.
    """

    def base() -> Any:
        import keras

        return keras.applications.MobileNetV2(input_shape, alpha=alpha, weights=None, classes=classes)

    mutators = [Block(number, divisor) for number in range(stages)]
    options = len(OPERATORS) * len(KERNELS) * len(SQUEEZES) * len(SKIPS) * len(FILTERS) * len(LAYERS)
    size = Size("exact", options**stages)
    return Mutated(f"mnasnet {alpha:g} {stages}", base, mutators, size=size)


class Block(Mutator):
    """One block, made anew as chosen; filters, strides and depth that the base has are what choices are relative to."""

    def __init__(self, stage: int, divisor: int) -> None:
        super().__init__(f"block{stage + 1}")
        self.targets = Region(*(f"block_{number}_*" for number in STAGES[stage]))
        self.divisor = divisor

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        nodes = [graph[name] for name in match.nodes]
        projections = [node for node in nodes if node.name.endswith("_project")]
        strides: Any = next(node.config["strides"] for node in nodes if node.kind == "DepthwiseConv2D")
        widths = Widths(
            before=filters_before(graph, nodes[0].inputs[0]),
            own=_rounded(projections[0].config["filters"], choose("filters", FILTERS), self.divisor),
        )
        kinds: dict[str, Any] = {
            "operator": choose("operator", OPERATORS),
            "kernel": choose("kernel", KERNELS),
            "squeeze": choose("squeeze", SQUEEZES),
            "skip": choose("skip", SKIPS),
        }
        depth = len(projections) + choose("layers", LAYERS)
        cell = ModelGraph(self.name)
        place = cell.add_input("in")
        for number in range(depth):
            # As in MobileNetV2, a block's first layer changes width and side; the others keep them.
            made = _Layer(cell, f"layer{number}", widths.before if number == 0 else widths.own, widths.own)
            place = made.build(place, strides[0] if number == 0 else 1, **kinds)
        cell.outputs = (place,)
        # The block becomes one node first, so that edges into and out of it stay.
        graph.replace(graph.group(match.nodes, self.name), cell)


class Widths:
    """Filters that come into a block, and that it has."""

    def __init__(self, before: int, own: int) -> None:
        self.before, self.own = before, own


class _Layer:
    """One layer of a block: an operator with its normalisation, squeeze and skip."""

    def __init__(self, cell: ModelGraph, name: str, before: int, filters: int) -> None:
        self.cell, self.name = cell, name
        self.before, self.filters = before, filters

    def put(self, part: str, what: Layer, *inputs: str) -> str:
        return self.cell.create(f"{self.name}_{part}", what, inputs)

    def build(self, place: str, strides: int, *, operator: str, kernel: int, squeeze: float, skip: str) -> str:
        start, width = place, self.before
        if operator == "conv":
            width = self.filters
            place = self._normal("conv", _conv(width, kernel, strides), place)
        else:
            if operator.startswith("mbconv"):
                width *= int(operator.removeprefix("mbconv"))
                place = self._normal("expand", _conv(width, 1), place)
            depthwise = layer("DepthwiseConv2D", kernel_size=kernel, strides=strides, padding="same", use_bias=False)
            place = self._normal("depthwise", depthwise, place)
        if squeeze:
            # The ratio is one of the channels that come in, not of the expanded ones.
            place = self._squeezed(place, width, max(1, int(self.before * squeeze)))
        if operator != "conv":
            place = self._normal("project", _conv(self.filters, 1), place, relu=False)
        if skip == "pool":
            pool = layer("AveragePooling2D", pool_size=3, strides=strides, padding="same")
            # Where widths differ, the pooled tensor is projected when shapes are fitted (daskevo.models.Mutated).
            return self.put("add", layer("Add"), place, self.put("pool", pool, start))
        # Elsewhere there is nothing of the same shape to add: such candidates equal those without a skip.
        if skip == "identity" and strides == 1 and self.before == self.filters:
            return self.put("add", layer("Add"), place, start)
        return place

    def _normal(self, part: str, what: Layer, place: str, *, relu: bool = True) -> str:
        place = self.put(f"{part}_bn", layer("BatchNormalization"), self.put(part, what, place))
        return self.put(f"{part}_relu", layer("ReLU", max_value=6.0), place) if relu else place

    def _squeezed(self, place: str, width: int, units: int) -> str:
        found = self.put("squeeze", layer("GlobalAveragePooling2D", keepdims=True), place)
        found = self.put("reduce", layer("Conv2D", filters=units, kernel_size=1, activation="relu"), found)
        found = self.put("excite", layer("Conv2D", filters=width, kernel_size=1, activation="sigmoid"), found)
        return self.put("scale", layer("Multiply"), place, found)


def _conv(filters: int, kernel: int, strides: int = 1) -> Layer:
    return layer("Conv2D", filters=filters, kernel_size=kernel, strides=strides, padding="same", use_bias=False)


def _rounded(filters: Any, factor: float, divisor: int) -> int:
    return max(divisor, int(filters * factor + divisor / 2) // divisor * divisor)


def filters_before(graph: ModelGraph, place: str) -> int:
    """Return how many channels flow from a place: those of the convolution that they come from."""
    while True:
        node = graph[source_of(place)[0]]
        if isinstance(node.layer, ModelGraph):
            return filters_before(node.layer, node.layer.outputs[0])
        if "filters" in node.config:
            filters: Any = node.config["filters"]
            return int(filters)
        place = node.inputs[0]
