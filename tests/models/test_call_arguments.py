"""Arguments of calls: whatever decides what is computed is stored, given back, and tells functions apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from daskevo.models import flatten, rebuild

FACTORS = np.arange(24.0).reshape(2, 3, 4) % 7 / 7


@keras.saving.register_keras_serializable("tests.call_arguments")
class Angle(layers.Layer):
    def call(self, x: Any, height: float = 0.0) -> Any:
        return x + np.arctan2(height, -1.0)


def attention(x: Any, **given: Any) -> Any:
    return ops.concatenate(keras.tree.flatten(layers.MultiHeadAttention(2, 2)(x, x, **given))[:1], axis=-1)


def scores(x: Any, **given: Any) -> Any:
    return keras.tree.flatten(layers.MultiHeadAttention(2, 2)(x, x, **given))[-1]


def first_three(x: Any) -> Any:
    return x[:, 0, :3]


CALLS: dict[str, tuple[Callable[..., Any], Callable[[Any], dict[str, Any]]]] = {
    "causal mask": (attention, lambda x: {"use_causal_mask": True}),
    "attention mask": (attention, lambda x: {"attention_mask": x[:, :, :3] > 0.5}),
    "attention mask of an array": (attention, lambda x: {"attention_mask": np.tri(3)[None] > 0}),
    "value mask": (attention, lambda x: {"value_mask": x[:, :, 0] > 0.2, "use_causal_mask": False}),
    "scores": (scores, lambda x: {"return_attention_scores": True}),
    "causal mask of a list": (
        lambda x, **given: layers.Attention()([x, x], **given),
        lambda x: {"use_causal_mask": True},
    ),
    "masks of a list": (
        lambda x, **given: layers.Attention()([x, x], **given),
        lambda x: {"mask": [None, x[:, :, 0] > 0.2]},
    ),
    "state of an LSTM": (
        lambda x, **given: layers.LSTM(3)(x, **given),
        lambda x: {"initial_state": [first_three(x), first_three(x) * 2]},
    ),
    "state of a GRU": (lambda x, **given: layers.GRU(3)(x, **given), lambda x: {"initial_state": first_three(x)}),
    "states both ways": (
        lambda x, **given: layers.Bidirectional(layers.GRU(3))(x, **given),
        lambda x: {"initial_state": [first_three(x), first_three(x) * 2]},
    ),
    "mask of an LSTM": (lambda x, **given: layers.LSTM(3)(x, **given), lambda x: {"mask": x[:, :, 0] > 0.2}),
    "mask of a softmax": (lambda x, **given: layers.Softmax()(x, **given), lambda x: {"mask": x > 0.2}),
    "an operation's number": (lambda x, **given: ops.leaky_relu(x - 0.5, **given), lambda x: {"negative_slope": 0.9}),
    "minus nought": (lambda x, **given: Angle()(x, **given), lambda x: {"height": -0.0}),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_decides_what_is_computed_is_kept(name: str) -> None:
    call, given = CALLS[name]
    x = keras.Input((3, 4))
    model = keras.Model(x, call(x, **given(x)))
    graph = flatten(model).graph
    rebuilt = rebuild(graph)
    rebuilt.set_weights(model.get_weights())
    expected, found = (np.asarray(one(FACTORS)) for one in (model, rebuilt))
    np.testing.assert_array_equal(found, expected)

    plain = keras.Model(x, call(x))
    assert flatten(plain).graph.ids[-1] != graph.ids[-1]
    plain.set_weights(model.get_weights())
    assert not np.array_equal(np.asarray(plain(FACTORS)), expected)  # so leaving it out would have shown
