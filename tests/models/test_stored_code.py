"""A layer of the user's own whose code changed since its model was stored: loaded with its weights, and said."""

from __future__ import annotations

import dataclasses
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.errors import LayerCodeChanged
from daskevo.graph import ArchitectureGraph
from daskevo.models import as_it_is, check_rebuild, flatten, graph_of, rebuild, rebuild_flat, training_key
from daskevo.models.custom_code import CODE_READ_BY, RUNNING_CODE

FACTOR = 2.0
CALLS = 0


def set_factor(value: float) -> None:
    global FACTOR
    FACTOR = value


@pytest.fixture
def factor() -> Iterator[Callable[[float], None]]:
    yield set_factor
    set_factor(2.0)


@keras.saving.register_keras_serializable("test_stored_code")
class Reading(layers.Layer):
    """It reads a global that another function sets, and one that it sets itself."""

    def call(self, x: Any) -> Any:
        global CALLS
        CALLS += 1
        return x * FACTOR


def gate(function: Callable[[Any], Any]) -> Any:
    """Register a class of layers under a name that others had before."""

    @keras.saving.register_keras_serializable("test_stored_code")
    class Gate(layers.Layer):
        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            return function(self.w * x)

    return Gate(name="gate")


def activation(scale: float) -> Any:
    @keras.saving.register_keras_serializable("test_stored_code", name="scaled")
    def scaled(x: Any) -> Any:
        return x * scale

    return layers.Dense(3, activation=scaled, name="dense")


def model_with(layer: Any, name: str) -> Any:
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2)(layer(x)), name=name)


def stored(graph: ArchitectureGraph) -> ArchitectureGraph:
    return ArchitectureGraph.from_json(json.loads(graph.text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: gate(keras.ops.sigmoid), lambda: gate(keras.ops.tanh)),
        (lambda: activation(2.0), lambda: activation(3.0)),
        (lambda: layers.RNN(cell(1.0)), lambda: layers.RNN(cell(2.0))),
    ],
    ids=["class", "activation", "inside a wrapper"],
)
def test_a_model_whose_layers_code_changed_is_made_with_its_weights_and_says_so(
    before: Callable[[], Any], after: Callable[[], Any], request: Any
) -> None:
    name = f"model-{request.node.callspec.id.replace(' ', '-')}"
    layer = before()
    sequence = isinstance(layer, layers.RNN)
    x = keras.Input((5, 4) if sequence else (4,))
    model = keras.Model(x, layers.Dense(2)(layer(x)), name=name)
    graph = stored(flatten(model).graph)
    assert not check_rebuild(graph)
    rebuild(graph)
    after()
    assert check_rebuild(graph).layers == (layer.name,)
    weights = [np.full(key.spec.shape, 0.5, key.spec.dtype) for key in graph.tensors]
    with pytest.warns(LayerCodeChanged, match=f"{name}: the code of layer '{layer.name}'.* put the code back") as said:
        again = rebuild_flat(graph, tensors=dict(enumerate(weights))).model
    assert len(said) == 1
    assert "versions of Python" not in str(said[0].message)
    assert all((weight == 0.5).all() for weight in again.get_weights())
    rebuild(graph)  # once for each model, and each state of the code
    before()
    rebuild(graph)


def cell(factor: float) -> Any:
    @keras.saving.register_keras_serializable("test_stored_code")
    class Cell(layers.Layer):
        state_size = output_size = 4

        def call(self, x: Any, states: Any) -> Any:
            found = x * factor + states[0]
            return found, [found]

    return Cell()


def test_whoever_makes_an_error_of_the_warning_gets_it_each_time() -> None:
    graph = flatten(model_with(gate(keras.ops.sigmoid), "strict")).graph
    gate(keras.ops.relu)
    for _ in range(2):
        with pytest.raises(LayerCodeChanged):
            rebuild(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LayerCodeChanged)
        assert rebuild(graph).count_params() == 4 + 10


def without_digests(graph: ArchitectureGraph) -> ArchitectureGraph:
    value: Any = json.loads(graph.text)
    signatures = [json.loads(one) for one in value["signatures"]]
    for signature in signatures:
        signature["layer"].pop("code", None)
    value["signatures"] = [json.dumps(one, sort_keys=True, separators=(",", ":")) for one in signatures]
    return ArchitectureGraph.from_json(value)


def test_of_what_a_record_does_not_say_nothing_is_said() -> None:
    graph = flatten(model_with(gate(keras.ops.sigmoid), "unsaid")).graph
    structure: Any = graph.structure
    assert structure[CODE_READ_BY] == RUNNING_CODE
    gate(keras.ops.tanh)
    other = dataclasses.replace(graph, structure={**structure, CODE_READ_BY: "cpython-399 2"})
    for silent in (without_digests(graph), other):
        assert not check_rebuild(silent)
        rebuild(silent)
    early = dataclasses.replace(
        graph, structure={key: structure[key] for key in ("name", "inputs", "outputs", "keras")}
    )
    with pytest.warns(LayerCodeChanged, match="doesn't say by which versions of Python"):
        rebuild(early)


def test_models_of_keras_alone_say_nothing_of_code() -> None:
    structure: Any = flatten(model_with(layers.Dense(3), "plain")).graph.structure
    assert CODE_READ_BY not in structure


def test_code_that_cannot_be_compared_is_not_said_to_have_changed(caplog: pytest.LogCaptureFixture) -> None:
    with Path(__file__).open() as one, Path(__file__).open() as other:
        graph = flatten(model_with(gate(lambda x: x if one else x + 1), "unknown")).graph
        gate(lambda x: x if other else x + 1)
        assert not check_rebuild(graph)
    assert "can't be compared by its code" in caplog.text


def test_a_global_that_is_set_at_run_time_counts(
    factor: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    model = model_with(Reading(name="reading"), "reading")
    flat = flatten(model)
    key = training_key(model, flat.graph)
    assert flatten(model).graph.ids == flat.graph.ids, "what the layer itself sets is no setting of it"
    assert as_it_is(model, flat) is flat
    with caplog.at_level(logging.WARNING):
        factor(5.0)
        changed = flatten(model_with(Reading(), "other")).graph
    assert changed.ids[1] != flat.graph.ids[1]
    assert "Reading, or something that it reads, is another now" in caplog.text
    assert "FACTOR" in caplog.text
    assert training_key(model, flat.graph) != key
    assert as_it_is(model, flat).graph.ids[1] == changed.ids[1]
    with pytest.warns(LayerCodeChanged, match="'reading'"):
        rebuild(flat.graph)
    factor(2.0)
    rebuild(flat.graph)


def test_a_base_of_a_space_is_told_from_what_is_registered_now() -> None:
    model = model_with(gate(keras.ops.sigmoid), "base")
    gate(keras.ops.tanh)
    with pytest.warns(LayerCodeChanged, match="the base model 'base'"):
        graph_of(model)
