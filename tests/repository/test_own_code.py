"""A layer of the user's own whose code changed: loading says so, verify lists it, nobody inherits through it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.errors import LayerCodeChanged
from daskevo.repository import Repository, Snapshot


@pytest.fixture
def repository(client: Any) -> Any:
    made = daskevo.open(None, f"s-{uuid.uuid4().hex[:8]}", client=client, objective="max score", shards=8)
    yield made
    for model in made.models(made.scope, snapshots=True):
        made.retire(model.model_id)


def gated(function: Callable[[Any], Any], units: int) -> Any:
    import keras

    @keras.saving.register_keras_serializable("test_own_code")
    class Gate(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(shape[-1],), initializer="ones", name="w")

        def call(self, x: Any) -> Any:
            return x * function(self.w * x)

    x = keras.Input((4,))
    hidden = Gate(name="gate")(keras.layers.Dense(5)(x))
    return keras.Model(x, keras.layers.Dense(units)(hidden))


def test_changed_code_of_a_layer_is_said_by_whoever_loads_its_model(repository: Repository) -> None:
    import keras

    from daskevo.models import read_tensors

    model = gated(keras.ops.sigmoid, 3)
    x = np.ones((2, 4), "float32")
    with repository.inherit(model) as child:
        stored = child.put(metrics={"score": 1.0})
        state = Snapshot(child.graph, tuple(read_tensors(child.flat)), {"random/0": np.zeros(2)})
    snapshot = repository.put_snapshot(state, step=1)
    assert repository.verify(rebuild=True).clean
    np.testing.assert_array_equal(repository.load(stored).predict(x, verbose=0), model.predict(x, verbose=0))

    other = gated(keras.ops.tanh, 2)
    with repository.inherit(other) as second:
        assert second.report.words == "gate: its own code, or a value that this reads, is another"
    for name in (stored, snapshot):
        with pytest.warns(LayerCodeChanged, match=f"{name}: the code of layer 'gate'"):
            loaded = repository.load(name)
        repository.load(name)
        assert not np.array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
        for one, mine in zip(loaded.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, mine)
    found = repository.verify(rebuild=True)
    assert sorted(one.model or "" for one in found.differences) == sorted([stored, snapshot])
    assert {one.kind for one in found.differences} == {"changed code"}

    gated(keras.ops.sigmoid, 3)
    assert repository.verify(rebuild=True).clean
    assert repository.load(stored).count_params() == model.count_params()
