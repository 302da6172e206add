"""Pins what daskevo uses of Keras beyond its public API: if one of these fails, keras_private.py has to change."""

from __future__ import annotations

import keras
from keras import layers

from daskevo.models import keras_private


def test_functional_graphs_and_their_calls() -> None:
    x = keras.Input((4,), name="a")
    model = keras.Model(x, layers.Dense(2)(x))
    assert keras_private.functional_of(model) is model
    assert keras_private.functional_of(keras.Sequential([x, layers.Dense(2)])).inputs
    assert keras_private.functional_of(keras.Sequential([layers.Dense(2)])) is None
    assert keras_private.functional_of(layers.Dense(2)) is None
    assert keras_private.runs_its_graph(model)
    assert keras_private.runs_its_graph(keras.Sequential([x]))
    inputs, outputs = keras_private.structures(keras.Model({"a": x}, [x]))
    assert list(inputs) == ["a"]
    assert inputs["a"] is x
    assert isinstance(outputs, list)


def test_histories() -> None:
    x = keras.Input((4,))
    dense = layers.Dense(2)
    y = dense(x)
    operation, node, slot = keras_private.origin(y)
    assert (operation, slot) == (dense, 0)
    assert node.arguments.args == (x,)
    assert node.outputs == [y]
    assert not node.is_input
    assert keras_private.origin(x)[1].is_input
    assert keras_private.origin(keras.KerasTensor((1,))) is None


def test_implicit_masks() -> None:
    x = keras.Input((4,), dtype="int32")
    assert keras_private.implicit_mask(x) is None
    assert keras_private.implicit_mask(layers.Embedding(5, 2, mask_zero=True)(x)).dtype == "bool"


def test_sublayers() -> None:
    wrapper = layers.SpectralNormalization(layers.Dense(2))
    assert keras_private.with_sublayers(wrapper) == [wrapper, wrapper.layer]


def test_names() -> None:
    assert keras_private.public_name(layers.Dense) == "keras.layers.Dense"
    assert keras_private.public_name(test_names) is None
    assert keras_private.public_symbol("keras.layers.Dense") is layers.Dense
    assert keras_private.public_symbol("os.system") is None
    assert not keras_private.is_registered([])


def test_numbered_names() -> None:
    first = keras.layers.Dense(1).name
    with keras_private.fresh_names():
        assert [keras.layers.Dense(1).name for _ in range(2)] == ["dense", "dense_1"]
    after = keras.layers.Dense(1).name
    assert int(after.rpartition("_")[2]) == int(first.partition("_")[2] or 0) + 1


def test_lookups() -> None:
    table = layers.StringLookup(vocabulary=["a"])
    assert list(keras_private.lookup_of(table)) == [table]
    assert len(list(keras_private.lookup_of(layers.TextVectorization(vocabulary=["a"])))) == 1
    assert list(keras_private.lookup_of(layers.Dense(2))) == []


def test_values() -> None:
    assert keras_private.can_do_without_values()
    with keras_private.without_values() as pending:
        assert not keras_private.can_do_without_values()
        dense = layers.Dense(2)
        dense.build((None, 3))
        assert list(map(id, pending())) == [id(dense.kernel), id(dense.bias)]
    assert not keras_private.has_value(dense.kernel)

    keras_private.give_value(dense.bias)
    keras_private.give_value(dense.kernel, lambda *_, **__: keras.ops.full((3, 2), 7.0))
    assert keras_private.has_value(dense.bias)
    assert dense.kernel.numpy().min() == 7
    assert keras_private.has_value(keras.Variable(1.0))


def test_draws_without_a_generator_of_their_own() -> None:
    one, other = keras.random.SeedGenerator(1), keras.random.SeedGenerator(1)
    with keras_private.drawing_from(one):
        drawn = keras.random.normal((2,))
    with keras_private.drawing_from(other):
        again = keras.random.normal((2,))
    assert bool(keras.ops.all(drawn == again))
    assert int(one.state[0]) != 1
