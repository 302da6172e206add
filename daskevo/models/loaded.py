"""Weights that the user put into a model before it inherits: pretrained ones, statistics of ``adapt``.

Keras keeps no note of them. They are known by not being what their initializer gives: small ones value by value (an
initializer gives the same again), large ones by mean and spread of their first values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from daskevo.models.flat import FlatModel
from daskevo.models.host_memory import to_host, value_of
from daskevo.models.keras_private import with_sublayers
from daskevo.models.seeding import apart

_EXACT_VALUES = 1 << 14
"""Weights with more values than that are compared by mean and spread of so many; their error is a hundredth."""
_MOST_KEPT = 1024
_DRAWING = (
    keras.initializers.RandomNormal,
    keras.initializers.RandomUniform,
    keras.initializers.TruncatedNormal,
    keras.initializers.VarianceScaling,
    keras.initializers.Orthogonal,
)

_distributions: dict[tuple[str, tuple[int, ...], str], tuple[float, float]] = {}


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


def loaded_weights(flat: FlatModel, arrays: Mapping[int, np.ndarray[Any, Any]]) -> Loaded:
    """Return the layers whose loaded weights are about to be replaced.

    Parameters
    ----------
    arrays:
        Tensor number -> the ancestor's values.
    """
    kept: list[int] = []
    replaced: list[int] = []
    for index in sorted({flat.graph.tensors[number].layer for number in arrays}):
        layer = flat.layers[index]
        if not any(_is_set(part) for part in with_sublayers(layer)):
            continue
        numbers = flat.graph.tensor_numbers(index)
        same = all(
            number not in arrays or np.array_equal(to_host(weight), arrays[number], equal_nan=False)
            for number, weight in zip(numbers, layer.weights, strict=True)
        )
        if not same:
            (replaced if layer.trainable_weights else kept).append(index)
    return Loaded(tuple(kept), tuple(replaced))


def _is_set(layer: Any) -> bool:
    if isinstance(layer, keras.layers.Normalization):
        return any(np.any(to_host(weight) != (weight.name == "variance")) for weight in layer.weights)
    if isinstance(layer, keras.layers.EinsumDense):
        return False  # it draws by an initializer that it doesn't keep: nobody can tell
    for weight, initializer in _begun_with(layer):
        if isinstance(initializer, keras.initializers.Constant) and np.ndim(initializer.value):
            return True
        is_drawn = isinstance(initializer, _DRAWING) and isinstance(initializer.seed, int)
        if is_drawn and not _is_initial(weight, initializer):
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


def _is_initial(weight: Any, initializer: Any) -> bool:
    shape, dtype = tuple(map(int, weight.shape)), str(weight.dtype)
    found = to_host(weight).reshape(-1)
    if found.size <= _EXACT_VALUES:
        return np.array_equal(found, value_of(initializer(shape, dtype=dtype)).reshape(-1))
    sample = found[:_EXACT_VALUES].astype(np.float64)
    mean, spread = _distribution(initializer, shape, dtype)
    return bool(abs(sample.std() - spread) <= 0.05 * spread and abs(sample.mean() - mean) <= 0.05 * spread)


def _distribution(initializer: Any, shape: tuple[int, ...], dtype: str) -> tuple[float, float]:
    """Return mean and standard deviation of what an initializer draws."""
    if isinstance(initializer, keras.initializers.Orthogonal):
        # Drawing one takes a decomposition. Of a matrix of n orthonormal rows or columns the squares add up to n.
        return 0.0, abs(initializer.gain) / math.sqrt(max(math.prod(shape[:-1]), shape[-1])) or math.ulp(0.0)
    config = {**initializer.get_config(), "seed": 0}
    key = (f"{type(initializer).__qualname__} {json.dumps(config, sort_keys=True, default=repr)}", shape, dtype)
    if key not in _distributions:
        if len(_distributions) >= _MOST_KEPT:
            _distributions.clear()
        with apart():
            values = value_of(initializer(shape, dtype=dtype)).astype(np.float64)
        _distributions[key] = (float(values.mean()), max(float(values.std()), math.ulp(0.0)))
    return _distributions[key]
