"""One work as a trainer carries it out: train to a mark, keep a copy, score it, go on; whatever the trainer is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from daskevo_workflows.studies.stage_commands import Orders

TOLD_EVERY_S = 1.0
"""How often it is said how far training has come."""


class Trained(Protocol):
    """What of a :class:`daskevo_workflows.stage_training.Training` is used here."""

    step: int
    seconds: Mapping[str, float]

    def advance(self, until: int, passed: Callable[[int], bool]) -> int:
        """Train until a step, or until `passed` says so; return the step reached."""

    def snapshot(self) -> Any:
        """Return a copy of the state."""

    def score(self) -> dict[str, float]:
        """Return metrics of the state."""


class WorkListener(Protocol):
    """Who is told what happens, and keeps what is made."""

    def progress(self, step: int) -> None:
        """Training has come so far."""

    def trained(self, start: int, stop: int, seconds: Mapping[str, float]) -> None:
        """Steps were trained until a mark; seconds by phase since the one before."""

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """The model was scored."""

    def keep(self, step: int, snapshot: Any, metrics: Mapping[str, float] | None, kind: str) -> None:
        """Store a copy, beside the training: of a ``mark``, of a ``pause``, or of ``known`` weights with metrics."""


def carry_out(training: Trained, orders: Orders, told: WorkListener, before: Mapping[str, float] | None = None) -> None:
    """Train as ordered until there is nothing left to do.

    Parameters
    ----------
    training:
        At the work's first step.
    orders:
        Of the work.
    told:
        Told of each mark in the order: trained, measured, and at some time after that, kept.
    before:
        Seconds by phase that the training has been paid for already.
    """
    clock = _Clock(training, told, before or {})
    first = training.step
    while (until := orders.following()) is not None:
        if until > training.step:
            training.advance(until, _announcing(orders, told))
        step = training.step
        is_mark = orders.stop_at(step)
        clock.say(step)
        if orders.halted:
            return
        if not is_mark:
            told.keep(step, training.snapshot(), None, "pause")
            continue
        snapshot = training.snapshot() if step > first or orders.evaluates(step) else None
        metrics = None
        while not orders.leave(step, evaluated=metrics is not None):
            metrics = training.score()
            clock.say(step)
            told.measured(step, metrics)
        if snapshot is not None:
            told.keep(step, snapshot, metrics, "mark" if step > first else "known")


def _announcing(orders: Orders, told: WorkListener) -> Callable[[int], bool]:
    said = time.monotonic()

    def passed(step: int) -> bool:
        nonlocal said
        if time.monotonic() - said > TOLD_EVERY_S:
            said = time.monotonic()
            told.progress(step)
        return orders.passed(step)

    return passed


class _Clock:
    """Says which steps were trained since it was last asked, and the seconds by phase that went by for them."""

    def __init__(self, training: Trained, told: WorkListener, before: Mapping[str, float]) -> None:
        self._training = training
        self._told = told
        self._step = training.step
        self._before = dict(before)

    def say(self, step: int) -> None:
        now = dict(self._training.seconds)
        spent = {phase: s - self._before.get(phase, 0.0) for phase, s in now.items()}
        if step > self._step or any(seconds > 0 for seconds in spent.values()):
            self._told.trained(self._step, step, spent)
        self._step, self._before = step, now
