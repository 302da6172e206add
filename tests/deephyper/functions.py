"""Run functions of these tests, where workers can import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np


def build(parameters: dict[str, Any]) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(parameters["first"], activation=parameters["activation"]),
            keras.layers.Dense(parameters["second"], activation="relu"),
            keras.layers.Dense(1),
        ]
    )


def train(model: Any, job: Any) -> dict[str, float]:
    from daskevo_plugins.deephyper import follow

    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    y = x.sum(axis=1)
    model.compile("sgd", "mse")
    fitted = model.fit(x, y, epochs=2, verbose=0, callbacks=[follow(job, "min loss")]).history["loss"]
    return {"loss": fitted[-1], "epochs": len(fitted)}


def nothing(job: Any) -> float:
    return float(job["x"])


def misbehave(job: Any) -> Any:
    match job["what"]:
        case "raise":
            raise ArithmeticError("no such number")
        case "exit":
            raise SystemExit(3)
        case "nan":
            return float("nan")
        case "inf":
            return 1.0, float("inf")
        case "none":
            return None
        case "text":
            return "never again"
        case "array":
            return {"objective": np.zeros(3), "metadata": {"kept": 1}}
    return {"objective": np.float32(0.5), "metadata": {"kept": 2}}


def climb(job: Any) -> dict[str, Any]:
    """Four steps, each better than the one before, unless the stopper ends them."""
    step = 0
    for step in range(1, 5):
        job.record(step, step * job["x"])
        if job.stopped():
            break
    return {"objective": job.objective, "metadata": {"steps": step}}


def until_told(job: Any, marks: str) -> dict[str, Any]:
    """Leave a mark, and work until the search's time is over, as the job's status says."""
    from deephyper.evaluator import JobStatus

    (Path(marks) / job.id).touch()
    until = time.monotonic() + 100
    while job.status is JobStatus.RUNNING and time.monotonic() < until:
        time.sleep(0.05)
    return {"objective": 1.0, "metadata": {"seen": job.status.name}}


def hang(job: Any) -> float:
    time.sleep(job["x"])
    return 1.0


def until_freed(job: Any, marks: str) -> float:
    """Leave a mark, and work until there is another, whatever the job's status says."""
    (Path(marks) / job.id).touch()
    until = time.monotonic() + 100
    while not (Path(marks) / "free").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return 1.0


def die(job: Any, marks: str, times: int) -> float:
    """Kill this process so many times."""
    mark = Path(marks) / str(len(list(Path(marks).iterdir())))
    if len(list(Path(marks).iterdir())) < times:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2.0


def worthless(model: Any, job: Any) -> dict[str, float]:
    """Metrics without a number that counts: not finite, or of another name."""
    return {"loss": float("nan")} if job["first"] == 4 else {"error": 1.0}


def alone(model: Any, job: Any) -> float:
    return 0.25
