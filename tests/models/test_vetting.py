"""Loading an architecture runs no code, imports nothing and reads no file, whatever its record says."""

from __future__ import annotations

import copy
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

from daskevo.errors import CannotRebuild, CorruptRecord
from daskevo.graph import ArchitectureGraph
from daskevo.models import flatten, rebuild
from tests.models.zoo import Scale

RAN: list[str] = []


def boom(*_: Any, **__: Any) -> None:
    RAN.append("boom")


class Unregistered(layers.Layer):
    def __init__(self, **kwargs: Any) -> None:
        RAN.append("init")
        super().__init__(**kwargs)

    def call(self, x: Any) -> Any:
        return x


@pytest.fixture
def graph() -> ArchitectureGraph:
    x = keras.Input((4,))
    return flatten(keras.Model(x, layers.Dense(3, activation="relu")(x))).graph


def with_config(graph: ArchitectureGraph, config: Any, layer: int = 1) -> ArchitectureGraph:
    records = list(graph.layers)
    records[layer] = dataclasses.replace(records[layer], config=config)
    return dataclasses.replace(graph, layers=tuple(records))


def changed(graph: ArchitectureGraph, **own: Any) -> ArchitectureGraph:
    config = copy.deepcopy(graph.layers[1].config)
    config["config"].update(own)
    return with_config(graph, config)


def lambda_config() -> Any:
    layer = layers.Lambda(boom, output_shape=(4,))
    return {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": json.loads(json.dumps(layer.get_config())),
        "registered_name": None,
    }


def function(module: str, name: str) -> Any:
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


def layer(module: str | None, name: str, registered: str | None = None, /, **config: Any) -> Any:
    return {"module": module, "class_name": name, "config": config, "registered_name": registered}


HOSTILE: dict[str, Any] = {
    "no config": None,
    "a list": [],
    "a class name that is no string": {"class_name": ["Dense"], "config": {}, "module": "keras.layers"},
    "lambda layer": layer("keras.layers", "Lambda", function=function("builtins", "print")),
    "lambda layer by its private module": layer("keras.src.layers.core.lambda_layer", "Lambda", function=None),
    "SavedModel": layer("keras.layers", "TFSMLayer", filepath="/tmp/x"),
    "torch module": layer("keras.layers", "TorchModuleWrapper", module="gASVHw=="),
    "jax": layer("keras.layers", "JaxLayer"),
    "module to import": layer("os", "system", "system"),
    "module of Keras to import": layer("keras.src.applications.resnet", "ResNet50"),
    "module of Keras' family": layer("keras_hub.models", "Backbone"),
    "not a layer": layer("keras.utils", "PyDataset"),
    "a model": layer("keras.callbacks", "LambdaCallback"),
    "optimizer": layer("keras.optimizers", "Adam"),
    "class without module": layer(None, "Unregistered", "Unregistered"),
    "unregistered class by module": layer(__name__, "Unregistered", "Unregistered"),
    "vocabulary file": layer("keras.layers", "StringLookup", vocabulary="/etc/passwd"),
    "build config": {**layer("keras.layers", "ReLU"), "build_config": {"input_shape": [1]}},
    "compile config": {**layer("keras.layers", "ReLU"), "compile_config": {"optimizer": "sgd"}},
    "type spec": {"class_name": "__typespec__", "spec_name": "x", "module": "os", "config": []},
}


@pytest.mark.parametrize("config", HOSTILE.values(), ids=HOSTILE)
def test_refused_as_a_layer(graph: ArchitectureGraph, config: Any) -> None:
    modules = set(sys.modules)
    with pytest.raises(CannotRebuild):
        rebuild(with_config(graph, config))
    assert not RAN
    assert set(sys.modules) == modules


@pytest.mark.parametrize("config", [part for part in HOSTILE.values() if isinstance(part, dict)])
def test_refused_anywhere_inside(graph: ArchitectureGraph, config: Any) -> None:
    with pytest.raises(CannotRebuild):
        rebuild(changed(graph, extra=[{"deep": config}]))
    wrapped = layer("keras.layers", "SpectralNormalization", layer=config, power_iterations=1)
    with pytest.raises(CannotRebuild):
        rebuild(with_config(graph, wrapped))
    assert not RAN


@pytest.mark.parametrize(
    "activation",
    [
        function("builtins", "eval"),
        function("os", "system"),
        function("keras.models", "load_model"),
        function("keras.utils", "get_file"),
        function("keras.config", "enable_unsafe_deserialization"),
        function(__name__, "boom"),
        {"class_name": "__lambda__", "config": {"value": ["4wEAAA==", None, None]}},
        {"module": "builtins", "class_name": "function", "config": {"name": "boom"}, "registered_name": "boom"},
    ],
)
def test_refused_as_an_activation(graph: ArchitectureGraph, activation: Any) -> None:
    with pytest.raises(CannotRebuild):
        rebuild(changed(graph, activation=activation))
    assert not RAN


