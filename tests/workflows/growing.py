"""Digits, and networks that grow by mutators: a problem whose space makes the models."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskevo.models import Mutated
from daskevo_workflows.problems import Data, load_problem
from daskevo_workflows.spaces.evolving import evolving

name = "growing"
objective = "max val_accuracy"
epochs, batch_size = 1, 32


def space() -> Mutated:
    return evolving((64,), 10, widths=(8, 16))


def data() -> Data:
    whole = load_problem("digits").data()
    (x, y), validation = whole.train, whole.validation
    return Data((x[:256], y[:256]), validation)


def compile(model: Any) -> None:
    import keras

    # Eager: tracing a graph would take longer than training.
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", run_eagerly=True)


def score(model: Any, data: Data) -> dict[str, float]:
    x, y = data.validation
    return {"val_accuracy": float(np.mean(np.asarray(model(x)).argmax(1) == y))}
