"""Weights that the user put into a model before it inherits: pretrained ones, statistics of ``adapt``.

They are part of what a vertex is: a model goes on from weights that began with the same ones, never from others. Built
without values, as a search builds its candidates first, a model says exactly what was given to it. Of one that is built
already Keras keeps no note: what was loaded is known by not being what the initializer gives, small weights value by
value (an initializer gives the same again), large ones by range, mean and spread of their first values. A draw takes
half a millisecond, as long as all else that a small layer needs, so that weights that train can be told by range, mean
and spread alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import keras
import numpy as np

from daskevo.models.flat import FlatModel, weights_of
from daskevo.models.host_memory import to_host, value_of
from daskevo.models.keras_private import given_value, has_value, is_without_values, with_sublayers
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


def loaded_weights(flat: FlatModel, *, exact: bool = True) -> dict[int, str]:
    """Return the layers into which weights were loaded -> a digest of these.

    Parameters
    ----------
    flat:
        A model that was not trained; of weights without values nothing is said.
    exact:
        Compare small weights value by value in layers that train, too; it always is so in those that don't.
    """
    found = {}
    for index, layer in enumerate(flat.layers):
        if (weights := weights_of(layer)) and all(map(has_value, weights)):
            look = exact or not layer.trainable_weights
            if any(_is_set(part, look) for part in with_sublayers(layer)):
                found[index] = _digest([to_host(weight) for weight in weights])
    return found


def given_weights(flat: FlatModel) -> dict[int, str]:
    """Return what `loaded_weights` does, but exactly, of a model built in `shape_only`; to be called in that block."""
    if not is_without_values():
        return loaded_weights(flat)
    found = {}
    for index, layer in enumerate(flat.layers):
        if not (weights := weights_of(layer)):
            continue
        tables = {id(weight): table for part in with_sublayers(layer) for weight, table in _tables(part)}
        given = [(weight, given_value(weight)) for weight in weights]
        values = [tables.get(id(weight)) if value is None else value_of(value) for weight, value in given]
        if any(value is not None for value in values):
            found[index] = _digest(values)
    return found


def kept_weights(flat: FlatModel, arrays: Mapping[int, np.ndarray[Any, Any]]) -> tuple[int, ...]:
    """Return the layers that keep their loaded weights: they don't train, and the ancestor's values differ by now.

    Parameters
    ----------
    flat:
        A model whose graph says what was loaded (`ArchitectureGraph.starts`).
    arrays:
        Tensor number -> the ancestor's values.
    """
    kept = []
    for index in sorted(flat.graph.starts.keys() & {flat.graph.tensors[number].layer for number in arrays}):
        layer = flat.layers[index]
        numbers = zip(flat.graph.tensor_numbers(index), weights_of(layer), strict=True)
        if not layer.trainable_weights and not all(
            number not in arrays or np.array_equal(to_host(weight), arrays[number]) for number, weight in numbers
        ):
            kept.append(index)
    return tuple(kept)


def _digest(values: Sequence[np.ndarray[Any, Any] | None]) -> str:
    """Return a digest of a layer's weights, None for those that are drawn."""
    found = blake2b(digest_size=16)
    for value in values:
        found.update(b"-" if value is None else f"{value.shape} {value.dtype};".encode())
        if value is not None:
            found.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
    return found.hexdigest()


def _tables(layer: Any) -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
    """Yield the weights whose initializer is an array."""
    for weight, initializer in _begun_with(layer):
        if isinstance(initializer, keras.initializers.Constant) and np.ndim(initializer.value):
            table = keras.ops.convert_to_tensor(initializer.value, dtype=weight.dtype)
            yield weight, np.broadcast_to(value_of(table), tuple(weight.shape))


def _is_set(layer: Any, exact: bool) -> bool:
    if isinstance(layer, keras.layers.Normalization):
        # Before `adapt` the variance is 1, mean and count are 0.
        return any(np.any(to_host(weight) != (weight.name == "variance")) for weight in layer.weights)
    if isinstance(layer, keras.layers.EinsumDense):
        return False  # it draws by an initializer that it doesn't keep: nobody can tell
    if any(True for _ in _tables(layer)):
        return True
    for weight, initializer in _begun_with(layer):
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
        mean, spread = _distribution(initializer, shape) if has_formula else _measured(initializer, shape, dtype)
        sample = found[:_EXACT_VALUES].astype(np.float64) - mean
        farthest = max(sample.max(), -sample.min())
        if has_formula and farthest > _farthest(initializer, spread) * (1 + 4 * _epsilon(dtype)):
            return False
        # Four standard errors, 5 % at least: hardly any draw is taken for weights that were loaded.
        error = max(0.05, 4 / math.sqrt(sample.size)) * spread
        # By a dot product: numpy's own `std` takes three times as long for the few values of a small layer.
        off = float(sample.mean())
        own_spread = math.sqrt(max(0.0, float(sample.dot(sample)) / sample.size - off * off))
        is_like_it = abs(own_spread - spread) <= error and abs(off) <= error
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


def _farthest(initializer: Any, spread: float) -> float:
    """Return how far from its mean an initializer of Keras draws at most; trained weights soon lie beyond that."""
    law = getattr(initializer, "distribution", "")
    if law == "uniform" or isinstance(initializer, keras.initializers.RandomUniform):
        return math.sqrt(3) * spread
    if law == "truncated_normal" or isinstance(initializer, keras.initializers.TruncatedNormal):
        return 2 * spread / _TRUNCATED
    return math.inf


def _epsilon(dtype: str) -> float:
    # Rounded to the dtype, a drawn value may lie a little beyond the limit of its distribution.
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 2.0**-20)


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
