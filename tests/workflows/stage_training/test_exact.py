"""A training that is cut into stages ends with the bits of one piece."""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daskevo.repository import Snapshot
from daskevo.tuning import Constant, Cosine, Linear, MultiStep
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import Training, begin, check_exact, resume
from daskevo_workflows.stage_training.exactness import differences
from tests.workflows.stage_training.epochs_script import SEED, along, augmented, kept, pictures
from tests.workflows.stage_training.problems import (
    OPTIMIZERS,
    SAMPLES,
    always,
    cut,
    data,
    in_one_piece,
    layers,
    problem,
    trajectory,
)

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.parametrize("unit", ["optimizer step", "epoch"])
def test_cut_anywhere(unit: str) -> None:
    """Everything changes on the way: momentum from zero, batches in the middle of an epoch."""
    along = trajectory(
        unit=unit,
        learning_rate=Linear(0.1, 0.01, 9),
        momentum=Linear(0.0, 0.9, 7),
        weight_decay=Linear(0.1, 0.0, 5),
        batch_size=MultiStep(8, (2, 4), 2),
    )
    end = check_exact(problem("plain SGD"), along, data(), until=8, cuts=[1, 3], seed=5)
    assert end.extra["step"] == 8
    updates = {"optimizer step": 8, "epoch": 6 + 6 + 3 + 3 + 4 * 2}
    assert end.extra["optimizer_steps"] == updates[unit] == int(end.attached["optimizer/0000"])


@functools.cache
def started(optimizer: str, unit: str) -> tuple[Training, Snapshot]:
    along = trajectory(unit=unit, batch_size=Constant(8), weight_decay=Constant(0.0))
    training = begin(problem(optimizer), along, data(), seed=3)
    return training, training.snapshot()


values = st.floats(0.001, 0.2)
rates = st.one_of(
    st.builds(Constant, values),
    st.builds(Linear, values, values, st.integers(1, 20)),
    st.builds(Cosine, values, values, st.integers(1, 6), st.sampled_from([None, 1.0, 2.0])),
)
sizes = st.one_of(
    st.builds(Constant, st.integers(1, SAMPLES)),
    st.builds(MultiStep, st.integers(1, 11), st.sampled_from([(1,), (3,), (2, 5)]), st.just(2)),
)


