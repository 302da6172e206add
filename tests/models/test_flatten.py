"""The walk: order, nesting, sharing, depth, edges."""

from __future__ import annotations

import sys

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.graph import ArchitectureGraph, Edge
from daskevo.models import flatten, rebuild
from tests.models import zoo


def classes(model: keras.Model) -> list[str]:
    flat = flatten(model)
    return [type(flat.layers[vertex.layer]).__name__ for vertex in flat.graph.vertices]


def test_layers_and_tensors_are_numbered_by_first_call() -> None:
    model = zoo.shared()
    flat = flatten(model)

    assert classes(model) == ["InputLayer", "InputLayer", "Dense", "Dense", "Subtract"]
    assert [vertex.layer for vertex in flat.graph.vertices] == [0, 1, 2, 2, 3]
    assert flat.graph.inputs == (0, 1)
    assert flat.graph.outputs == ((4, 0),)
    assert [tensor.spec.shape for tensor in flat.graph.tensors] == [(4, 3), (3,)]
    assert flat.variables() == [*flat.layers[2].weights]


def test_inputs_stand_in_the_order_of_model_inputs_used_or_not() -> None:
    flat = flatten(zoo.unused_input())
    assert [layer.name for layer in flat.layers] == ["unused", "used", flat.layers[2].name]
    assert flat.graph.inputs == (0, 1)
    assert flat.graph.vertices[2].edges == (Edge(1, 0, "inputs"),)


def test_dict_inputs_stand_in_the_order_of_model_inputs() -> None:
    model = zoo.dict_inputs()
    flat = flatten(model)
    assert [flat.layers[index].name for index in flat.graph.inputs] == [tensor.name for tensor in model.inputs]
    assert [flat.layers[index].name for index in flat.graph.inputs] == ["aa", "zz"]


def test_a_nested_model_used_twice_gives_two_vertices_of_one_layer() -> None:
    flat = flatten(zoo.nested_twice())
    assert [vertex.layer for vertex in flat.graph.vertices] == [0, 1, 1]
    assert len(flat.graph.tensors) == 2


def test_a_layer_shared_across_levels_is_one_layer() -> None:
    model = zoo.shared_across_levels()
    flat = flatten(model)
    assert classes(model) == ["InputLayer", "Dense", "Dense", "Activation", "Add"]
    assert len(flat.graph.tensors) == len(model.weights) == 2


def test_inlining_says_the_same_as_writing_it_flat() -> None:
    x = keras.Input((4,))
    y = layers.Dense(5)(x)
    y = layers.Dense(6)(y)
    y = layers.Dense(5)(y)
    assert flatten(keras.Model(x, layers.Dense(2)(y))).graph.ids == flatten(zoo.nested()).graph.ids


def test_a_nested_model_is_seen_with_the_shapes_that_flow_into_it() -> None:
    x = keras.Input((8, 6, 3))
    y = layers.Flatten()(layers.MaxPooling2D()(layers.Conv2D(4, 3, padding="same")(x)))
    assert flatten(keras.Model(x, y)).graph.ids == flatten(zoo.nested_on_another_shape()).graph.ids


def test_what_keras_converts_before_a_nested_model_is_a_vertex() -> None:
    assert classes(zoo.nested_integers()) == ["InputLayer", "Absolute", "Cast", "Embedding", "Flatten"]
    assert classes(zoo.mixed_precision()) == ["InputLayer", "Dense", "Identity", "Dense", "Dense"]


def test_wrappers_stay_whole() -> None:
    model = zoo.wrappers()
    flat = flatten(model)
    assert classes(model) == ["InputLayer", "Bidirectional", "TimeDistributed"]
    assert [len(layer.tensors) for layer in flat.graph.layers] == [0, 6, 4]


def test_masks_passed_by_keyword_are_edges_and_implicit_ones_are_not() -> None:
    flat = flatten(zoo.keyword_masks())
    assert flat.graph.vertices[2].edges == (Edge(0, 0, "sequences"), Edge(1, 0, "mask"))
    # The mask that was passed on by keyword is the one that the tensor carries by itself.
    assert [edge.argument for edge in flat.graph.vertices[3].edges] == ["inputs"]
    assert classes(zoo.implicit_masks()) == ["InputLayer", "Embedding", "LSTM", "MultiHeadAttention", "GRU"]


def test_recurrent_state_flows_from_its_own_slot() -> None:
    flat = flatten(zoo.recurrent())
    assert flat.graph.vertices[3].edges == (
        Edge(2, 0, "sequences"),
        Edge(2, 1, "initial_state/0"),
        Edge(2, 2, "initial_state/1"),
    )


def test_weights_keep_the_order_of_layer_weights() -> None:
    model = zoo.spectral_normalization()
    flat = flatten(model)
    assert [tensor.spec.shape for tensor in flat.graph.tensors] == [(4, 3), (1, 3), (3,)]
    quantised = flatten(zoo.quantised())
    assert [tensor.spec.dtype for tensor in quantised.graph.tensors][:3] == ["float32", "int8", "float32"]
    before = [tensor.spec for tensor in flat.graph.tensors]
    model.layers[1].trainable = False
    assert [tensor.spec for tensor in flatten(model).graph.tensors] == before


@pytest.mark.long
def test_a_chain_longer_than_the_recursion_limit() -> None:
    x = keras.Input((2,))
    y = x
    for _ in range(1500):
        y = layers.ReLU()(y)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(20_000)  # Keras itself is recursive here
        model = keras.Model(x, y)
        sys.setrecursionlimit(400)
        flat = flatten(model)
        assert len(set(flat.graph.ids)) == 1501
        record = ArchitectureGraph.from_json(flat.graph.to_json())
    finally:
        sys.setrecursionlimit(limit)
    assert record.ids == flat.graph.ids


def test_models_nested_deeper_than_the_recursion_limit() -> None:
    x = keras.Input((2,))
    model = keras.Model(x, layers.Dense(2)(x))
    for _ in range(60):
        x = keras.Input((2,))
        model = keras.Model(x, model(x))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(150)
    try:
        assert len(flatten(model).graph.vertices) == 2
    finally:
        sys.setrecursionlimit(limit)


def test_a_model_that_returns_its_input() -> None:
    x = keras.Input((2,))
    inner = keras.Model(x, x)
    y = keras.Input((2,))
    model = keras.Model(y, [inner(y), y])
    flat = flatten(model)
    assert flat.graph.outputs == ((0, 0), (0, 0))
    value = np.ones((1, 2), "float32")
    np.testing.assert_array_equal(rebuild(flat.graph)(value)[0], value)


def test_only_what_the_outputs_need_is_walked_in_a_nested_model() -> None:
    a, b = keras.Input((4,)), keras.Input((4,))
    inner = keras.Model([a, b], [layers.ReLU()(a), layers.Softmax()(b)])
    x, y = keras.Input((4,)), keras.Input((4,))
    model = keras.Model([x, y], inner([layers.LeakyReLU()(x), y])[1])
    assert classes(model) == ["InputLayer", "InputLayer", "Softmax"]
    rebuild(flatten(model).graph)
