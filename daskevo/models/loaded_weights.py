"""Weights that the user put into a model before it inherits: pretrained ones, statistics of ``adapt``.

Keras keeps no note of them. They are known by not being what their initializer gives: small ones value by value (an
initializer gives the same again), large ones by mean and spread of their first values. A draw takes half a millisecond,
as long as all else that a small layer needs, so weights that train can be told by mean and spread too: it only decides
whether somebody is told that they are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from daskevo.models.flat import FlatModel
from daskevo.models.host_memory import to_host, value_of
from daskevo.models.keras_private import with_sublayers
from daskevo.models.seeds import apart

_EXACT_VALUES = 1 << 14
"""Weights with more values than that are compared by mean and spread of so many; their error is a hundredth."""
_FEW_VALUES = 256
"""Mean and spread of fewer say too little."""
_TRUNCATED = 0.87962566103423978
"""Standard deviation of a standard normal cut off at 2."""
_DRAWING = (
    keras.initializers.RandomNormal,
    keras.initializers.RandomUniform,
    keras.initializers.TruncatedNormal,
    keras.initializers.VarianceScaling,
    keras.initializers.Orthogonal,
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Layers whose weights the user loaded, where the ancestor's are others.

    Parameters
    ----------
    kept:
        Those that don't train (frozen by the user, or adapted): they stay as they are.
    replaced:
        Those that train: they go on from the ancestor's weights.
    """

    kept: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()


def loaded_weights(flat: FlatModel, arrays: Mapping[int, np.ndarray[Any, Any]], *, exact: bool = True) -> Loaded:
    """Return the layers whose loaded weights are about to be replaced.

    Parameters
    ----------
    arrays:
        Tensor number -> the ancestor's values.
    exact:
        Compare small weights value by value in layers that train, too; it always is so in those that don't.
    """
    kept: list[int] = []
    replaced: list[int] = []
    for index in sorted({flat.graph.tensors[number].layer for number in arrays}):
        layer = flat.layers[index]
        trains = bool(layer.trainable_weights)
        if not any(_is_set(part, exact or not trains) for part in with_sublayers(layer)):
            continue
        numbers = flat.graph.tensor_numbers(index)
        same = all(
            number not in arrays or np.array_equal(to_host(weight), arrays[number], equal_nan=False)
            for number, weight in zip(numbers, layer.weights, strict=True)
        )
        if not same:
            (replaced if trains else kept).append(index)
    return Loaded(tuple(kept), tuple(replaced))


def _is_set(layer: Any, exact: bool) -> bool:
    if isinstance(layer, keras.layers.Normalization):
        return any(np.any(to_host(weight) != (weight.name == "variance")) for weight in layer.weights)
    if isinstance(layer, keras.layers.EinsumDense):
        return False  # it draws by an initializer that it doesn't keep: nobody can tell
    for weight, initializer in _begun_with(layer):
        if isinstance(initializer, keras.initializers.Constant) and np.ndim(initializer.value):
            return True
        is_drawn = isinstance(initializer, _DRAWING) and isinstance(initializer.seed, int)
        if is_drawn and not _is_initial(weight, initializer, exact):
            return True
    return False


def _begun_with(layer: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the weights of a layer itself whose initializer it names, each with the initializer."""
    inside = {id(weight) for part in with_sublayers(layer)[1:] for weight in part.weights}
    for weight in layer.weights:
        names = (f"{weight.name}_initializer", f"{weight.name.removesuffix('_kernel')}_initializer")
        initializer = next((vars(layer)[name] for name in names if name in vars(layer)), None)
        if id(weight) not in inside and initializer is not None:
            yield weight, initializer


def _is_initial(weight: Any, initializer: Any, exact: bool) -> bool:
    shape, dtype = tuple(map(int, weight.shape)), str(weight.dtype)
    found = to_host(weight).reshape(-1)
    is_small = found.size <= _EXACT_VALUES
    has_formula = type(initializer).__module__.startswith("keras.")
    if not is_small or (has_formula and not exact and found.size >= _FEW_VALUES):
        sample = found[:_EXACT_VALUES].astype(np.float64)
        mean, spread = _distribution(initializer, shape) if has_formula else _measured(initializer, shape, dtype)
        error = max(0.05, 4 / math.sqrt(sample.size)) * spread
        is_like_it = bool(abs(sample.std() - spread) <= error and abs(sample.mean() - mean) <= error)
        if is_like_it or not is_small:
            return is_like_it
    return np.array_equal(found, value_of(initializer(shape, dtype=dtype)).reshape(-1))


def _distribution(initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return mean and standard deviation of what an initializer of Keras draws."""
    mean, spread = 0.0, 0.0
    match initializer:
        case keras.initializers.Orthogonal():
            # Of a matrix of n orthonormal rows or columns the squares add up to n.
            spread = abs(initializer.gain) / math.sqrt(max(math.prod(shape[:-1]), shape[-1]))
        case keras.initializers.VarianceScaling():
            fan_in, fan_out = _fans(initializer, shape)
            fan = {"fan_in": fan_in, "fan_out": fan_out}.get(initializer.mode, (fan_in + fan_out) / 2)
            spread = math.sqrt(initializer.scale / max(1.0, fan))
        case keras.initializers.RandomUniform():
            mean = (initializer.minval + initializer.maxval) / 2
            spread = (initializer.maxval - initializer.minval) / math.sqrt(12)
        case keras.initializers.TruncatedNormal():
            mean, spread = initializer.mean, _TRUNCATED * initializer.stddev
        case _:
            mean, spread = initializer.mean, initializer.stddev
    return float(mean), max(float(spread), math.ulp(0.0))


def _measured(initializer: Any, shape: tuple[int, ...], dtype: str) -> tuple[float, float]:
    """Return mean and standard deviation of what an initializer of one's own class draws, from one draw."""
    with apart():
        values = value_of(initializer(shape, dtype=dtype)).astype(np.float64)
    return float(values.mean()), max(float(values.std()), math.ulp(0.0))


def _fans(initializer: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many inputs and outputs a kernel has, as Keras counts them."""
    inputs, outputs = getattr(initializer, "input_axes", None), getattr(initializer, "output_axes", None)
    if inputs is not None and outputs is not None:  # since Keras 3.15
        return math.prod(shape[axis] for axis in inputs), math.prod(shape[axis] for axis in outputs)
    if len(shape) < 2:
        return (math.prod(shape),) * 2
    receptive = math.prod(shape[:-2])
    return shape[-2] * receptive, shape[-1] * receptive