@pytest.mark.parametrize("unit", ["optimizer step", pytest.param("epoch", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "optimizer",
    [pytest.param(name, marks=[pytest.mark.long] if number else []) for number, name in enumerate(OPTIMIZERS)],
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.data())
def test_random_cuts(optimizer: str, unit: str, drawn: Any) -> None:
    """Of a model with dropout and batch normalization, with other steps between, and scores that draw."""
    training, start = started(optimizer, unit)
    along = trajectory(
        unit=unit, learning_rate=drawn.draw(rates), weight_decay=drawn.draw(rates), batch_size=drawn.draw(sizes)
    )
    until = drawn.draw(st.integers(1, 16 if unit == "optimizer step" else 3))
    cuts = drawn.draw(st.sets(st.integers(0, until), max_size=3))
    whole = in_one_piece(training, start, along, until)
    assert differences(whole, cut(training, start, along, until, cuts)) == []
    assert differences(whole, start) != []


@pytest.mark.long
def test_each_epoch_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Kind 41 of docs/failures.md: the order of the data goes on, and so does all that is drawn."""
    keras.layers.Dense(3)  # so that layers are numbered otherwise than in the other processes
    seen: list[list[int]] = []
    training = begin(augmented(seen), along(), pictures(), seed=SEED)
    training.advance(4, always)
    command = [sys.executable, "-m", "tests.workflows.stage_training.epochs_script", str(tmp_path)]
    subprocess.run(command, check=True, cwd=HERE.parents[2])
    by_epoch = [json.loads((tmp_path / f"seen-{until}.json").read_text()) for until in range(1, 5)]
    assert [len(batches) for batches in by_epoch] == [6, 6, 3, 3]
    assert [batch for batches in by_epoch for batch in batches] == seen
    assert len({tuple(itertools.chain(*batches)) for batches in by_epoch}) == 4  # each epoch in another order
    end = kept(tmp_path)
    assert differences(training.snapshot(), end) == []
    assert end.extra["optimizer_steps"] == len(seen) == int(end.attached["optimizer/0000"])


def sequence_problem() -> Any:
    """Sequences of which more and more is seen, in layers that drop out inside; a form of batch for each length."""

    def build(choices: Any) -> Any:
        inputs = keras.Input((None, 2))
        hidden = layers.GRU(3, dropout=0.3, recurrent_dropout=0.2)(layers.GaussianNoise(0.1)(inputs))
        return keras.Model(inputs, layers.Dense(2, "softmax")(hidden))

    def batch(x: Any, y: Any, values: Any, generator: np.random.Generator) -> Any:
        start = generator.integers(0, 6 - int(values["input_length"]) + 1)
        noise = values["augmentation"] * generator.standard_normal(x.shape).astype(np.float32)
        return (x + noise)[:, start : start + int(values["input_length"])], y

    return problem("Adam", build=build, batch=batch)


@pytest.mark.long
def test_input_lengths_and_augmentation() -> None:
    x = np.random.default_rng(0).standard_normal((20, 6, 2)).astype(np.float32)
    whole = Data((x, np.arange(20) % 2), (x, np.arange(20) % 2))
    along = trajectory(input_length=MultiStep(3, (3,), 2), augmentation=Linear(0.5, 0.0, 4))
    training = begin(sequence_problem(), along, whole, seed=1)
    start = training.snapshot()
    one = in_one_piece(training, start, along, 6)
    assert differences(one, cut(training, start, along, 6, [1, 3])) == []
    later = resume(sequence_problem(), along, whole, cut(training, start, along, 4, []), seed=1)
    later.advance(6, always)
    assert differences(one, later.snapshot()) == []


class Augmenting(keras.utils.PyDataset):
    """Draws from numpy's global generator, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = data()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        x, y = self.whole.train
        noise = np.random.standard_normal((11, 6))  # noqa: NPY002
        return x[number::4] + noise, y[number::4]


@pytest.mark.parametrize("unit", ["optimizer step", pytest.param("epoch", marks=pytest.mark.long)])
def test_datasets_that_make_batches(unit: str) -> None:
    whole = Data((Augmenting(), None), data().validation)
    along = trajectory(unit=unit)
    training = begin(problem(eager=True), along, whole, seed=1)
    start = training.snapshot()
    one = in_one_piece(training, start, along, 4)
    np.random.seed(4)  # noqa: NPY002
    assert differences(one, cut(training, start, along, 4, [1, 2])) == []


def test_epochs_differ_and_hold_every_sample() -> None:
    seen: list[tuple[int, ...]] = []

    def batch(x: Any, y: Any, values: Any, generator: Any) -> Any:
        seen[-1] += tuple(x[:, 0])
        return x, y * int(values["mark"])

    rows = data()
    training = begin(problem(eager=True, batch=batch), trajectory(unit="epoch", mark=Constant(1.0)), rows, seed=1)
    for epoch in range(3):
        seen.append(())
        training.advance(epoch + 1, always)
    assert all(sorted(each) == sorted(rows.train[0][:, 0]) for each in seen)
    assert len(set(seen)) == 3


def test_on_along_another_trajectory() -> None:
    """A stage is trained once for both, and each goes on as if it had been alone."""
    one = trajectory(learning_rate=Constant(0.05))
    two = trajectory(learning_rate=MultiStep(0.05, (3,), 0.1))
    training = begin(problem(), one, data(), seed=3)
    start = training.snapshot()
    alone = in_one_piece(training, start, two, 6)
    training.go_to(one, start)
    training.advance(3, always)
    training.follow(two)
    training.advance(6, always)
    assert differences(alone, training.snapshot()) == []
    assert differences(alone, in_one_piece(training, start, one, 6)) != []


def test_ended_where_it_is_told_to() -> None:
    training, start = started("SGD", "optimizer step")
    training.go_to(trajectory(batch_size=Constant(8), weight_decay=Constant(0.0)), start)
    passed: list[int] = []
    assert training.advance(9, lambda step: passed.append(step) or step < 4) == training.step == 4
    assert passed == [1, 2, 3, 4]
    assert training.advance(3, always) == 4
    assert set(training.seconds) >= {"build", "load", "first_step", "training"}


def test_what_training_said_and_scores() -> None:
    training, start = started("averaging", "epoch")
    training.go_to(trajectory(unit="epoch", batch_size=Constant(8), weight_decay=Constant(0.0)), start)
    training.advance(2, always)
    before = training.snapshot()
    metrics = training.score()
    assert set(metrics) == {"loss", "accuracy", "val_accuracy"}
    assert 0.0 < metrics["accuracy"] <= 1.0
    assert training.score() == metrics
    assert differences(before, training.snapshot()) == []
