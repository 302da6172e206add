"""A Keras callback that tells DeepHyper how training goes, and stops it when DeepHyper says so."""

from __future__ import annotations

import time
from typing import Any

import keras
from deephyper.evaluator import JobStatus, RunningJob

from daskevo.errors import InvalidInput
from daskevo.types import Objective

STOPPING = (JobStatus.CANCELLING, JobStatus.CANCELLED)
LOOK_S = 1.0
"""How often, at most, a job's status is asked for while a model trains (a millisecond each)."""


class Follow(keras.callbacks.Callback):  # type: ignore[misc]
    """Made by :func:`follow`.

    Attributes
    ----------
    stopped:
        Why training was ended early: ``stopper``, ``time``, or None.
    """

    def __init__(self, job: RunningJob, objective: Objective) -> None:
        super().__init__()
        self.job = job
        self.objective = objective
        self.stopped: str | None = None
        self._looked = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            self._look()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._look()
        metrics = logs or {}
        if self.objective.metric in metrics:
            self.job.record(epoch + 1, self.objective.rank(float(metrics[self.objective.metric])))
            # Only after a record: a stopper judges the last value that it was told.
            if self.job.stopped():
                self._stop("stopper")
        elif self.job.stopper is not None:
            raise InvalidInput(
                f"the search has a stopper, and training tells nothing of {self.objective.metric!r} that it could look "
                f"at; it tells of {', '.join(sorted(metrics)) or 'nothing'}: name one of these, with validation data "
                "in fit() where it is a validation metric"
            )

    def _look(self) -> None:
        if self.job.status in STOPPING:
            self._stop("time")

    def _stop(self, why: str) -> None:
        self.stopped = self.stopped or why
        self.model.stop_training = True


def follow(job: RunningJob, objective: str | Objective) -> Follow:
    """Return a Keras callback for one job's training.

    After each epoch it records the objective's metric for the search's stopper (negated, if it is minimised: stoppers
    maximise) and asks it whether to go on; it ends training when the search's time is over.

    Parameters
    ----------
    job:
        What the run function was called with.
    objective:
        ``max METRIC`` or ``min METRIC``, a metric that Keras tells after each epoch, such as ``max val_accuracy``.
    """
    return Follow(job, objective if isinstance(objective, Objective) else Objective.parse(objective))
