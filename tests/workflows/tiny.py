"""A problem that takes a tenth of a second, and misbehaves on request: tests write it with other constants."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import time
from pathlib import Path

import numpy as np

from daskevo.errors import CandidateRejected
from daskevo.space import Choice, Space
from daskevo_workflows.problems import Data

name = "tiny"
objective = "max val_accuracy"
epochs, batch_size = 1, 16

FIRST: tuple[int, ...] = (4, 8)
ACTIVATION: tuple[str, ...] = ("relu", "tanh")
SECOND: tuple[int, ...] = (3, 6)
IDLE: tuple[int, ...] = (0,)
FAULTS: dict[int, str] = {}
"""Units of the second layer -> what goes wrong."""
DATA = ""
"""What goes wrong with the data."""
MARKS = ""
"""A folder where each evaluation leaves a file, to count them."""
GATE = ""
"""A folder whose file `open` says how many evaluations may train; others wait, in the order in which they came."""
MEET = 3
"""How many processes those that meet wait for."""


class Unheard(BaseException):
    """Beyond Exception, as what ends a thread or a process is."""


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def space() -> Space:
    return Space(
        "tiny",
        (
            Choice("first", FIRST),
            Choice("activation", ACTIVATION),
            Choice("second", SECOND),
            Choice("idle", IDLE),
        ),
    )


def build(choices):
    import keras

    if FAULTS.get(choices["second"]) == "build":
        raise ArithmeticError("no such model")
    if FAULTS.get(choices["second"]) == "reject":
        raise CandidateRejected("no such model")
    if FAULTS.get(choices["second"]) == "hang in build":
        time.sleep(10_000)
    if FAULTS.get(choices["second"]) == "exit in build":
        raise SystemExit("no such model")
    if FAULTS.get(choices["second"]) == "wait in build":
        (Path(MARKS) / "building").touch()
        while not (Path(MARKS) / "go on").exists():
            time.sleep(0.02)
    inputs = keras.Input((8,))
    tensor = keras.layers.Dense(choices["first"], choices["activation"])(inputs)
    if FAULTS.get(choices["second"]) == "lambda":
        tensor = keras.layers.Lambda(lambda x: x)(tensor)
    tensor = keras.layers.Dense(choices["second"])(tensor)
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(tensor))


def data() -> Data:
    if DATA == "no data":
        raise FileNotFoundError("/nowhere")
    if DATA == "hang":
        time.sleep(10_000)
    if DATA == "other data":
        return {"x": 1}  # type: ignore[return-value]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, 8)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    return Data((x[:64], y[:64]), (x[64:], y[64:]))


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


def compile(model) -> None:
    import keras

    fault = FAULTS.get(model.layers[-2].units, "")
    if MARKS:
        with (Path(MARKS) / f"{os.getpid()}-{time.time_ns()}").open("w") as file:
            file.write(f"{model.layers[1].units} {model.layers[-2].units} {model.layers[1].activation.__name__}")
    if GATE:
        pass_gate()
    if fault == "raise":
        raise ValueError("does not train")
    if fault == "layer":
        model.trainable = False
    if fault == "exit":
        raise SystemExit(3)
    if fault == "base":
        raise Unheard("does not train")
    if fault == "unreadable":
        raise Unreadable
    if fault == "deaf":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Python's own `signal.signal` works in the main thread only.
            ctypes.CDLL(None).signal(number, ctypes.c_void_p(signal.SIG_IGN))
        while True:
            time.sleep(0.1)
    if fault == "hang in C":
        # A PyDLL's functions keep the interpreter's lock: nothing else runs in this process any more.
        ctypes.PyDLL(None).sleep(10_000)
    if fault == "hang in put":
        from daskevo.repository.inheritance import Inheritance

        Inheritance.put = lambda *arguments, **options: time.sleep(10_000)
    while fault == "hang at first" and not (Path(MARKS) / "go on").exists():
        time.sleep(0.1)
    while fault == "meet" and len({path.name.partition("-")[0] for path in Path(MARKS).iterdir()}) < MEET:
        time.sleep(0.1)
    if fault == "die" or (fault == "die once" and is_first(Path(MARKS) / "died")):
        os._exit(3)
    if fault == "slow":
        time.sleep(1.0)
    # Eager: tracing a graph would take longer than training.
    rate = float("nan") if fault == "lost" else 0.1
    model.compile(keras.optimizers.SGD(rate), "sparse_categorical_crossentropy", run_eagerly=True)


def score(model, data: Data) -> dict[str, float]:
    fault = FAULTS.get(model.layers[-2].units, "")
    if fault in ("nan", "inf"):
        return {"val_accuracy": float(fault)}
    if fault == "no metrics":
        return None  # type: ignore[return-value]
    if fault == "misnamed" or (fault == "misnamed later" and len(list(Path(MARKS).iterdir())) > 2):
        return {"validation_accuracy": 0.5}
    if fault == "huge":
        return {"val_accuracy": 10**400}
    if fault == "exit in score":
        raise SystemExit("bad score")
    if fault == "interrupt":
        raise KeyboardInterrupt
    if fault == "nan weights":
        model.layers[1].bias.assign([float("nan")] * model.layers[1].units)
        return {"val_accuracy": 1.0}
    x, y = data.validation
    return {"val_accuracy": float(np.mean(np.asarray(model(x)).argmax(1) == y))}
