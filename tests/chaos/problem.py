"""The problem of a trial: models of five small layers that train in a moment, then rest as long as the pace says."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from daskevo.space import Choice, Space
from daskevo_workflows.problems import Data

name = "chaos"
objective = "max val_accuracy"
epochs, batch_size = 1, 32

WIDTHS = (8, 16, 24, 32)
PACE = "DASKEVO_CHAOS_PACE"
"""Environment variable: a file with the seconds that an evaluation rests, so that a search lasts as long as asked."""


def space() -> Space:
    """Return 4,096 candidates whose first layers are often the same."""
    return Space("chaos", tuple(Choice(f"width{number}", WIDTHS) for number in range(6)))


def build(choices: dict[str, Any]) -> Any:
    """Build a chain of dense layers."""
    import keras

    tensor = inputs = keras.Input((16,))
    for number in range(6):
        tensor = keras.layers.Dense(choices[f"width{number}"], "relu")(tensor)
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(tensor))


def data() -> Data:
    """Return 192 made points of two classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((192, 16)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    return Data((x[:128], y[:128]), (x[128:], y[128:]))


def compile(model: Any) -> None:
    """Compile without tracing, which would take longer than training; rest."""
    import keras

    with contextlib.suppress(OSError, KeyError, ValueError):
        time.sleep(float(Path(os.environ[PACE]).read_text()))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", run_eagerly=True)


def score(model: Any, data: Data) -> dict[str, float]:
    """Return the share of points told right."""
    x, y = data.validation
    return {"val_accuracy": float(np.mean(np.asarray(model(x)).argmax(1) == y))}
