"""Failures that people met with neighbouring software, as far as they touch models, under their numbers there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.graph import longest_common_prefix
from daskevo.models import FlatModel, flatten, read_tensors, rebuild_flat, write_tensors
from tests.models import zoo


def inherit(child: FlatModel, parent: FlatModel) -> int:
    """Copy all weights of the prefix, and return how many vertices it has."""
    prefix = longest_common_prefix(child.graph, parent.graph)
    values = read_tensors(parent)
    write_tensors(child, {mine: values[theirs] for mine, theirs in prefix.tensors(child.graph, parent.graph)})
    return len(prefix)


def small() -> keras.Model:
    x = keras.Input((4,))
    y = layers.Activation("relu")(layers.BatchNormalization()(layers.Dense(5)(x)))
    return keras.Model(x, layers.Dense(2)(layers.Concatenate()([y, layers.Dense(3)(x)])))


def test_19_weights_arrive_whatever_the_counters_in_the_names() -> None:
    parent = small()
    stored = flatten(parent)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")

    again = small()
    assert inherit(flatten(again), stored) == len(stored.graph.vertices)
    np.testing.assert_array_equal(again(x), parent(x))

    keras.utils.clear_session()  # names begin at "dense" again, those of living models
    cleared = small()
    assert inherit(flatten(cleared), stored) == len(stored.graph.vertices)
    np.testing.assert_array_equal(cleared(x), parent(x))
    assert {layer.name for layer in cleared.layers} != {layer.name for layer in again.layers}


def some_ids() -> list[str]:
    models = [zoo.nested(), zoo.wrappers(), zoo.operations(), zoo.custom(), zoo.lookups(), small()]
    return [vertex_id.hex() for model in models for vertex_id in flatten(model).graph.ids]


@pytest.mark.long
def test_19_weights_arrive_in_a_fresh_process(tmp_path: Path) -> None:
    parent = flatten(small())
    np.savez(tmp_path / "parent.npz", *read_tensors(parent))
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "ids").write_text(" ".join(some_ids()))
    script = """
        import numpy as np
        from daskevo.models import flatten, write_tensors
        from tests.models.test_failure_kinds import small, some_ids
        for _ in range(3):
            small()  # moves the counters in the names
        assert some_ids() == open("ids").read().split()
        model = small()
        write_tensors(flatten(model), dict(enumerate(np.load("parent.npz").values())))
        np.save("y.npy", model(np.load("x.npy")))
    """
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PYTHONHASHSEED": "4242", "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": ""},
        check=True,
    )
    again = small()
    inherit(flatten(again), parent)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), again(x))


def test_22_named_inputs_are_never_confused() -> None:
    def build(listed: bool) -> keras.Model:
        a, b = keras.Input((4,), name="zz"), keras.Input((4,), name="aa")
        merged = layers.Subtract()([layers.Dense(3)(a), layers.Dense(3)(b)])
        return keras.Model([a, b] if listed else {"zz": a, "aa": b}, merged)

    model = build(listed=False)
    flat = flatten(model)
    rebuilt = rebuild_flat(flat.graph)
    write_tensors(rebuilt.flat, dict(enumerate(read_tensors(flat))))
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=(3, 4)).astype("float32") for name in ("zz", "aa")}

    np.testing.assert_array_equal(rebuilt.model(values), model(values))
    swapped = {"zz": values["aa"], "aa": values["zz"]}
    assert not np.allclose(rebuilt.model(swapped), model(values))
    for order in (["aa", "zz"], ["zz", "aa"]):
        with pytest.raises(ValueError, match="structure"):
            model([values[name] for name in order])
        with pytest.raises(ValueError, match="structure"):
            rebuilt.model([values[name] for name in order])

    # As a list, zz comes first: where aa does in the dict. What is fed by name is never paired with what isn't.
    assert len(longest_common_prefix(flatten(build(listed=True)).graph, flat.graph)) == 0
    assert len(longest_common_prefix(flatten(build(listed=False)).graph, flat.graph)) == len(flat.graph.vertices)


def test_22_inputs_of_other_names_are_not_paired() -> None:
    def build(*names: str) -> keras.Model:
        inputs = {name: keras.Input((4,), name=name) for name in names}
        return keras.Model(inputs, layers.Concatenate()([layers.Dense(3)(tensor) for tensor in inputs.values()]))

    # Sorted by name, both are the first input.
    one, other = flatten(build("aa", "zz")), flatten(build("bb", "zz"))
    prefix = longest_common_prefix(one.graph, other.graph)
    assert [one.layers[one.graph.vertices[mine].layer].name for mine, _ in prefix.vertices][:1] == ["zz"]
    assert len(prefix) == 2


@pytest.mark.parametrize("build", [zoo.shared_across_levels, zoo.shared, zoo.shared_in_a_chain])
def test_23_sharing_survives_a_rebuild_and_training(build: Callable[[], keras.Model]) -> None:
    model = build()
    flat = flatten(model)
    rebuilt = rebuild_flat(flat.graph)
    write_tensors(rebuilt.flat, dict(enumerate(read_tensors(flat))))
    assert rebuilt.model.count_params() == model.count_params() == flat.graph.parameters
    assert len(rebuilt.model.weights) == len(model.weights) == len(flat.graph.tensors)

    inputs: Any = [np.random.default_rng(seed).normal(size=(8, 4)).astype("float32") for seed in range(2)]
    inputs = inputs if len(model.inputs) == 2 else inputs[0]
    target = np.ones((8, model.output_shape[-1]), "float32")
    for one in (model, rebuilt.model):
        keras.utils.set_random_seed(3)
        one.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
        one.train_on_batch(inputs, target)
    if build is not zoo.shared_in_a_chain:  # whose Dropout draws from another seed
        for mine, theirs in zip(read_tensors(rebuilt.flat), read_tensors(flat), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert len(read_tensors(flatten(rebuilt.model))) == 2
