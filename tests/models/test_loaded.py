"""Weights that somebody put into a model are told from those that its initializers gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.models import flatten, given_weights, kept_weights, loaded_weights, shape_only, write_tensors
from daskevo.models.host_memory import to_host

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
    for exact in (True, False):
        assert loaded_weights(flat, exact=exact) == {}
    with shape_only():
        assert given_weights(flatten(model_of(LAYERS[name]()))) == {}


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("normalised", "attention")])
def test_a_loaded_layer_was(name: str) -> None:
    model = model_of(LAYERS[name]())
    model.set_weights([weight + 0.2 for weight in model.get_weights()])
    flat = flatten(model)
    found = loaded_weights(flat)
    assert list(found) == [1]
    assert loaded_weights(flat, exact=False) == found
    model.trainable = False
    assert loaded_weights(flat, exact=False) == found

    def start(values: list[Any]) -> str:
        again = model_of(LAYERS[name]())
        again.set_weights(values)
        return loaded_weights(flatten(again))[1]

    values = model.get_weights()
    assert start(values) == found[1]
    assert start([value + 0.1 for value in values]) != found[1]
    with shape_only():
        given = model_of(LAYERS[name]())
        given.set_weights(values)
        assert given_weights(flatten(given)) == found


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

    def drawn(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("mean and spread tell")

    monkeypatch.setattr(type(initializer), "__call__", drawn)
    assert loaded_weights(flat, exact=False) == {}


class Skewed(keras.initializers.RandomNormal):  # type: ignore[misc]
    """Draws otherwise than what it is derived from."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return super().__call__(shape, dtype) ** 2


@pytest.mark.parametrize("units", [100, 8000])
def test_an_initializer_of_ones_own_is_asked_what_it_draws(units: int) -> None:
    flat = flatten(model_of(layers.Dense(units, kernel_initializer=Skewed(seed=3))))
    for exact in (True, False):
        assert loaded_weights(flat, exact=exact) == {}


@pytest.mark.parametrize("initializer", ["glorot_uniform", "he_normal"])
def test_weights_that_have_left_the_range_of_fresh_ones_are_told_without_a_draw(
    initializer: str,
) -> None:
    """Trained ones have about the same mean and spread."""
    model = model_of(layers.Dense(300, kernel_initializer=initializer))
    kernel = model.layers[1].kernel
    values = to_host(kernel).copy()
    values[np.unravel_index(np.abs(values).argmax(), values.shape)] *= 1.05
    kernel.assign(values)
    assert list(loaded_weights(flatten(model))) == [1]
    assert list(loaded_weights(flatten(model), exact=False)) == [1]


def test_weights_much_like_fresh_ones_are_told_value_by_value() -> None:
    model = model_of(layers.Dense(300))
    model.layers[1].kernel.assign(model.layers[1].kernel * 0.99)
    flat = flatten(model)
    assert [list(loaded_weights(flat, exact=exact)) for exact in (True, False)] == [[1], []]
    model.trainable = False
    assert list(loaded_weights(flat, exact=False)) == [1]


def test_a_table_of_constants_was_loaded() -> None:
    def flat(value: float) -> Any:
        x = keras.Input((5,), dtype="int32")
        table = keras.initializers.Constant(np.full((9, 2), value, "float32"))
        return flatten(keras.Model(x, layers.Dense(1)(layers.Embedding(9, 2, embeddings_initializer=table)(x))))

    found = loaded_weights(flat(1.0))
    assert list(found) == [1]
    assert loaded_weights(flat(2.0)) != found
    with shape_only():
        assert given_weights(flat(1.0)) == found


def test_what_was_loaded_and_does_not_train_is_kept_where_the_ancestor_has_moved() -> None:
    model = model_of(layers.Dense(3))
    model.layers[1].set_weights([np.ones((4, 3)), np.ones(3)])
    flat = flatten(model)
    same = dict(enumerate(model.get_weights()))
    moved = {number: array + 1 for number, array in same.items()}
    assert kept_weights(flat, moved) == ()  # nothing is known to be loaded
    flat = replace(flat, graph=flat.graph.started(loaded_weights(flat)))
    assert kept_weights(flat, moved) == ()  # it trains on
    model.trainable = False
    assert (kept_weights(flat, same), kept_weights(flat, moved)) == ((), (1,))
    write_tensors(flat, moved)
    assert kept_weights(flat, moved) == ()


def test_no_large_orthogonal_matrix_is_drawn_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = flatten(model_of(layers.Dense(9000, kernel_initializer="orthogonal")))

    def drawn(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("its decomposition takes seconds")

    monkeypatch.setattr(keras.initializers.Orthogonal, "__call__", drawn)
    assert loaded_weights(flat) == {}
