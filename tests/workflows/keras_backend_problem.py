"""A problem for any backend of Keras: normalisation, dropout, and data whose batches are all of one size."""

from __future__ import annotations

import numpy as np

from daskevo.space import Choice, Space
from daskevo_workflows.problems import Data

name = "any"
objective = "max val_accuracy"
epochs, batch_size = 1, 32


def space() -> Space:
    return Space("any", (Choice("first", (4, 8)), Choice("second", (3, 5, 7))))


def build(choices):
    import keras

    inputs = keras.Input((8,))
    tensor = keras.layers.Dense(choices["first"], "relu")(inputs)
    tensor = keras.layers.BatchNormalization()(tensor)
    tensor = keras.layers.Dropout(0.2)(tensor)
    tensor = keras.layers.Dense(choices["second"], "relu")(tensor)
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(tensor))


def data() -> Data:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, 8)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    return Data((x[:64], y[:64]), (x[64:], y[64:]))


def compile(model) -> None:
    model.compile("adam", "sparse_categorical_crossentropy")


def score(model, data: Data) -> dict[str, float]:
    import keras

    x, y = data.validation
    found = keras.ops.convert_to_numpy(model(x, training=False))
    return {"val_accuracy": float(np.mean(found.argmax(1) == y))}
