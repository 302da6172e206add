"""A configuration that was worked out before is the same as worked out anew, and never that of another layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import pytest
from keras import layers

from daskevo.graph import LayerRecord
from daskevo.models import config_cache, flatten
from daskevo.models.configs import record_config
from tests.models.zoo import ZOO


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    config_cache._known.clear()
    yield
    config_cache._known.clear()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
def test_graphs_are_the_same_whatever_is_known() -> None:
    models = [build() for build in ZOO.values()]
    anew = []
    for model in models:
        config_cache._known.clear()
        anew.append(flatten(model).graph)
    for _ in range(2):
        for model, expected in zip(models, anew, strict=True):
            found = flatten(model).graph
            assert found.ids == expected.ids
            assert list(map(unnamed, found.layers)) == list(map(unnamed, expected.layers))


def unnamed(layer: LayerRecord) -> str:
    """The configuration of a layer without its name: flattening makes some layers itself, and Keras counts those."""
    config = {**layer.config, "config": {**layer.config["config"], "name": ""}}
    return repr(config)


ALMOST_EQUAL: list[list[Any]] = [
    [layers.Rescaling(scale) for scale in (1, 1.0, True, "1", [1], (1,))],
    [layers.Rescaling(1.0, offset) for offset in (0.0, -0.0, 0, False)],
    [layers.Dense(2), layers.EinsumDense("ab,bc->ac", 2), layers.Dense(2, use_bias=False), layers.Dense(3)],
    [layers.Dense(2, activation=name) for name in (None, "relu", "gelu")],
    [layers.Dense(2, kernel_initializer=keras.initializers.RandomNormal(seed=seed)) for seed in (None, 1, 2)],
    [layers.Dense(2, dtype=name) for name in ("float32", "mixed_bfloat16", "bfloat16")],
]


@pytest.mark.parametrize("some", ALMOST_EQUAL, ids=lambda some: type(some[0]).__name__)
def test_layers_that_differ_in_the_least_have_records_of_their_own(some: list[Any]) -> None:
    expected = []
    for layer in some:
        config_cache._known.clear()
        expected.append(record_config(layer))
    config_cache._known.clear()
    for _ in range(2):
        # repr tells 1 from 1.0 and True.
        assert [repr(record_config(layer)) for layer in some] == list(map(repr, expected))


def test_an_equal_layer_is_serialised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    serialised = []
    anew = keras.saving.serialize_keras_object
    monkeypatch.setattr(keras.saving, "serialize_keras_object", lambda layer: serialised.append(layer) or anew(layer))
    found = [record_config(layers.Dense(7, name=name)) for name in ("a", "b")]
    assert [layer.name for layer in serialised] == ["a"]
    assert [record["config"]["name"] for record in found] == ["a", "b"]
    assert list(found[0]["config"]) == list(found[1]["config"])


NAMES = [
    {"class_name": "function", "config": "ours", "registered_name": None},
    {"class_name": "Ours", "config": {}, "registered_name": "ours>Ours"},
]


@pytest.mark.parametrize("part", NAMES, ids=["function", "class"])
def test_what_a_name_stands_for_is_asked_each_time(part: Any) -> None:
    asked = []

    def work_out() -> Any:
        asked.append(part)
        return {"class_name": "Dense", "config": {"name": "a", "parts": [part]}, "registered_name": None}

    layer = layers.Dense(2)
    assert config_cache.recorded(layer, work_out) == config_cache.recorded(layer, work_out)
    assert len(asked) == 2


def test_a_registered_class_goes_by_its_new_name_at_once() -> None:
    class Ours(layers.Layer):
        pass

    before = record_config(Ours())
    keras.saving.register_keras_serializable("daskevo-tests-cache")(Ours)
    assert record_config(Ours())["registered_name"] != before["registered_name"]
