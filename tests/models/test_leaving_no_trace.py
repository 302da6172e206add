"""Keras begins each evaluation as it began the first one of its process."""

from __future__ import annotations

import keras
import pytest

from daskevo.models import leaving_no_trace, settings_given_back
from daskevo.models.keras_private import names_given_back
from daskevo.tuning import Configuration, Constant
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import check


def settings() -> tuple[object, ...]:
    import tensorflow as tf

    config = keras.config
    flash = config.is_flash_attention_enabled()
    return (
        config.dtype_policy().name,
        config.floatx(),
        config.epsilon(),
        config.image_data_format(),
        flash,
        tf.config.functions_run_eagerly(),
    )


def change_all() -> None:
    import tensorflow as tf

    keras.config.set_floatx("float16")
    keras.config.set_dtype_policy("mixed_float16")
    keras.config.set_epsilon(0.1)
    keras.config.set_image_data_format("channels_first")
    keras.config.disable_flash_attention()
    tf.config.run_functions_eagerly(True)


def test_names_begin_anew_and_settings_are_given_back() -> None:
    before = settings()
    for _ in range(2):
        with leaving_no_trace():
            assert settings() == before
            keras.metrics.AUC(name=None)
            change_all()
    assert settings() == before


def test_an_error_leaves_no_trace_either() -> None:
    before = settings()

    def fail() -> None:
        change_all()
        raise ArithmeticError

    with pytest.raises(ArithmeticError), leaving_no_trace():
        fail()
    assert settings() == before


def test_names_are_those_of_the_first_block_and_clash_with_none_before() -> None:
    kept = keras.layers.Rescaling(1.0)
    found = []
    for _ in range(2):
        with names_given_back():
            new = keras.layers.Rescaling(2.0)
            inputs = keras.Input((2,))
            keras.Model(inputs, new(kept(inputs)))
            found.append((new.name, keras.metrics.AUC().name))
    assert found[0] == found[1]
    assert found[0][0] != kept.name


def test_a_model_that_is_only_looked_at_leaves_no_settings() -> None:
    """A study's models are made in this process, too, to see what takes which hyper-parameter."""

    class Own:
        name, objective, epochs, batch_size = "own", "max val_accuracy", 1, 4

        def build(self, choices: object) -> keras.Model:
            assert keras.config.epsilon() == 1e-7
            keras.config.set_epsilon(0.1)
            inputs = keras.Input((2,))
            return keras.Model(inputs, keras.layers.Dense(1)(inputs))

        def data(self) -> Data:
            raise NotImplementedError

        def compile(self, model: keras.Model) -> None:
            model.compile("sgd", "mse")

        def score(self, model: keras.Model, data: Data) -> dict[str, float]:
            raise NotImplementedError

    for units in (1, 2):
        check(Own(), Configuration({"batch_size": Constant(units)}))
    with settings_given_back():
        assert keras.config.epsilon() == 1e-7
