"""Weights of odd shapes and dtypes come back bit for bit: through inherit, put and load, in memory and in a root."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import daskevo


@keras.saving.register_keras_serializable("daskevo-tests")
class Odd(keras.layers.Layer):
    """Adds nothing; its weights are what matters."""

    def build(self, input_shape: Any) -> None:
        def weight(name: str, shape: tuple[int, ...], dtype: str, *, trainable: bool = False) -> Any:
            return self.add_weight(name=name, shape=shape, dtype=dtype, trainable=trainable, initializer="zeros")

        self.gain = weight("gain", (), "float32", trainable=True)
        self.nothing = weight("nothing", (0, 3), "float32")
        self.counts = weight("counts", (2, 2), "int64")
        self.flags = weight("flags", (3,), "bool")
        self.bytes_ = weight("bytes", (5,), "uint8")
        self.half = weight("half", (3,), "float16")
        self.brain = weight("brain", (3,), "bfloat16")
        self.double = weight("double", (1,), "float64")

    def call(self, inputs: Any) -> Any:
        return inputs * (1 + self.gain)


def build(units: int) -> Any:
    return keras.Sequential([keras.Input((4,)), Odd(name=f"odd-{units}"), keras.layers.Dense(units)])


def fill(layer: Any) -> list[Any]:
    rng = np.random.default_rng(7)
    for weight in layer.weights:
        value = rng.integers(0, 2**31, weight.shape) / (1 if "int" in str(weight.dtype) else 3)
        weight.assign(np.asarray(value % 200).astype(weight.numpy().dtype))
    return contents(layer)


def contents(layer: Any) -> list[Any]:
    return [(weight.shape, weight.dtype, np.asarray(weight.numpy()).tobytes()) for weight in layer.weights]


@pytest.mark.parametrize("in_root", [False, True], ids=["memory", "root"])
def test_odd_weights(client: Any, tmp_path: Path, in_root: bool) -> None:
    scope = f"s-{uuid.uuid4().hex[:8]}"
    repository = daskevo.open(tmp_path / "root" if in_root else None, scope, client=client, shards=8)
    parent, child = build(3), build(2)
    with repository.inherit(parent) as first:
        expected = fill(parent.layers[0])
        first.put()
    assert any(value for _, _, value in expected)
    with repository.inherit(child) as second:
        assert second.ancestor == first.model_id
        assert second.report.inherited_tensors == 8
        assert contents(child.layers[0]) == expected
        second.put()
    for name in (first.model_id, second.model_id):
        loaded = repository.load(name, custom_objects={"daskevo-tests>Odd": Odd})
        assert contents(next(layer for layer in loaded.layers if isinstance(layer, Odd))) == expected
    numbers = repository.record(second.model_id).owner_map.entries
    assert {entry.owner for entry in numbers[:8]} == {first.model_id}
    assert repository.verify().clean
    repository.retire(first.model_id)
    repository.retire(second.model_id)
