"""Epochs, each in a process of its own, which goes on from what the one before left in a folder."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import keras
import numpy as np

from daskevo.graph import ArchitectureGraph
from daskevo.repository import Snapshot
from daskevo.tuning import Constant, Linear, MultiStep, Trajectory
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import Training, begin, resume
from tests.workflows.stage_training.problems import SAMPLES, always, problem, trajectory

layers = keras.layers
SEED = 7


def along() -> Trajectory:
    return trajectory(
        unit="epoch", learning_rate=Linear(0.1, 0.01, 4), batch_size=MultiStep(8, (2,), 2), noise=Constant(0.1)
    )


def pictures() -> Data:
    """Each holds its number in its first pixel."""
    x = np.random.default_rng(0).standard_normal((SAMPLES, 4, 4, 1)).astype(np.float32)
    x[:, 0, 0, 0] = np.arange(SAMPLES)
    return Data((x, np.arange(SAMPLES) % 2), (x, np.arange(SAMPLES) % 2))


def augmented(seen: list[list[int]]) -> Any:
    """A problem that flips, turns, drops out and adds noise; `seen` gets the numbers of the samples of each batch."""

    def build(choices: Any) -> Any:
        inputs = keras.Input((4, 4, 1))
        turned = layers.RandomRotation(0.2)(layers.RandomFlip()(inputs))
        hidden = layers.Dropout(0.3)(layers.Dense(5, "gelu")(layers.Flatten()(turned)))
        return keras.Model(inputs, layers.Dense(2, "softmax")(layers.BatchNormalization()(hidden)))

    def batch(x: Any, y: Any, values: Any, generator: np.random.Generator) -> Any:
        seen.append([int(number) for number in x[:, 0, 0, 0]])
        return x + values["noise"] * generator.standard_normal(x.shape).astype(np.float32), y

    return problem("Adam", build=build, batch=batch)


def keep(folder: Path, snapshot: Snapshot) -> None:
    assert snapshot.graph is not None
    said = {"graph": snapshot.graph.to_json(), "extra": snapshot.extra, "weights": len(snapshot.weights)}
    (folder / "said.json").write_text(json.dumps(said))
    weights = {f"weight/{number}": array for number, array in enumerate(snapshot.weights)}
    np.savez(folder / "arrays.npz", **weights, **snapshot.attached)


def kept(folder: Path) -> Snapshot:
    said = json.loads((folder / "said.json").read_text())
    arrays = dict(np.load(folder / "arrays.npz"))
    weights = tuple(arrays.pop(f"weight/{number}") for number in range(said["weights"]))
    return Snapshot(ArchitectureGraph.from_json(said["graph"]), weights, arrays, said["extra"])


def train(folder: Path, until: int) -> None:
    seen: list[list[int]] = []
    training: Training
    if (folder / "said.json").exists():
        training = resume(augmented(seen), along(), pictures(), kept(folder), seed=SEED)
    else:
        training = begin(augmented(seen), along(), pictures(), seed=SEED)
    training.advance(until, always)
    keep(folder, training.snapshot())
    (folder / f"seen-{until}.json").write_text(json.dumps(seen))


def main(folder: Path) -> None:
    for until in range(1, 5):
        # Keras is imported, which takes longer than all else, and has done nothing yet.
        if not (child := os.fork()):
            try:
                train(folder, until)
            except BaseException:  # noqa: BLE001 - a child must not go on as its parent does
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"the process of epoch {until} failed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
