"""Rebuilding with values: nothing is initialised that is given, and nothing is allocated before it is compared."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.errors import CannotRebuild, InvalidInput
from daskevo.models import check_rebuild, flatten, graph_of, model_of, read_tensors, rebuild, rebuild_flat, shape_only
from daskevo.models.host_memory import aligned_copy
from tests.models import zoo
from tests.models.test_zoo import run

CALLS: list[tuple[int, ...]] = []


@keras.saving.register_keras_serializable("daskevo-tests")
class Counted(keras.initializers.Initializer):
    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        CALLS.append(tuple(shape))
        return keras.ops.ones(shape, dtype)


def counted() -> keras.Model:
    x = keras.Input((4,))
    y = layers.Dense(3, kernel_initializer=Counted(), bias_initializer=Counted())(x)
    return keras.Model(x, layers.Dropout(0.5)(layers.Dense(2, kernel_initializer=Counted())(y)))


@pytest.mark.parametrize("name", ["nested", "spectral_normalization", "quantised", "preprocessing", "mixed_precision"])
def test_values_arrive(name: str) -> None:
    model = zoo.ZOO[name]()
    flat = flatten(model)
    rebuilt = rebuild_flat(flat.graph, tensors=dict(enumerate(read_tensors(flat))))
    inputs = zoo.batch(model)
    for expected, found in zip(run(model, inputs), run(rebuilt.model, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_is_given_is_never_initialised() -> None:
    flat = flatten(counted())
    values = {number: aligned_copy(array + 5) for number, array in enumerate(read_tensors(flat))}
    del values[2]

    CALLS.clear()
    rebuilt = rebuild_flat(flat.graph, tensors=values)

    assert CALLS.count((3, 2)) == 1
    assert (4, 3) not in CALLS
    found = read_tensors(rebuilt.flat)
    for number, array in values.items():
        assert found[number].ctypes.data == array.ctypes.data  # shared, as by write_tensors
    assert (found[2] == 1).all()


def test_a_rebuilt_model_can_be_trained() -> None:
    rebuilt = rebuild_flat(flatten(counted()).graph)
    before = read_tensors(rebuilt.flat)
    rebuilt.model.compile("sgd", "mse")
    rebuilt.model.fit(np.ones((8, 4)), np.zeros((8, 2)), verbose=0)
    assert not np.array_equal(read_tensors(rebuilt.flat)[0], before[0])


def test_values_that_dont_fit_are_refused_before_anything_is_built() -> None:
    graph = flatten(counted()).graph
    for wrong in ({0: np.zeros((4, 3))}, {9: np.zeros((4, 3), "float32")}):
        with pytest.raises(InvalidInput):
            rebuild_flat(graph, tensors=wrong)


def test_a_record_that_lies_about_its_size_costs_no_memory() -> None:
    graph = flatten(counted()).graph
    config = copy.deepcopy(graph.layers[1].config)
    config["config"]["units"] = 10**13
    lying = dataclasses.replace(
        graph, layers=(graph.layers[0], dataclasses.replace(graph.layers[1], config=config), *graph.layers[2:])
    )
    with pytest.raises(CannotRebuild, match="differs at layer"):
        rebuild(lying)


def test_a_layer_that_cant_be_built_without_values_is_built_with_them() -> None:
    @keras.saving.register_keras_serializable("daskevo-tests")
    class FromArray(layers.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = keras.Variable(np.arange(shape[-1], dtype="float32"))

        def call(self, x: Any) -> Any:
            return x * self.kernel

    x = keras.Input((4,))
    flat = flatten(keras.Model(x, FromArray()(x)))
    rebuilt = rebuild_flat(flat.graph)
    np.testing.assert_array_equal(read_tensors(rebuilt.flat)[0], np.arange(4))
    rebuilt = rebuild_flat(flat.graph, tensors={0: np.ones(4, "float32")})
    np.testing.assert_array_equal(read_tensors(rebuilt.flat)[0], np.ones(4))


def test_inside_shape_only_nothing_gets_a_value() -> None:
    with shape_only():
        rebuilt = rebuild_flat(flatten(counted()).graph)
        with pytest.raises(InvalidInput, match="shape_only"):
            rebuild_flat(rebuilt.flat.graph, tensors={0: np.ones((4, 3), "float32")})
    with pytest.raises(InvalidInput, match="shape_only"):
        read_tensors(rebuilt.flat)


ADAPTED: dict[str, tuple[tuple[int, ...], Any]] = {
    "dense": ((4,), layers.Dense),
    "einsum": ((4,), lambda units: layers.EinsumDense("ab,bc->ac", units)),
    "convolution": ((4, 4, 1), lambda units: layers.Conv2D(units, 2)),
    "embedding": ((4,), lambda units: layers.Embedding(9, units)),
}


@pytest.mark.parametrize("kind", ADAPTED)
@pytest.mark.parametrize("alpha", [None, 7, 0.5])
def test_the_scale_of_a_low_rank_adaptation_is_given_back(kind: str, alpha: float | None) -> None:
    shape, make = ADAPTED[kind]
    model = keras.Sequential([keras.Input(shape), make(3)])
    # Keras takes no scale for convolutions in some versions, but they have one.
    model.layers[0].enable_lora(2)
    if alpha is not None:
        model.layers[0].lora_alpha = alpha
    for variable in model.weights:
        variable.assign(np.arange(np.prod(variable.shape)).reshape(variable.shape) / 4)
    flat = flatten(model)
    values = dict(enumerate(read_tensors(flat)))
    inputs = np.arange(2 * np.prod(shape)).reshape(2, *shape) % 9
    expected = np.asarray(model(inputs))

    for rebuilt in (rebuild_flat(flat.graph, tensors=values).model, model_of(graph_of(model))):
        rebuilt.set_weights(model.get_weights())
        np.testing.assert_array_equal(np.asarray(rebuilt(inputs)), expected)
    check_rebuild(flat.graph)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' own quantising
def test_a_layer_that_was_adapted_and_then_quantised_is_given_back() -> None:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    model.layers[0].enable_lora(2, lora_alpha=7)
    model.layers[0].quantize("int8")
    flat = flatten(model)
    rebuilt = rebuild_flat(flat.graph, tensors=dict(enumerate(read_tensors(flat))))
    inputs = zoo.batch(model)
    for expected, found in zip(run(model, inputs), run(rebuilt.model, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)
