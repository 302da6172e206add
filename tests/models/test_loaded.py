"""Weights that somebody put into a model are told from those that its initializers gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.models import flatten, loaded_weights, read_tensors

LAYERS: dict[str, Callable[[], Any]] = {
    "dense": lambda: layers.Dense(3),
    "wide": lambda: layers.Dense(8000),
    "orthogonal": lambda: layers.Dense(8000, kernel_initializer="orthogonal"),
    "not around zero": lambda: layers.Dense(8000, kernel_initializer=keras.initializers.RandomUniform(0, 1)),
    "normal around one half": lambda: layers.Dense(8000, kernel_initializer=keras.initializers.RandomNormal(0.5)),
    "tall orthogonal": lambda: layers.Embedding(8000, 4, embeddings_initializer=keras.initializers.Orthogonal(2.0)),
    "he": lambda: layers.Dense(8000, kernel_initializer="he_normal"),
    "lstm": lambda: layers.LSTM(40),
    "bidirectional": lambda: layers.Bidirectional(layers.GRU(4)),
    "attention": lambda: layers.MultiHeadAttention(2, 3),
    "normalised": lambda: layers.BatchNormalization(),
    "separable": lambda: layers.SeparableConv1D(3, 2),
}


def model_of(layer: Any) -> keras.Model:
    x = keras.Input((5, 4) if not isinstance(layer, layers.Embedding) else (5,))
    y = layer(x, x) if isinstance(layer, layers.MultiHeadAttention) else layer(x)
    return keras.Model(x, y)


@pytest.mark.parametrize("name", LAYERS)
def test_a_fresh_layer_was_not_loaded(name: str) -> None:
    flat = flatten(model_of(LAYERS[name]()))
    others = {number: array + 1 for number, array in enumerate(read_tensors(flat))}
    for exact in (True, False):
        assert loaded_weights(flat, others, exact=exact).replaced == ()


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("normalised", "attention")])
def test_a_loaded_layer_was(name: str) -> None:
    model = model_of(LAYERS[name]())
    model.set_weights([weight + 0.2 for weight in model.get_weights()])
    flat = flatten(model)
    ancestor = dict(enumerate(read_tensors(flat)))
    assert loaded_weights(flat, ancestor).replaced == ()
    others = {number: array + 1 for number, array in ancestor.items()}
    for exact in (True, False):
        assert loaded_weights(flat, others, exact=exact).replaced == (1,)
    model.trainable = False
    assert loaded_weights(flat, others, exact=False).kept == (1,)


DRAWN = {
    "normal": keras.initializers.RandomNormal(0.5, 0.1, seed=1),
    "uniform": keras.initializers.RandomUniform(-1.0, 3.0, seed=1),
    "truncated": keras.initializers.TruncatedNormal(1.0, 2.0, seed=1),
    "orthogonal": keras.initializers.Orthogonal(0.5, seed=1),
    **{
        f"{mode} {law}": keras.initializers.VarianceScaling(2.0, mode, law, seed=1)
        for mode in ("fan_in", "fan_out", "fan_avg")
        for law in ("uniform", "truncated_normal", "untruncated_normal")
    },
}


@pytest.mark.parametrize("shape", [(40, 60), (3, 3, 12, 24)])
@pytest.mark.parametrize("name", DRAWN)
def test_what_an_initializer_draws_is_known_by_mean_and_spread(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    initializer = DRAWN[name]
    layer: Any
    if len(shape) == 2:
        x, layer = keras.Input(shape[:1]), layers.Dense(shape[-1], kernel_initializer=initializer)
    else:
        x, layer = keras.Input((8, 8, shape[-2])), layers.Conv2D(shape[-1], 3, kernel_initializer=initializer)
    flat = flatten(keras.Model(x, layer(x)))
    others = {0: read_tensors(flat)[0] + 1}

    def drawn(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("mean and spread tell")

    monkeypatch.setattr(type(initializer), "__call__", drawn)
    assert loaded_weights(flat, others, exact=False).replaced == ()


class Skewed(keras.initializers.RandomNormal):  # type: ignore[misc]
    """Draws otherwise than what it is derived from."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return super().__call__(shape, dtype) ** 2


@pytest.mark.parametrize("units", [100, 8000])
def test_an_initializer_of_ones_own_is_asked_what_it_draws(units: int) -> None:
    flat = flatten(model_of(layers.Dense(units, kernel_initializer=Skewed(seed=3))))
    others = {number: array + 1 for number, array in enumerate(read_tensors(flat))}
    for exact in (True, False):
        assert loaded_weights(flat, others, exact=exact).replaced == ()


def test_weights_much_like_fresh_ones_are_told_value_by_value() -> None:
    model = model_of(layers.Dense(300))
    kernel = model.layers[1].kernel
    kernel.assign(kernel * 1.01)
    flat = flatten(model)
    others = {number: array + 1 for number, array in enumerate(read_tensors(flat))}
    assert [loaded_weights(flat, others, exact=exact).replaced for exact in (True, False)] == [(1,), ()]
    model.trainable = False
    assert loaded_weights(flat, others, exact=False).kept == (1,)


def test_a_table_of_constants_was_loaded() -> None:
    x = keras.Input((5,), dtype="int32")
    table = keras.initializers.Constant(np.ones((9, 2), "float32"))
    flat = flatten(keras.Model(x, layers.Dense(1)(layers.Embedding(9, 2, embeddings_initializer=table)(x))))
    assert loaded_weights(flat, {0: np.zeros((9, 2), "float32")}).replaced == (1,)


def test_no_large_orthogonal_matrix_is_drawn_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = flatten(model_of(layers.Dense(9000, kernel_initializer="orthogonal")))
    others = {number: array + 1 for number, array in enumerate(read_tensors(flat))}

    def drawn(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("its decomposition takes seconds")

    monkeypatch.setattr(keras.initializers.Orthogonal, "__call__", drawn)
    assert loaded_weights(flat, others).replaced == ()
