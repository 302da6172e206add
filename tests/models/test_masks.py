"""Masks, by name, by position and carried by a tensor: a rebuilt model computes what the model did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from daskevo.models import flatten, read_tensors, rebuild_flat

WORDS = np.array([[1, 2, 0, 3, 0], [0, 1, 1, 5, 0]], "int32")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras, under numpy 2
]


@keras.saving.register_keras_serializable("test_masks")
class Needs(layers.Layer):
    """Has a mask without a default."""

    def call(self, inputs: Any, mask: Any) -> Any:
        return inputs * ops.cast(mask, inputs.dtype)[..., None]


@keras.saving.register_keras_serializable("test_masks")
class Padded(layers.Layer):
    """Has a mask whose name says nothing to Keras."""

    def call(self, inputs: Any, padding_mask: Any = None) -> Any:
        return inputs if padding_mask is None else inputs * ops.cast(padding_mask, inputs.dtype)[..., None]


@keras.saving.register_keras_serializable("test_masks")
class Attending(layers.Layer):
    """Has a second mask: with that one Keras doesn't fill in the first."""

    def call(self, inputs: Any, attention_mask: Any = None, mask: Any = None) -> Any:
        if attention_mask is not None:
            inputs = inputs + ops.cast(attention_mask, inputs.dtype)[..., None]
        return inputs if mask is None else inputs * ops.cast(mask, inputs.dtype)[..., None]


def carried(y: Any) -> Any:
    return y._keras_mask


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "carried, by position": lambda x, y: layers.GlobalAveragePooling1D()(y, carried(y)),
    "carried, by name": lambda x, y: layers.GlobalAveragePooling1D()(y, mask=carried(y)),
    "carried, computed again": lambda x, y: layers.GlobalAveragePooling1D()(y, ops.not_equal(x, 0)),
    "carried on by an LSTM": lambda x, y: layers.GlobalAveragePooling1D()(
        layers.LSTM(3, return_sequences=True)(y), carried(y)
    ),
    "carried, into attention": lambda x, y: layers.MultiHeadAttention(2, 3)(y, y, y, carried(y)),
    "carried, behind a default": lambda x, y: layers.Bidirectional(layers.GRU(2))(y, None, carried(y)),
    "carried, as a list": lambda x, y: layers.Attention()([y, y], [carried(y), carried(y)]),
    "another, by position": lambda x, y: layers.GlobalAveragePooling1D()(y, ops.not_equal(x, 1)),
    "another, by name": lambda x, y: layers.GlobalAveragePooling1D()(y, mask=ops.not_equal(x, 1)),
    "half a list": lambda x, y: layers.Attention()([y, y], mask=[carried(y), None]),
    "needed, by name": lambda x, y: Needs()(y, mask=carried(y)),
    "needed, by position": lambda x, y: Needs()(y, carried(y)),
    "of another name": lambda x, y: Padded()(y, padding_mask=carried(y)),
    "of another name, by position": lambda x, y: Padded()(y, carried(y)),
    "beside a second": lambda x, y: Attending()(y, attention_mask=ops.equal(x, 1), mask=carried(y)),
    "beside a second, by position": lambda x, y: Attending()(y, ops.equal(x, 1), carried(y)),
    "without the second": lambda x, y: Attending()(y, None, carried(y)),
}


def model_of(call: Callable[[Any, Any], Any]) -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    return keras.Model(x, call(x, layers.Embedding(10, 4, mask_zero=True)(x)))


@pytest.mark.parametrize("name", CALLS)
def test_a_rebuilt_model_computes_what_the_model_did(name: str) -> None:
    model = model_of(CALLS[name])
    flat = flatten(model)
    again = rebuild_flat(flat.graph, tensors=dict(enumerate(read_tensors(flat)))).model
    np.testing.assert_array_equal(again(WORDS), model(WORDS))


@pytest.mark.parametrize("name", CALLS)
def test_a_file_gives_the_same_graph(name: str, tmp_path: Path) -> None:
    model = model_of(CALLS[name])
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    # What Keras itself loses of a call (it fills in no second mask) is no matter of graphs.
    if np.array_equal(loaded(WORDS), model(WORDS)):
        assert flatten(loaded).graph.ids == flatten(model).graph.ids


def test_a_carried_mask_is_one_call_however_it_is_given() -> None:
    names = ["carried, by position", "carried, by name", "carried, computed again"]
    implicit = model_of(lambda x, y: layers.GlobalAveragePooling1D()(y))
    assert {flatten(model_of(CALLS[name])).graph.ids for name in names} == {flatten(implicit).graph.ids}
    other = flatten(model_of(CALLS["another, by name"])).graph.ids
    assert other == flatten(model_of(CALLS["another, by position"])).graph.ids
    assert other[-1] != flatten(implicit).graph.ids[-1]
