"""A problem of hyper-parameters that takes a tenth of a second: tests write it with other constants."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.tuning import Constant, MultiStep, grid
from daskevo_workflows.problems import Data

name = "tuned"
objective = "max val_accuracy"
epochs, batch_size = 8, 16

FAULT = ""
"""What goes wrong, with learning rates below 0.01."""
MARKS = ""
"""A folder where each step leaves a line."""
SLEEP_S = 0.0


def space():
    return grid(
        learning_rate=[
            Constant(0.1),
            MultiStep(0.1, (4,), 0.5),
            MultiStep(0.1, (2, 4), 0.5),
            MultiStep(0.1, (6,), 0.01),
        ],
        batch_size=[Constant(16), MultiStep(16, (4,), 2)],
        unit="epoch",
    )


def build(choices):
    import keras

    inputs = keras.Input((8,))
    hidden = keras.layers.Dropout(0.1)(keras.layers.Dense(6, "relu")(inputs))
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(hidden))


def data() -> Data:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(96, 8)).astype("float32")
    if MARKS and (Path(MARKS) / "other data").exists():
        x += 1
    y = (x[:, 0] + x[:, 1] > 0).astype("int32")
    return Data(train=(x[:64], y[:64]), validation=(x[64:], y[64:]))


def compile(model):
    import keras

    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")


def score(model, data: Data) -> dict[str, float]:
    time.sleep(SLEEP_S)
    rate = float(model.optimizer.learning_rate)
    if MARKS:
        with (Path(MARKS) / "scores").open("a") as file:
            file.write(f"{os.getpid()} {rate}\n")
    if rate < 0.01 and FAULT == "error":
        raise InvalidInput("no such rate")
    if rate < 0.01 and FAULT == "nan":
        return {"val_accuracy": float("nan")}
    if rate < 0.01 and FAULT == "die":
        os._exit(3)
    if rate < 0.01 and FAULT == "die once" and not (Path(MARKS) / "died").exists():
        (Path(MARKS) / "died").touch()
        os._exit(3)
    if rate < 0.01 and FAULT == "hang":
        time.sleep(10_000)
    if rate < 0.01 and FAULT == "memory":
        raise MemoryError("no room for another array")
    x, y = data.validation
    probabilities = np.asarray(model(x))
    loss = -np.log(np.take_along_axis(probabilities, y[:, None], 1) + 1e-9)
    return {"val_accuracy": float(np.mean(probabilities.argmax(1) == y)), "val_loss": float(loss.mean())}
