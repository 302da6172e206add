"""Floating-point operations of one prediction, counted from the architecture graph, without building the model.

A multiplication and an addition are two operations; of an activation function each value counts one, whatever it takes.
Layers that move values count none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from daskevo.graph import ArchitectureGraph

PER_VALUE: Mapping[str, int] = {
    **dict.fromkeys(("Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax"), 1),
    # Scaled and shifted, by figures that are known when a model predicts.
    **dict.fromkeys(("BatchNormalization", "Rescaling", "Normalization"), 2),
    # Summed up, taken off, squared, summed up, divided, scaled and shifted.
    **dict.fromkeys(("LayerNormalization", "GroupNormalization"), 7),
    # Squared, summed up, divided, scaled.
    **dict.fromkeys(("RMSNormalization", "UnitNormalization"), 4),
}
"""Operations per value of the output."""

MERGING = frozenset(("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"))
"""One operation per value for each tensor after the first."""

FREE = frozenset(
    (
        *("InputLayer", "Identity", "Flatten", "Reshape", "Permute", "RepeatVector", "Concatenate", "Embedding"),
        *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "GaussianNoise"),
        *("AlphaDropout", "ActivityRegularization", "Masking"),
        *(f"{kind}{n}D" for kind in ("ZeroPadding", "Cropping", "UpSampling") for n in (1, 2, 3)),
    )
)
"""Layers that count none."""


class Flops(NamedTuple):
    """What was counted.

    Parameters
    ----------
    total:
        Operations of one prediction for one sample.
    unknown:
        Class names of the layers that are not known here and count 0, sorted.
    """

    total: int
    unknown: tuple[str, ...]


class _Call(NamedTuple):
    """One call of a layer: its configuration, shapes of its weights, values that flow in and out."""

    config: Mapping[str, Any]
    weights: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...]
    output: int

    @property
    def extra(self) -> int:
        """Operations for bias and activation."""
        return self.output * (bool(self.config.get("use_bias")) + _activates(self.config))


def flops(graph: ArchitectureGraph) -> Flops:
    """Count the operations of one prediction for one sample.

    Dense layers, convolutions (grouped, transposed, depthwise and separable too), pooling, normalisation, activations
    and merging layers are counted; recurrent and attention layers, Keras operations and layers of one's own are not.
    A layer that is called twice counts twice; dimensions that are not fixed count as 1.

    Examples
    --------
    >>> import keras
    >>> from daskevo.models import flatten
    >>> inputs = keras.Input((10,))
    >>> flops(flatten(keras.Model(inputs, keras.layers.Dense(4, "relu")(inputs))).graph)
    Flops(total=88, unknown=())
    """
    outputs: list[list[int]] = []
    count, unknown = 0, set()
    for vertex in graph.vertices:
        signature = json.loads(vertex.signature)
        shapes = [[size or 1 for size in shape] for shape, *_ in signature["outputs"]]
        outputs.append([math.prod(shape) for shape in shapes])
        layer = signature["layer"]
        package, _, kind = layer["class"].rpartition(".")
        call = _Call(
            # The signature of an Input has no configuration.
            config=layer.get("config", {}),
            weights=tuple(spec.shape for spec in graph.layers[vertex.layer].tensors),
            inputs=tuple(outputs[edge.source][edge.slot] for edge in vertex.edges),
            output=sum(outputs[-1]),
        )
        operations = _operations(kind, call) if package == "keras.layers" else None
        if operations is None:
            unknown.add(layer["class"])
        else:
            count += operations
    return Flops(count, tuple(sorted(unknown)))


def _operations(kind: str, call: _Call) -> int | None:
    """Return the operations of one call; None if the layer is not known."""
    if kind in FREE:
        return 0
    if kind in PER_VALUE:
        return PER_VALUE[kind] * call.output
    if kind in MERGING:
        return (len(call.inputs) - 1) * call.output
    if kind.startswith("Global") and "Pooling" in kind:
        return sum(call.inputs)
    for start, counted in _BY_NAME.items():
        if kind.startswith(start):
            return counted(call)
    return None


def _dense(call: _Call) -> int:
    return 2 * call.weights[0][0] * call.output + call.extra


def _convolution(call: _Call) -> int:
    kernel = call.weights[0]
    return 2 * math.prod(kernel) * (call.output // kernel[-1]) + call.extra


def _transposed(call: _Call) -> int:
    # Each place of the input is spread over a window of the output.
    kernel = call.weights[0]
    return 2 * math.prod(kernel) * (call.inputs[0] // kernel[-1]) + call.extra


def _depthwise(call: _Call) -> int:
    kernel = call.weights[0]
    return 2 * math.prod(kernel) * (call.output // (kernel[-2] * kernel[-1])) + call.extra


def _separable(call: _Call) -> int:
    depthwise, pointwise = call.weights[:2]
    return 2 * (math.prod(depthwise) + math.prod(pointwise)) * (call.output // pointwise[-1]) + call.extra


def _pooling(call: _Call) -> int:
    size = call.config.get("pool_size", 1)
    return call.output * (math.prod(size) if isinstance(size, list) else int(size))


_BY_NAME: Mapping[str, Callable[[_Call], int]] = {
    "Dense": _dense,
    **{f"Conv{n}DTranspose": _transposed for n in (1, 2, 3)},
    **{f"Conv{n}D": _convolution for n in (1, 2, 3)},
    "DepthwiseConv": _depthwise,
    "SeparableConv": _separable,
    "MaxPooling": _pooling,
    "AveragePooling": _pooling,
}
"""Starts of class names, transposed convolutions before plain ones."""


def _activates(config: Mapping[str, Any]) -> bool:
    return bool(config.get("activation", "linear") != "linear")
