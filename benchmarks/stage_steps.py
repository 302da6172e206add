"""What a step costs in a training that can be cut into stages, beside Keras' `fit` and `fast_fit` of the same model.

Run it as ``python -m benchmarks.stage_steps [--rounds 5] [--threads 1]``. Prints milliseconds of processor time
per step (medians over rounds, in which the three take turns), the ratios, and what is paid once: building, first step,
and going to a snapshot. Processor time, so that other work on the machine doesn't count; with one thread and an idle
machine it is what a clock shows, apart from batches that `fit` prepares in another thread meanwhile.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from daskevo.tuning import Configuration, Constant, Linear, StepSequence, Trajectory
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import begin, deterministic

BATCH = 32


def dense(choices: Any) -> Any:
    import keras

    inputs = flow = keras.Input((64,))
    for _ in range(2):
        flow = keras.layers.Dense(64, "relu")(flow)
    return keras.Model(inputs, keras.layers.Dense(10, "softmax")(flow))


def convolutional(choices: Any) -> Any:
    import keras

    inputs = flow = keras.Input((14, 14, 1))
    for filters in (16, 32):
        flow = keras.layers.Conv2D(filters, 3, activation="relu")(flow)
    flow = keras.layers.Flatten()(keras.layers.MaxPooling2D()(flow))
    return keras.Model(inputs, keras.layers.Dense(10, "softmax")(flow))


def compile(model: Any, hyperparameters: Any = None) -> None:
    import keras

    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time that something takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure(name: str, build: Any, shape: tuple[int, ...], rate: StepSequence, unit: Any, rounds: int) -> None:
    """Print what a step costs each way."""
    from daskevo_workflows.fitting import fast_fit

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2048, *shape)).astype(np.float32), rng.integers(0, 10, 2048)
    problem = SimpleNamespace(name="bench", batch_size=BATCH, build=build, compile=compile)
    along = Trajectory("bench", Configuration({"learning_rate": rate, "momentum": Constant(0.9)}, unit=unit))
    training = begin(problem, along, Data((x, y), (x, y)), seed=0)
    steps = len(x) // BATCH
    epoch = 1 if unit == "epoch" else steps

    def staged() -> None:
        training.advance(training.step + epoch, lambda step: True)

    fitted, fast = build({}), build({})
    compile(fitted)
    compile(fast)
    options = {"batch_size": BATCH, "verbose": 0}
    ways: dict[str, Callable[[], Any]] = {
        "stages": staged,
        "fast_fit": lambda: fast_fit(fast, x, y, **options),
        "fit": lambda: fitted.fit(x, y, **options),
    }
    for work in ways.values():
        work()
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, work in ways.items():
            found[way].append(1e3 * seconds(work) / steps)
    medians = {way: statistics.median(values) for way, values in found.items()}
    snapshot = training.snapshot()
    going = statistics.median(seconds(lambda: training.go_to(along, snapshot)) for _ in range(5))
    keeping = statistics.median(seconds(training.snapshot) for _ in range(5))
    print(
        f"{name:32} "
        + "  ".join(f"{way} {value:6.3f}" for way, value in medians.items())
        + f"  ms/step; stages are {medians['stages'] / medians['fast_fit']:.2f} of fast_fit, "
        f"{medians['stages'] / medians['fit']:.2f} of fit"
    )
    once = ", ".join(f"{phase} {value:.2f} s" for phase, value in training.seconds.items() if phase != "training")
    print(f"{'':32} once: {once}; a snapshot {1e3 * keeping:.2f} ms, going to one {1e3 * going:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    deterministic(given.threads)
    print(f"{platform.processor() or platform.machine()}, {given.threads} threads, batches of {BATCH}")
    by_step = Linear(0.1, 0.01, 100_000)
    measure("dense, a rate per epoch", dense, (64,), Linear(0.1, 0.01, 100), "epoch", given.rounds)
    measure("dense, a rate per step", dense, (64,), by_step, "optimizer step", given.rounds)
    measure("convolutional, a rate per step", convolutional, (14, 14, 1), by_step, "optimizer step", given.rounds)


if __name__ == "__main__":
    main()
