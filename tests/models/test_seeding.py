"""Seeds of an evaluation: the same weights whatever other threads draw."""

from __future__ import annotations

import random

import keras
import numpy as np

from daskevo.models.seeds import _seed_module, seeded


def weights(disturb: bool) -> list[np.ndarray]:
    with seeded(7):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
        if disturb:
            random.random()
        model.add(keras.layers.Dropout(0.5))
        model.add(keras.layers.Dense(2))
        model.compile("sgd", "mse")
        x = np.ones((8, 3), np.float32)
        model.fit(x, x[:, :2], batch_size=2, verbose=0)
    return [np.asarray(weight) for weight in model.get_weights()]


def test_a_draw_in_between_changes_nothing() -> None:
    for one, other in zip(weights(disturb=False), weights(disturb=True), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_private_part_of_keras_is_where_we_look() -> None:
    assert _seed_module() is not None


def test_the_shared_generator_is_put_back() -> None:
    module = _seed_module()
    assert module is not None
    shared = module.python_random
    with seeded(1):
        assert module.python_random is not shared
    assert module.python_random is shared