def test_refused_even_if_unsafe_loading_was_switched_on(graph: ArchitectureGraph) -> None:
    keras.config.enable_unsafe_deserialization()
    try:
        with pytest.raises(CannotRebuild):
            rebuild(with_config(graph, lambda_config()))
    finally:
        from keras.src.backend.common import global_state

        global_state.set_global_attribute("safe_mode_saving", None)
    assert not RAN


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_an_opted_in_lambda_is_stored_and_not_rebuilt() -> None:
    x = keras.Input((4,))
    flat = flatten(keras.Model(x, layers.Dense(2, activation=lambda y: y)(x)), allow_lambda=True)
    with pytest.raises(CannotRebuild):
        rebuild(ArchitectureGraph.from_json(flat.graph.to_json()))


def test_classes_that_the_caller_passes_are_used() -> None:
    x = keras.Input((4,))
    graph = flatten(keras.Model(x, Unregistered()(x))).graph
    RAN.clear()
    with pytest.raises(CannotRebuild, match=r"'Unregistered'.*custom_objects"):
        rebuild(graph)
    assert not RAN
    model = rebuild(graph, custom_objects={"Unregistered": Unregistered})
    assert isinstance(model.layers[1], Unregistered)
    RAN.clear()


def test_a_config_that_says_something_else_is_found_out(graph: ArchitectureGraph) -> None:
    with pytest.raises(CannotRebuild, match=r"differs at layer 'dense.*relu"):
        rebuild(changed(graph, activation="tanh"))
    with pytest.raises(CannotRebuild, match="can't be built and called"):
        rebuild(changed(graph, units="many"))
    with pytest.raises(CannotRebuild, match="differs at layer"):
        rebuild(changed(graph, units=4))


@pytest.mark.parametrize(
    "call",
    [
        None,
        {"args": [{"$": "edge", "edge": 1}], "kwargs": {}},
        {"args": [{"$": "edge", "edge": -1}], "kwargs": {}},
        {"args": [{"$": "edge", "edge": True}], "kwargs": {}},
        {"args": [{"$": "import", "module": "os"}], "kwargs": {}},
        {"args": [], "kwargs": {}},
        {"args": [{"$": "array", "dtype": "object", "shape": [1], "data": "AAAA"}], "kwargs": {}},
        {"args": [{"$": "array", "dtype": "float32", "shape": [10**9], "data": "AAAA"}], "kwargs": {}},
        {"args": [{"$": "dict", "items": [[[], 1]]}], "kwargs": {}},
        {"args": [{"$": "int", "value": "zz"}], "kwargs": {}},
    ],
)
def test_a_hostile_call_is_refused(graph: ArchitectureGraph, call: Any) -> None:
    vertices = (graph.vertices[0], dataclasses.replace(graph.vertices[1], call=call))
    with pytest.raises(CannotRebuild):
        rebuild(dataclasses.replace(graph, vertices=vertices))


@pytest.mark.parametrize(
    "structure",
    [
        None,
        {},
        {"name": "a/b", "inputs": {"$": "edge", "edge": 0}, "outputs": {"$": "edge", "vertex": 1, "slot": 0}},
        {"name": "m", "inputs": {"$": "edge", "edge": 7}, "outputs": {"$": "edge", "vertex": 1, "slot": 0}},
        {"name": "m", "inputs": {"$": "edge", "edge": 0}, "outputs": {"$": "edge", "vertex": [1], "slot": 0}},
        {"name": "m", "inputs": [], "outputs": []},
        {"name": "m", "inputs": {"$": "edge", "edge": 0}, "outputs": {"$": "edge", "vertex": 0, "slot": 0}},
    ],
)
def test_a_hostile_structure_is_refused(graph: ArchitectureGraph, structure: Any) -> None:
    with pytest.raises(CannotRebuild):
        rebuild(dataclasses.replace(graph, structure=structure))


def test_a_record_that_is_no_graph_is_corrupt() -> None:
    with pytest.raises(CorruptRecord):
        ArchitectureGraph.from_json({"layers": []})


def test_a_slot_that_no_layer_has(graph: ArchitectureGraph) -> None:
    with pytest.raises(CannotRebuild):
        rebuild(dataclasses.replace(graph, outputs=((1, 5),)))


def test_names_that_collide_are_kept_apart() -> None:
    def block() -> keras.Model:
        x = keras.Input((4,), name="x")
        return keras.Model(x, Scale(name="scale")(x))

    x = keras.Input((4,), name="x")
    model = rebuild(flatten(keras.Model(x, block()(block()(x)))).graph)
    assert [one.name for one in model.layers] == ["x", "scale", "scale_1"]


def test_no_file_is_read(graph: ArchitectureGraph, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text("a\nb\n")
    x = keras.Input((1,), dtype="string")
    flat = flatten(keras.Model(x, layers.StringLookup(vocabulary=str(path))(x)))
    path.unlink()
    again = rebuild(flat.graph)
    assert again.layers[1].get_vocabulary() == ["[UNK]", "a", "b"]
