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
    assert loaded_weights(flat, others).replaced == ()


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("normalised", "attention")])
def test_a_loaded_layer_was(name: str) -> None:
    model = model_of(LAYERS[name]())
    model.set_weights([weight + 0.2 for weight in model.get_weights()])
    flat = flatten(model)
    ancestor = dict(enumerate(read_tensors(flat)))
    assert loaded_weights(flat, ancestor).replaced == ()
    assert loaded_weights(flat, {number: array + 1 for number, array in ancestor.items()}).replaced == (1,)
    model.trainable = False
    assert loaded_weights(flat, {number: array + 1 for number, array in ancestor.items()}).kept == (1,)


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
