"""Tiny problems that are trained in stages, and what they are cut with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from daskevo.repository import Snapshot
from daskevo.tuning import Configuration, Constant, Trajectory
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import Training

layers = keras.layers
SAMPLES = 44
"""Batches of 8 leave a last one of 4."""


def data(seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    return Data((x, y), (x, y))


def build(choices: Mapping[str, Any]) -> Any:
    inputs = keras.Input((6,))
    hidden = layers.BatchNormalization()(layers.Dense(5, "gelu")(inputs))
    hidden = layers.Dropout(choices.get("dropout", 0.3))(hidden)
    return keras.Model(inputs, layers.Dense(2, "softmax")(hidden))


OPTIMIZERS: Mapping[str, Callable[[float], Any]] = {
    "SGD": lambda rate: keras.optimizers.SGD(rate, momentum=0.9),
    "plain SGD": lambda rate: keras.optimizers.SGD(rate),
    "Adam": lambda rate: keras.optimizers.Adam(rate),
    "AdamW": lambda rate: keras.optimizers.AdamW(rate),
    "RMSprop": lambda rate: keras.optimizers.RMSprop(rate),
    "scaled": lambda rate: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(rate), initial_scale=8.0),
    "averaging": lambda rate: keras.optimizers.Adam(
        rate, use_ema=True, ema_overwrite_frequency=4, gradient_accumulation_steps=2
    ),
}


def score(model: Any, data: Data) -> dict[str, float]:
    """Draws random numbers and resets metrics, which must not matter to what is trained later."""
    model.reset_metrics()
    x, y = data.validation
    return {"val_accuracy": float(np.mean(np.asarray(model(x, training=True)).argmax(1) == y))}


def problem(optimizer: str = "SGD", eager: bool = False, **parts: Any) -> Any:
    def compile(model: Any, hyperparameters: Mapping[str, Any]) -> None:
        made = OPTIMIZERS[optimizer](hyperparameters["learning_rate"])
        model.compile(made, "sparse_categorical_crossentropy", metrics=["accuracy"], run_eagerly=eager)

    made = {"name": "tiny", "batch_size": 8, "build": build, "compile": compile, "score": score}
    return SimpleNamespace(**{**made, **parts})


def trajectory(
    *, origin: str = "tiny", constants: Mapping[str, Any] | None = None, unit: Any = "optimizer step", **sequences: Any
) -> Trajectory:
    made = {"learning_rate": Constant(0.05), **sequences}
    return Trajectory(origin, Configuration(made, constants, unit))


def always(step: int) -> bool:
    return True


def in_one_piece(training: Training, start: Snapshot, along: Trajectory, until: int) -> Snapshot:
    training.go_to(along, start)
    training.advance(until, always)
    return training.snapshot()


def cut(training: Training, start: Snapshot, along: Trajectory, until: int, cuts: Iterable[int]) -> Snapshot:
    """Train with other steps in between: after each cut, the model goes astray, and back to what was kept; scored."""
    training.go_to(along, start)
    for step in sorted(set(cuts)):
        training.advance(step, always)
        kept = training.snapshot()
        training.advance(step + 2, always)
        training.go_to(along, kept)
        training.score()
    training.advance(until, always)
    return training.snapshot()
