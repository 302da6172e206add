"""Keras callbacks in a training that is cut: refused, stateless, or saved."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo_workflows.evaluation.failures import Failed
from daskevo_workflows.stage_training import begin, check_exact
from daskevo_workflows.stage_training.callbacks import check_callbacks
from tests.workflows.stage_training.problems import always, data, problem, trajectory

callbacks = keras.callbacks


class Counting(callbacks.Callback):
    """Keeps something, and says nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0


class Stateless(callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        pass


class Patient(callbacks.EarlyStopping):
    pass


class Halving(Counting):
    """Halves a kernel after every third batch, counted across cuts."""

    seen: ClassVar[list[tuple[str, int]]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.seen.append(("epoch", epoch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert logs["loss"] > 0
        self.seen.append(("batch", batch))
        self.steps += 1
        if self.steps % 3 == 0:
            kernel = self.model.trainable_variables[0]
            kernel.assign(kernel / 2)

    def save_own_variables(self, store: Any) -> None:
        store["steps"] = np.array(self.steps)

    def load_own_variables(self, store: Any) -> None:
        self.steps = int(store["steps"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: callbacks.ReduceLROnPlateau(), "ReduceLROnPlateau.*learning_rate a sequence"),
        (lambda: callbacks.EarlyStopping(), "EarlyStopping.*by the strategy"),
        (lambda: Patient(), "Patient.*by the strategy"),
        (lambda: callbacks.BackupAndRestore("x"), "BackupAndRestore.*stores snapshots"),
        (lambda: callbacks.LearningRateScheduler(lambda epoch, rate: rate), "learning_rate a sequence"),
        (lambda: callbacks.ModelCheckpoint("x.keras"), "stores snapshots"),
        (lambda: Counting(), r"Counting keeps \['steps'\].*save_own_variables"),
        (lambda: "print", "no keras.callbacks.Callback"),
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        check_callbacks([make()])


def test_taken() -> None:
    declared = Counting()
    declared.stateless = True
    check_callbacks([callbacks.TerminateOnNaN(), Stateless(), declared, Halving()])


@pytest.mark.parametrize("unit", ["optimizer step", pytest.param("epoch", marks=pytest.mark.long)])
def test_what_callbacks_keep_is_kept(unit: str) -> None:
    Halving.seen.clear()
    made = problem(eager=True, callbacks=lambda: [Halving()])
    end = check_exact(made, trajectory(unit=unit), data(), until=7 if unit == "optimizer step" else 2, cuts=[1])
    assert int(end.attached["callback/0000/steps"]) == {"optimizer step": 7, "epoch": 12}[unit]
    whole, cut = Halving.seen[: len(Halving.seen) // 2], Halving.seen[len(Halving.seen) // 2 :]
    assert whole == cut
    assert whole[:8] == [("epoch", 0), *(("batch", number) for number in range(6)), ("epoch", 1)]


def test_a_training_that_a_callback_ends_has_failed() -> None:
    rows = data()
    rows.train[0][:] = np.nan
    training = begin(problem(eager=True, callbacks=lambda: [callbacks.TerminateOnNaN()]), trajectory(), rows, seed=0)
    with pytest.raises(Failed, match="TerminateOnNaN"):
        training.advance(3, always)
