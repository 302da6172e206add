"""Models built for their graph alone."""

from __future__ import annotations

import sys

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.models import flatten, keras_private, read_tensors, rebuild_flat, shape_only
from tests.models import zoo


def test_no_weight_gets_a_value_and_the_next_model_does() -> None:
    with shape_only():
        model = zoo.sequential()
    assert not any(keras_private.has_value(variable) for variable in model.weights)

    with keras.StatelessScope():
        pass  # gives values to whatever Keras believes to be still without
    assert not any(keras_private.has_value(variable) for variable in model.weights)
    assert read_tensors(flatten(zoo.sequential()))[0].any()


def test_scopes_nest_and_end_on_errors() -> None:
    with shape_only(), shape_only():
        pass

    class Broken(Exception):
        pass

    with pytest.raises(Broken), shape_only():
        raise Broken
    assert all(keras_private.has_value(variable) for variable in zoo.sequential().weights)


def test_models_larger_than_memory() -> None:
    with shape_only():
        x = keras.Input((10**6,))
        flat = flatten(keras.Model(x, layers.Dense(10**7)(x)))
    assert flat.graph.nbytes == 4 * (10**13 + 10**7)


def test_without_the_private_scope_models_are_built_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = flatten(zoo.sequential()).graph.ids
    values = [np.full(key.spec.shape, 3, key.spec.dtype) for key in flatten(zoo.sequential()).graph.tensors]
    for module in ("shape_only", "rebuild"):
        monkeypatch.setattr(sys.modules[f"daskevo.models.{module}"], "can_do_without_values", lambda: False)
    with shape_only():
        model = zoo.sequential()
    assert flatten(model).graph.ids == expected
    assert keras_private.has_value(model.weights[0])
    rebuilt = rebuild_flat(flatten(model).graph, tensors=dict(enumerate(values)))
    assert all((array == 3).all() for array in read_tensors(rebuilt.flat))
