"""``training`` as Keras applies it: a mode that a call was given is kept, wherever it decides what is computed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from daskevo.models import flatten, graph_of, model_of, rebuild

WAYS: list[dict[str, Any]] = [{}, {"training": None}, {"training": False}, {"training": True}]


def seen(x: Any, training: Any) -> Any:
    """Shift what flows by the mode, so that each mode gives other values."""
    return 10 * x + {None: 1, False: 2, True: 3}[training]


@keras.saving.register_keras_serializable("tests.training")
class SaysNone(layers.Layer):
    def call(self, x: Any, training: Any = None) -> Any:
        return seen(x, training)


@keras.saving.register_keras_serializable("tests.training")
class SaysFalse(layers.Layer):
    def call(self, x: Any, training: Any = False) -> Any:
        return seen(x, training)


@keras.saving.register_keras_serializable("tests.training")
class SaysTrue(layers.Layer):
    def call(self, x: Any, training: Any = True) -> Any:
        return seen(x, training)


@keras.saving.register_keras_serializable("tests.training")
class SaysNothing(layers.Layer):
    """Keras passes the mode of its call on to the layers inside."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = [SaysNone(), SaysFalse(), SaysTrue()]

    def build(self, shape: Any) -> None:
        for part in self.parts:
            part.build(shape)

    def call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


def drops(rate: float = 0.5) -> Any:
    return layers.Dropout(rate, seed=3)


KINDS: dict[str, Callable[[], Any]] = {
    "none": SaysNone,
    "false": SaysFalse,
    "true": SaysTrue,
    "inside": SaysNothing,
    "dropout": drops,
    "normalisation": layers.BatchNormalization,
    "dense": lambda: layers.Dense(4, kernel_initializer="ones"),
    "augmentation": lambda: layers.RandomBrightness(0.5, value_range=(0, 9), seed=3),
    "activation": layers.ReLU,
    "wrapper": lambda: layers.SpectralNormalization(layers.Dense(4, kernel_initializer="ones")),
}


def outputs(model: keras.Model) -> list[np.ndarray[Any, Any]]:
    """Return what a model gives in each mode, beginning each time with the same state."""
    weights, found = model.get_weights(), []
    for way in WAYS:
        for variable in model.variables:
            if "seed_generator_state" in variable.path:
                variable.assign([0, 3])
        values = ops.reshape(ops.arange(2.0 * np.prod(model.input_shape[1:])), (2, *model.input_shape[1:]))
        found.append(np.asarray(model(values, **way)))
        model.set_weights(weights)
    return found


def check_alike(model: keras.Model) -> None:
    graph = flatten(model).graph
    # What Keras' own configuration keeps is kept, and mutators are given the same calls.
    again = [keras.Model.from_config(model.get_config()), rebuild(graph), model_of(graph_of(model))]
    expected = outputs(model)
    for other in again:
        assert flatten(other).graph.ids == graph.ids
        other.set_weights(model.get_weights())
        for one, found in zip(expected, outputs(other), strict=True):
            np.testing.assert_array_equal(one, found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_computes_what_it_did_in_each_mode(kind: str) -> None:
    for way in WAYS:
        x = keras.Input((2, 2, 3) if kind == "augmentation" else (4,))
        check_alike(keras.Model(x, KINDS[kind]()(x, **way)))


@pytest.mark.parametrize("kind", ["none", "true", "inside", "dropout"])
def test_a_nested_model_passes_its_mode_to_all_of_its_layers(kind: str) -> None:
    for given, of_inner, of_middle in itertools.product([{}, {"training": False}], WAYS[1:], WAYS[1:]):
        x, middle_input, inner_input = keras.Input((4,)), keras.Input((4,)), keras.Input((4,))
        inner = keras.Model(inner_input, KINDS[kind]()(inner_input, **given))
        middle = keras.Model(middle_input, inner(middle_input, **of_inner))
        model = keras.Model(x, middle(x, **of_middle))
        rebuilt = rebuild(flatten(model).graph)
        for one, found in zip(outputs(model), outputs(rebuilt), strict=True):
            np.testing.assert_array_equal(one, found)


def test_a_sequential_model_passes_its_mode_too() -> None:
    for way in WAYS:
        x = keras.Input((4,))
        parts = [SaysNone(), layers.Flatten(), drops(), SaysTrue(), SaysNothing()]
        check_alike(keras.Model(x, keras.Sequential([keras.Input((4,)), *parts])(x, **way)))


def test_one_layer_has_another_mode_in_each_use_of_a_nested_model() -> None:
    x, inner = keras.Input((4,)), keras.Input((4,))
    shared = keras.Model(inner, SaysNone()(inner))
    check_alike(keras.Model(x, shared(shared(x, training=True), training=False)))


def ids(build: Callable[[Any], Any]) -> Any:
    x = keras.Input((4,))
    return flatten(keras.Model(x, build(x))).graph.ids


@pytest.mark.parametrize("kind", ["none", "false", "inside", "dropout", "normalisation"])
def test_another_mode_is_another_function(kind: str) -> None:
    plain = ids(lambda x: KINDS[kind]()(x))
    assert ids(lambda x: KINDS[kind]()(x, training=True)) != plain
    # Whether a layer itself or the model around it was given the mode.
    nested = keras.Sequential([keras.Input((4,)), KINDS[kind]()])
    assert ids(lambda x: nested(x, training=True)) == ids(lambda x: KINDS[kind]()(x, training=True))
    assert ids(lambda x: nested(x)) == plain


def test_augmentation_that_is_off_is_another_function() -> None:
    def augmented(x: Any, **way: Any) -> Any:
        return KINDS["augmentation"]()(layers.Reshape((2, 2, 1))(x), **way)

    assert ids(lambda x: augmented(x, training=False)) != ids(augmented)
    assert ids(lambda x: augmented(x, training=True)) == ids(augmented)


@pytest.mark.parametrize("kind", ["dropout", "normalisation", "dense", "wrapper", "activation"])
@pytest.mark.parametrize("mode", [None, False])
def test_a_base_that_is_called_in_inference_mode_is_still_matched(kind: str, mode: bool | None) -> None:
    """Keras' guide to transfer learning calls it ``base(x, training=False)``, which is what it does anyway."""
    base = keras.Sequential([keras.Input((4,)), KINDS[kind]()])
    assert ids(lambda x: base(x, training=mode)) == ids(lambda x: KINDS[kind]()(x))


def test_the_mode_of_a_model_in_a_wrapper_counts() -> None:
    def wrapped(**way: Any) -> Any:
        x, inner = keras.Input((3, 4)), keras.Input((4,))
        model = keras.Model(inner, SaysTrue()(drops()(inner, **way)))
        return keras.Model(x, layers.TimeDistributed(model)(x))

    first = flatten(wrapped()).graph.ids
    assert flatten(wrapped(training=False)).graph.ids == first
    assert flatten(wrapped(training=True)).graph.ids != first
    graph = flatten(wrapped(training=True)).graph
    assert (np.asarray(rebuild(graph)(np.ones((9, 3, 4)))) == 13).sum() < 100
