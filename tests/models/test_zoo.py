"""Every kind of model: it flattens, is rebuilt from its JSON record, computes the same, and its ids are stable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from daskevo.graph import ArchitectureGraph, longest_common_prefix
from daskevo.models import flatten, read_tensors, rebuild_flat, shape_only, write_tensors
from tests.cases import with_long
from tests.models.zoo import ZOO, batch

# Built by adapt or by quantising values, which needs values.
NEED_VALUES = {"quantised", "lookups", "preprocessing"}


def run(model: keras.Model, inputs: Any) -> list[np.ndarray]:
    return [part.numpy() for part in keras.tree.flatten(model(inputs, training=False))]


@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
@pytest.mark.parametrize("name", with_long(ZOO, "quantised"))
def test_rebuilt_from_its_record_it_computes_the_same(name: str) -> None:
    model = ZOO[name]()
    flat = flatten(model)
    record = ArchitectureGraph.from_json(json.loads(json.dumps(flat.graph.to_json())))
    again = rebuild_flat(record)

    assert again.flat.graph.ids == flat.graph.ids
    assert [tensor.spec for tensor in again.flat.graph.tensors] == [tensor.spec for tensor in flat.graph.tensors]
    assert len({id(variable) for variable in again.flat.variables()}) == len(model.weights)

    write_tensors(again.flat, dict(enumerate(read_tensors(flat))))
    inputs = batch(model)
    for expected, found in zip(run(model, inputs), run(again.model, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
@pytest.mark.parametrize("name", with_long(ZOO, "quantised"))
def test_built_twice_it_is_the_same_whatever_the_names(name: str) -> None:
    first, second = flatten(ZOO[name]()), flatten(ZOO[name]())

    assert first.graph.ids == second.graph.ids
    prefix = longest_common_prefix(second.graph, first.graph)
    assert len(prefix) == len(first.graph.vertices)
    assert [mine for mine, _ in prefix.tensors(second.graph, first.graph)] == list(range(len(first.graph.tensors)))
    if name not in NEED_VALUES:
        with shape_only():
            assert flatten(ZOO[name]()).graph.ids == first.graph.ids


@pytest.mark.parametrize("name", ["nested", "nested_twice", "shared_across_levels", "wrappers", "operations"])
def test_flattening_leaves_the_model_as_it_was(name: str) -> None:
    model = ZOO[name]()
    before = [len(layer._inbound_nodes) for layer in model._flatten_layers()]
    config = json.dumps(model.get_config(), default=str)

    flatten(model)

    assert [len(layer._inbound_nodes) for layer in model._flatten_layers()] == before
    assert json.dumps(model.get_config(), default=str) == config


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' own saving
@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
@pytest.mark.parametrize(
    "name",
    ["nested", "wrappers", "implicit_masks", "masks_into_nested", "operations", "custom", "dict_inputs", "lookups"],
)
def test_saved_and_loaded_by_keras_it_is_the_same(name: str, tmp_path: Path) -> None:
    model = ZOO[name]()
    model.save(tmp_path / "model.keras")
    assert flatten(keras.models.load_model(tmp_path / "model.keras")).graph.ids == flatten(model).graph.ids


@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
@pytest.mark.parametrize("name", ["implicit_masks", "masks_into_nested", "keyword_masks"])
def test_padding_makes_no_difference_after_a_rebuild(name: str) -> None:
    model = ZOO[name]()
    flat = flatten(model)
    again = rebuild_flat(flat.graph, tensors=dict(enumerate(read_tensors(flat)))).model
    ids = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]])
    inputs = ids if len(model.inputs) == 1 else [np.random.default_rng(0).normal(size=(2, 5, 4)), ids > 0]
    whole = ids + 1 if len(model.inputs) == 1 else [inputs[0], ids >= 0]
    np.testing.assert_array_equal(again(inputs), model(inputs))
    assert not np.allclose(model(inputs), model(whole))
