"""A problem whose training is a sleep of known length: what a search takes beyond it is the framework's own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from daskevo.space import Choice, Space
from daskevo_workflows.problems.protocol import Data

UNITS = (8, 16, 24, 32, 40, 48, 56, 64)
ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu")


class Sleeping:
    """Three dense layers of some width and activation; `fit` sleeps, the score is a draw.

    Parameters
    ----------
    sleep_s:
        What training takes, in seconds.
    """

    name = "sleeping"
    objective = "max val_score"
    epochs, batch_size = 1, 32

    def __init__(self, sleep_s: float = 0.5) -> None:
        self.sleep_s = sleep_s

    def space(self) -> Space:
        layers = [
            choice
            for number in range(3)
            for choice in (Choice(f"units{number}", UNITS), Choice(f"activation{number}", ACTIVATIONS))
        ]
        return Space(self.name, tuple(layers))

    def build(self, choices: Mapping[str, Any]) -> Any:
        import keras

        tensor = inputs = keras.Input((16,))
        for number in range(3):
            tensor = keras.layers.Dense(choices[f"units{number}"], choices[f"activation{number}"])(tensor)
        return keras.Model(inputs, keras.layers.Dense(1)(tensor))

    def data(self) -> Data:
        x, y = np.zeros((1, 16), np.float32), np.zeros(1, np.float32)
        return Data((x, y), (x, y))

    def compile(self, model: Any) -> None:
        """Leave the model as it is: it is never trained."""

    def fit(self, model: Any, x: Any, y: Any, **options: Any) -> Any:
        import keras

        time.sleep(self.sleep_s)
        history = keras.callbacks.History()
        history.history = {}
        return history

    def score(self, model: Any, data: Data) -> Mapping[str, float]:
        return {"val_score": float(np.random.default_rng().random())}
