"""A problem with a training loop of its own and nothing of Keras, whose trainers are ready at once."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import numpy as np

from daskevo.tuning import Constant, MultiStep, grid
from daskevo_workflows.problems import Data

name = "looped"
objective = "min loss"
epochs = 8

MARKS = ""
"""A folder where each step leaves its rate, its number, and the loss of its batch."""
SLEEP_S = 0.0
"""Of each step, until there is a file `hurry` in that folder."""
GATE = ""
"""A folder whose file `open` says how many scores may be had; others wait, in the order in which they came."""
PADDING_BYTES = 0
"""That each snapshot has besides, other ones at each step."""
FAULTS = "[]"
"""Learning rates, and what comes of them instead of a loss, as JSON."""
NEEDS_BYTES = 0
"""What a step takes with learning rates below 0.01: a trainer whose limit is less has no memory for it."""


def space():
    return grid(
        learning_rate=[
            Constant(0.1),
            MultiStep(0.1, (4,), 0.5),
            MultiStep(0.1, (2, 4), 0.5),
            MultiStep(0.1, (6,), 0.01),
        ],
        unit="epoch",
    )


def data() -> Data:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(96, 8))
    if MARKS and (Path(MARKS) / "other data").exists():
        x += 1
    y = x @ np.arange(8.0)
    return Data(train=(x[:64], y[:64]), validation=(x[64:], y[64:]))


def is_first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def pass_gate() -> None:
    """Take the next place, and wait until it is let in."""
    place = next(number for number in itertools.count(1) if is_first(Path(GATE) / str(number)))
    while place > int((Path(GATE) / "open").read_text()):
        time.sleep(0.05)


class Descent:
    """Stochastic gradient descent on a linear model."""

    def __init__(self, data: Data, seed: int) -> None:
        self.data, self.seed = data, seed
        self.weights = np.zeros(8)
        self.steps = 0
        self.rate = 0.0

    def setup(self, values, changed) -> None:
        self.rate = values["learning_rate"]

    def train(self, steps: int) -> None:
        x, y = self.data.train
        for _ in range(steps):
            if not (MARKS and (Path(MARKS) / "hurry").exists()):
                time.sleep(SLEEP_S)
            if self.rate < 0.01 and NEEDS_BYTES:
                fill(NEEDS_BYTES)
            chosen = np.random.default_rng([self.seed, self.steps]).integers(0, len(x), 16)
            error = x[chosen] @ self.weights - y[chosen]
            if MARKS:
                with (Path(MARKS) / "steps").open("a") as file:
                    file.write(json.dumps([self.rate, self.steps, float(np.mean(error**2))]) + "\n")
            self.weights -= self.rate * 0.1 * error @ x[chosen] / 16
            self.steps += 1

    def evaluate(self) -> dict[str, float]:
        if GATE:
            pass_gate()
        faults = dict(json.loads(FAULTS))
        if self.rate in faults:
            if faults[self.rate] == "raise":
                raise RuntimeError("no such rate")
            return {"loss": faults[self.rate]}
        x, y = self.data.validation
        return {"loss": float(np.mean((x @ self.weights - y) ** 2))}

    def save(self) -> dict[str, np.ndarray]:
        padding = np.random.default_rng(self.steps).integers(0, 256, PADDING_BYTES, np.uint8)
        return {"weights": self.weights.copy(), "steps": np.array(self.steps), "padding": padding}

    def load(self, arrays) -> None:
        self.weights, self.steps = np.array(arrays["weights"]), int(arrays["steps"])


def fill(nbytes: int) -> None:
    """Have numpy raise as it does where there is no memory, if that is more than this trainer may take."""
    from distributed import get_worker

    if nbytes > get_worker().memory_manager.memory_limit:
        np.empty(2**50)


def training_loop(constants, data, seed) -> Descent:
    return Descent(data, seed)
