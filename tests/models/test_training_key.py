"""Models that are trained alike have the same key, and whatever changes a training changes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.code_identity import digest_of
from daskevo.models import flatten, shape_only, training_key


def made(first: Callable[[], Any] = lambda: layers.Dense(4), after: Callable[[Any], None] = lambda model: None) -> Any:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layers.Dense(2)(first()(inputs)))
    after(model)
    return model


def looked_at(*parts: Any) -> tuple[Any, bytes | None]:
    with shape_only():
        model = made(*parts)
        graph = flatten(model).graph
        return graph.ids, training_key(model, graph)


@keras.saving.register_keras_serializable("tests.training_key")
class Scaled(layers.Layer):  # type: ignore[misc]
    def call(self, inputs: Any) -> Any:
        return 2 * inputs


def dense(**options: Any) -> Callable[[], Any]:
    return lambda: layers.Dense(4, **options)


SAME_IDS: list[tuple[Any, ...]] = [
    (dense(kernel_regularizer=keras.regularizers.L2(0.1)),),
    (dense(kernel_regularizer=keras.regularizers.L2(0.2)),),
    (dense(kernel_initializer="zeros"),),
    (dense(kernel_initializer=keras.initializers.RandomNormal(seed=1)),),
    (dense(kernel_constraint="non_neg"),),
    (dense(name="embedding"),),
    (dense(), lambda model: setattr(model.layers[1], "trainable", False)),
    (dense(), lambda model: setattr(model, "rate", 0.1)),
    (dense(), lambda model: setattr(model.layers[1], "rate", 0.1)),
    (dense(), lambda model: setattr(model, "_rate", 0.1)),
    (dense(), lambda model: setattr(model.layers[1], "_rate", 0.1)),
    (dense(), lambda model: model.layers[1].set_weights([np.ones((3, 4)), np.zeros(4)])),
    (dense(), lambda model: model.layers[1].set_weights([np.ones((3, 4)), np.ones(4)])),
    (dense(), lambda model: model.layers[1].kernel.assign(np.ones((3, 4)))),
]


def test_what_ids_leave_out_is_in_the_key() -> None:
    ids, usual = looked_at()
    found = [looked_at(*parts) for parts in SAME_IDS]
    assert {each for each, _ in found} == {ids}, "all of them may share weights"
    keys = [usual, *(key for _, key in found)]
    assert None not in keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("parts", [(), (lambda: Scaled(),), *SAME_IDS])
def test_a_model_that_is_built_again_has_the_same_key(parts: tuple[Any, ...]) -> None:
    first = looked_at(*parts)
    layers.Dense(1)  # numbers of names go on
    assert looked_at(*parts) == first
    assert first[1] is not None


def residual() -> Any:
    inputs = keras.Input((3,))
    inner = layers.Dense(3)(inputs)
    return keras.Model(inputs, keras.ops.relu(inner) + layers.Dense(3)(inner))


def of_rows(first: Callable[[], Any], shape: tuple[int, ...] = (5, 8)) -> Callable[[], Any]:
    def build() -> Any:
        inputs = keras.Input(shape)
        return keras.Model(inputs, first()(inputs))

    return build


NESTED: list[Callable[[], Any]] = [
    residual,
    of_rows(lambda: lambda rows: keras.ops.mean(rows[:, 1:3], axis=1)),
    of_rows(lambda: layers.Bidirectional(layers.LSTM(3))),
    of_rows(lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(3)])),
    of_rows(lambda: layers.Pipeline([layers.RandomFlip(), layers.RandomZoom(0.1)]), (8, 8, 3)),
    of_rows(lambda: layers.TimeDistributed(of_rows(lambda: layers.Dense(3), (8,))())),
]


@pytest.mark.parametrize("build", NESTED)
def test_numbers_of_names_inside_layers_dont_count(build: Callable[[], Any]) -> None:
    def key() -> bytes | None:
        with shape_only():
            model = build()
            return training_key(model, flatten(model).graph)

    first = key()
    before = [layers.Dense(1), layers.LSTM(1), layers.LSTMCell(1), layers.RandomFlip(), keras.Input((2,)), residual()]
    assert before, "names that the next ones have to go on from"
    assert key() == first is not None


def test_rates_of_dropout_and_layers_without_weights_count() -> None:
    assert len({looked_at(lambda rate=rate: layers.Dropout(rate)) for rate in (0.1, 0.2, 0.1)}) == 2


def test_what_cant_be_compared_has_no_key() -> None:
    assert looked_at(dense(), lambda model: setattr(model, "rows", iter([1])))[1] is None


def test_nested_models_that_are_frozen_count() -> None:
    def nested(trainable: bool) -> Callable[[], Any]:
        def build() -> Any:
            inner = keras.Sequential([keras.Input((3,)), layers.Dense(3), layers.BatchNormalization()])
            inner.trainable = trainable
            return inner

        return build

    (ids, key), (others, other) = looked_at(nested(True)), looked_at(nested(False))
    assert ids == others
    assert None is not key != other


def test_names_that_were_made_up_dont_count() -> None:
    def keys(name: str) -> list[Any]:
        with shape_only():
            model = made(dense(name=name))
            graph = flatten(model).graph
            return [training_key(model, graph, names=names) for names in (True, False)]

    (one, made_up), (other, again) = keys("node.1"), keys("node.2")
    assert one != other
    assert made_up == again


def adapted(words: list[str]) -> Any:
    layer = layers.TextVectorization()
    layer.adapt(words)
    return layer


def shifted() -> Any:
    layer = layers.Normalization()
    layer.adapt(np.arange(12.0).reshape(4, 3))
    return layer


KERAS_OBJECTS: list[Callable[[], Any]] = [
    shifted,
    lambda: adapted(["a b"]),
    lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)),
    lambda: keras.Sequential([layers.RandomFlip("horizontal"), layers.Dropout(0.1)]),
    lambda: keras.callbacks.EarlyStopping(patience=3),
    lambda: keras.losses.BinaryCrossentropy(from_logits=True),
]


@pytest.mark.parametrize("build", KERAS_OBJECTS)
def test_objects_of_keras_that_a_problem_holds_are_the_same_when_it_is_read_again(build: Callable[[], Any]) -> None:
    """Whatever Keras calls them by then."""
    assert digest_of(build()) == digest_of(build()) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: layers.Dense(3), lambda: layers.Dense(3, dtype="mixed_float16")),
        (lambda: layers.Dense(3, dtype="bfloat16"), lambda: layers.Dense(3, dtype="mixed_float16")),
        (lambda: keras.DTypePolicy("mixed_float16"), lambda: keras.DTypePolicy("float32")),
        (lambda: layers.ReLU(dtype="float64"), lambda: layers.ReLU()),
        (
            lambda: layers.Dense(3, activation="relu", name="relu"),
            lambda: layers.Dense(3, activation="tanh", name="tanh"),
        ),
    ],
)
def test_settings_that_are_names_count(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    assert digest_of(one()) == digest_of(one()) != digest_of(other())


def test_which_layer_feeds_which_counts() -> None:
    def build(first: bool) -> Any:
        inputs = keras.Input((3,))
        one, two = layers.ReLU()(inputs), layers.ReLU(6)(inputs)
        return keras.Model(inputs, [one, two] if first else [two, one])

    assert digest_of(build(True)) == digest_of(build(True)) != digest_of(build(False))


def test_what_such_objects_have_learnt_counts() -> None:
    assert digest_of(adapted(["a b"])) != digest_of(adapted(["a c"]))
    assert digest_of(made()) != digest_of(made()), "weights were drawn anew"
