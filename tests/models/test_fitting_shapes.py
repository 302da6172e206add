"""Fitting rules, one by one: what is put in where, and what is refused."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.models import flatten, graph_of, model_of, shape_only
from daskevo.models.fitting_shapes import Expected, fit
from daskevo.space import ModelGraph, Node, cell_of, layer


def image_base() -> keras.Model:
    inputs = keras.Input((8, 8, 3), name="image")
    tensor = keras.layers.Conv2D(4, 3, padding="same", name="conv")(inputs)
    tensor = keras.layers.Conv2D(4, 3, padding="same", name="second")(tensor)
    tensor = keras.layers.Add(name="add")([tensor, tensor])
    tensor = keras.layers.GlobalAveragePooling2D(name="global")(tensor)
    return keras.Model(inputs, keras.layers.Dense(5, name="out")(tensor))


def vector_base() -> keras.Model:
    inputs = keras.Input((6,), name="vector")
    left = keras.layers.Dense(8, name="left")(inputs)
    right = keras.layers.Dense(8, name="right")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2, name="out")(keras.layers.Add(name="add")([left, right])))


IMAGE, VECTOR = graph_of(image_base), graph_of(vector_base)


def fitted(graph: ModelGraph, base: ModelGraph = IMAGE, **options: Any) -> tuple[ModelGraph, list[tuple[str, str]]]:
    """The fitted graph, and what was put in: (name, kind). Keras agrees, and a second fit changes nothing."""
    made = fit(graph, Expected(base), **options)
    with shape_only():
        model = model_of(made)
    assert [tuple(output.shape) for output in model.outputs] == [(None, 5)] if base is IMAGE else [(None, 2)]
    assert fit(made, Expected(base), **options) == made
    assert fit(graph, Expected(base), **options).digest() == made.digest()
    return made, sorted((node.name, node.kind) for node in made.nodes if node.name not in graph.expanded())


def refused(graph: ModelGraph, words: str, base: ModelGraph = IMAGE) -> None:
    with pytest.raises(CandidateRejected, match=words):
        fit(graph, Expected(base))


def test_what_fits_is_left_alone() -> None:
    graph = IMAGE.copy()
    graph.insert_after("conv", layer("BatchNormalization"))
    assert fitted(graph)[1] == []
    # Keras broadcasts a scale over positions.
    scaled = IMAGE.copy()
    scaled.create("scale", layer("GlobalAveragePooling2D", keepdims=True), ["conv"])
    scaled.replace("add", layer("Multiply"))
    scaled.change_input("add", 1, "scale")
    assert fitted(scaled)[1] == []


def test_widths_of_vectors_are_projected_to_the_first() -> None:
    graph = VECTOR.copy()
    graph.replace("left", layer("Dense", units=3))
    made, put_in = fitted(graph, VECTOR)
    assert put_in == [("add.project1", "Dense")]
    assert made["add"].inputs == ("left", "add.project1")
    assert made["add.project1"].config == {"units": 3}
    assert made.history[-1].mutator == "fitting"
    assert {"vector", "right"} <= set(made.untouched)


def test_widths_of_images_are_projected_by_a_convolution() -> None:
    graph = IMAGE.copy()
    graph.change_input("add", 1, "image")
    made, put_in = fitted(graph)
    assert put_in == [("add.project1", "Conv2D")]
    assert (made["add.project1"].config["kernel_size"], made["add.project1"].config["filters"]) == (1, 4)


def test_sizes_that_differ_little_are_padded() -> None:
    graph = IMAGE.copy()
    graph.replace("second", layer("Conv2D", filters=4, kernel_size=3))
    graph.change_input("add", 1, "conv")
    made, put_in = fitted(graph)
    assert put_in == [("add.pad0", "ZeroPadding2D")]
    assert made["add.pad0"].config["padding"] == [[1, 1], [1, 1]]
    graph.replace("second", layer("Conv2D", filters=4, kernel_size=[3, 1]))
    assert fitted(graph)[0]["add.pad0"].config["padding"] == [[1, 1], [0, 0]]


@pytest.mark.parametrize("pool", [2, 3, 4])
def test_sizes_that_differ_much_are_pooled(pool: int) -> None:
    graph = IMAGE.copy()
    graph.replace("second", layer("MaxPooling2D", pool_size=pool))
    graph.change_input("add", 1, "conv")
    _, put_in = fitted(graph)
    assert put_in == [("add.pool1", "AveragePooling2D")]


def test_size_and_width_together_are_projected_with_strides() -> None:
    graph = IMAGE.copy()
    graph.replace("second", layer("Conv2D", filters=6, kernel_size=3, strides=2, padding="same"))
    graph.change_input("add", 1, "conv")
    made, put_in = fitted(graph)
    assert put_in == [("add.project1", "Conv2D")]
    assert made["add.project1"].config["strides"] == 2
    # Sizes that no strides give exactly: pooled, then projected.
    graph.replace("second", layer("Conv2D", filters=6, kernel_size=6))
    assert fitted(graph)[1] == [("add.pool1", "AveragePooling2D"), ("add.project1", "Conv2D")]


def test_a_concatenation_fits_sizes_and_leaves_widths() -> None:
    graph = IMAGE.copy()
    graph.replace("add", layer("Concatenate"))
    graph.change_input("add", 1, "image")
    assert fitted(graph)[1] == []
    graph.replace("second", layer("MaxPooling2D", pool_size=2))
    assert fitted(graph)[1] == [("add.pool1", "AveragePooling2D")]


def test_between_convolution_and_dense() -> None:
    graph = IMAGE.copy()
    graph.delete("global")
    assert fitted(graph)[1] == [("out.pool0", "GlobalAveragePooling2D")]
    assert fitted(graph, vectors="flatten")[1] == [("out.flatten0", "Flatten")]
    # A vector before a convolution is no image.
    vector = IMAGE.copy()
    vector.insert_after("image", layer("Flatten"))
    refused(vector, "Conv2D 'conv' can't take 192")


def test_what_took_vectors_gets_no_sequences() -> None:
    graph = VECTOR.copy()
    graph.create("reshape", layer("Reshape", target_shape=(2, 3)), ["vector"])
    graph.change_input("left", 0, "reshape")
    # Keras would take them, and make sequences of what follows.
    assert fitted(graph, VECTOR)[1] == [("left.pool0", "GlobalAveragePooling1D")]


def test_vectors_and_images_that_meet() -> None:
    graph = VECTOR.copy()
    graph.create("reshape", layer("Reshape", target_shape=(2, 3, 1)), ["vector"])
    graph.change_input("add", 1, "reshape")
    assert fitted(graph, VECTOR)[1] == [("add.pool1", "GlobalAveragePooling2D")]
    free = VECTOR.copy()
    free.create("reshape", layer("Reshape", target_shape=(2, 3)), ["vector"])
    free.create("join", layer("Concatenate"), ["left", "reshape"])
    free.change_input("out", 0, "join")
    assert fitted(free, VECTOR)[1] == [("join.pool1", "GlobalAveragePooling1D")]


def test_a_window_beyond_its_input_is_padded() -> None:
    for windowed in (layer("Conv2D", filters=4, kernel_size=[3, 11]), layer("MaxPooling2D", pool_size=11)):
        graph = IMAGE.copy()
        graph.replace("second", windowed)
        graph.change_input("global", 0, "second")
        made, put_in = fitted(graph)
        assert put_in == [("second.pad0", "ZeroPadding2D")]
        # As little as can be, the odd one behind.
        wanted = [[0, 0], [1, 2]] if windowed.kind == "Conv2D" else [[1, 2], [1, 2]]
        assert made["second.pad0"].config["padding"] == wanted
    graph.replace("second", layer("Conv2D", filters=4, kernel_size=3, dilation_rate=4))
    assert fitted(graph)[0]["second.pad0"].config["padding"] == [[0, 1], [0, 1]]


def test_windows_over_sequences() -> None:
    def base() -> keras.Model:
        inputs = keras.Input((4, 3), name="sequence")
        tensor = keras.layers.Conv1D(2, 2, name="conv")(inputs)
        return keras.Model(inputs, keras.layers.GlobalMaxPooling1D(name="top")(tensor))

    graph = graph_of(base)
    graph.replace("conv", layer("Conv1D", filters=2, kernel_size=7))
    made = fit(graph, Expected(graph_of(base)))
    assert made["conv.pad0"].config["padding"] == [1, 2]
    with shape_only():
        assert model_of(made).outputs[0].shape == (None, 2)


def test_nothing_is_left_of_no_input() -> None:
    """A window that is larger than its input by less than its strides: Keras makes nothing of it, without a word."""
    graph = IMAGE.copy()
    graph.replace("second", layer("MaxPooling2D", pool_size=9, strides=2))
    graph.change_input("global", 0, "second")
    assert fitted(graph)[1] == [("second.pad0", "ZeroPadding2D")]


def test_merges_that_no_rule_is_for() -> None:
    dot = VECTOR.copy()
    dot.replace("left", layer("Dense", units=3))
    dot.replace("add", layer("Dot", axes=1))
    refused(dot, "Dot 'add' can't take 3, 8", VECTOR)
    along = IMAGE.copy()
    along.replace("second", layer("Conv2D", filters=4, kernel_size=[1, 3]))
    along.replace("add", layer("Concatenate", axis=1))
    along.change_input("add", 1, "conv")
    refused(along, "Concatenate 'add' can't take 8x6x4, 8x8x4")


def test_several_tensors_into_one_layer_are_merged() -> None:
    graph = IMAGE.copy()
    graph.connect("image", "second")
    assert fitted(graph)[1] == [("second.merge", "Concatenate")]
    made, put_in = fitted(graph, merge="Add")
    assert put_in == [("second.merge", "Add"), ("second.merge.project1", "Conv2D")]
    assert made["second"].inputs == ("second.merge",)


def test_cells_are_fitted_inside() -> None:
    graph = IMAGE.copy()
    graph.insert_after("conv", cell_of(layer("Conv2D", filters=4, kernel_size=9), layer("ReLU")), "cell")
    assert fitted(graph)[1] == [("cell.conv2d.pad0", "ZeroPadding2D")]


def test_shared_layers_are_called_on_what_made_their_weights() -> None:
    graph = VECTOR.copy()
    graph.put(Node("again", graph["left"].layer, ("right",), shares="left"))
    graph.change_input("add", 1, "again")
    refused(graph, "Dense 'again' can't take 8", VECTOR)
    graph.change_input("again", 0, "vector")
    made, put_in = fitted(graph, VECTOR)
    assert put_in == []
    with shape_only():
        assert len({id(layer) for layer in flatten(model_of(made)).layers}) == 3 + 1


def test_what_no_rule_fits_is_refused_with_the_reason() -> None:
    other = IMAGE.copy()
    other.replace("out", layer("Dense", units=7))
    refused(other, "the output 'out' is 7 of float32, and the base model's is 5")
    groups = IMAGE.copy()
    groups.replace("second", layer("Conv2D", filters=4, kernel_size=3, groups=2))
    groups.change_input("second", 0, "image")
    refused(groups, "Conv2D 'second' can't take 8x8x3: .*groups")
    sequence = IMAGE.copy()
    sequence.insert_after("conv", layer("LSTM", units=4))
    refused(sequence, "LSTM 'lstm' can't take 8x8x4")
    axis = IMAGE.copy()
    axis.replace("add", layer("Concatenate", axis=1))
    axis.change_input("add", 1, "image")
    refused(axis, "Concatenate 'add' can't take")
    gone = IMAGE.copy()
    gone.connect("conv:1", "add")
    refused(gone, "'conv' has 1 outputs")


def test_sizes_that_are_not_known_are_refused() -> None:
    def base() -> keras.Model:
        inputs = keras.Input((None, None, 4), name="image")
        pooled = keras.layers.MaxPooling2D(padding="same", name="pooled")(inputs)
        joined = keras.layers.Concatenate(name="join")([pooled, pooled])
        return keras.Model(inputs, keras.layers.GlobalMaxPooling2D()(joined))

    graph = graph_of(base)
    graph.change_input("join", 1, "image")
    graph.insert_after("pooled", layer("Resizing", height=4, width=4), "sized")
    graph.insert_after("image", layer("Resizing", height=16, width=16), "large")
    graph.change_input("join", 1, "large")
    assert fit(graph, Expected(graph_of(base)))["join.pool1"].kind == "AveragePooling2D"
    graph.connect("image", "join")
    refused(graph, "Concatenate 'join' can't take 4x4x4, 16x16x4, .x.x4", graph_of(base))


@pytest.mark.parametrize("wrong", [layer("Dens", units=3), layer("Dense", unit=3), layer("Dense")])
def test_layers_that_there_are_not_are_the_callers_mistake(wrong: Any) -> None:
    graph = VECTOR.copy()
    graph.replace("left", wrong)
    with pytest.raises(InvalidInput, match="'left' can't be made") as caught:
        fit(graph, Expected(VECTOR))
    assert not isinstance(caught.value, CandidateRejected)
