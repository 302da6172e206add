"""A problem whose evaluations mostly sleep, so that a search lasts as long as a test wants."""

from __future__ import annotations

import time

import numpy as np

from daskevo_workflows.problems import Data

name = "sleeping"
objective = "max val_accuracy"
epochs, batch_size = 1, 16
SECONDS = 1.0


def build(choose):
    import keras

    inputs = keras.Input((8,))
    tensor = keras.layers.Dense(choose("first", [4, 6, 8, 10]), choose("activation", ["relu", "tanh"]))(inputs)
    tensor = keras.layers.Dense(choose("second", [3, 4, 5, 6, 7, 8]))(tensor)
    tensor = keras.layers.Dense(choose("third", [3, 4, 5, 6, 7, 8]))(tensor)
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(tensor))


def data() -> Data:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, 8)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    return Data((x[:64], y[:64]), (x[64:], y[64:]))


def compile(model) -> None:
    import keras

    time.sleep(SECONDS)
    # Eager: tracing a graph would take longer than training.
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", run_eagerly=True)


def score(model, data: Data) -> dict[str, float]:
    x, y = data.validation
    return {"val_accuracy": float(np.mean(np.asarray(model(x)).argmax(1) == y))}
