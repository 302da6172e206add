"""The Dask task of one work: what it needs is read, trained with, scored and stored in the background, and said."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from daskevo.errors import CorruptRecord, InvalidProblem, SnapshotGone
from daskevo.tuning.scheduling import Failure
from daskevo.types import ModelId
from daskevo_workflows.failures import Failed, failure_of, shown
from daskevo_workflows.studies import holding
from daskevo_workflows.studies.assignment import StageAssignment
from daskevo_workflows.studies.mailbox import close_box, open_box
from daskevo_workflows.studies.orders import Orders
from daskevo_workflows.studies.stored import described
from daskevo_workflows.studies.work import carry_out
from daskevo_workflows.trainer_task import Sayer, cancelled
from daskevo_workflows.training import finite

OUT_OF_MEMORY = ("ResourceExhaustedError", "OutOfMemoryError", "MemoryError")
"""Names of the errors that TensorFlow, PyTorch and Python raise then."""


def train_stages(assignment: StageAssignment) -> dict[str, Any]:
    """Do one work.

    Returns
    -------
    dict
        ``told``: all that was said, in order, for whoever missed some; ``reached``: the last step that was trained;
        ``end``: ``ended``, ``gone`` (its snapshot), ``no room`` in the repository, or the failure that it ended with;
        ``why``.
    """
    run, setting = assignment.run, assignment.setting
    orders = Orders(run.start, run.marks, setting.cache_s)
    telling = _Telling(assignment, orders)
    open_box(assignment.key, orders)
    try:
        telling.say("begun")
        source = None
        if run.snapshot is not None and not holding.holds(assignment):
            source = setting.repository.read_snapshot(run.snapshot)
        training, before = holding.take(assignment, source)
        carry_out(training, orders, telling, before)
        telling.finish()
    except (SnapshotGone, CorruptRecord) as error:
        return telling.ending("gone", error.message)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too, and the study goes on
        holding.drop()
        failure = failure_of(error)
        end = _ending(error, failure.kind)
        return telling.ending(end, f"{failure.message}{_memory()}" if end == "out of memory" else failure.message)
    finally:
        close_box(assignment.key)
        if cancelled(assignment.key):
            telling.say("over")
    return telling.ending("ended", "")


def _ending(error: BaseException, kind: str) -> Failure | Literal["no room"]:
    names = {cause.__name__ for cause in type(error).__mro__}
    if names.intersection(OUT_OF_MEMORY) or "RESOURCE_EXHAUSTED" in str(error)[:2_000]:
        return "out of memory"
    if kind == "no room":
        return "no room"
    return "lost" if kind == "repository" else "error"


def _memory() -> str:
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f" (the trainer's process had {most:,} bytes of memory at its peak)"


class _Telling:
    """Says what happens to whoever leads, and stores what is made."""

    def __init__(self, assignment: StageAssignment, orders: Orders) -> None:
        self._assignment = assignment
        self._orders = orders
        self._sayer = Sayer(assignment.key, assignment.topic)
        self._lock = threading.Lock()
        self._told: list[dict[str, Any]] = []
        self._base = assignment.run.snapshot
        self._putting: tuple[int, str, Future[ModelId]] | None = None
        self._said: set[str] = set()
        self._copy: tuple[int, str] | None = None

    def say(self, what: str, **facts: Any) -> None:
        """Say something that nobody has to hear."""
        self._sayer(what, **facts)

    def ending(self, end: str, why: str) -> dict[str, Any]:
        """Return what the task returns."""
        return {"told": self._told, "reached": self._orders.reached, "end": end, "why": why}

    def finish(self) -> None:
        """Wait for what is being stored; raises what went wrong there."""
        if self._putting is not None:
            step, kind, putting = self._putting
            name = self._base = putting.result()
            # A future's result is there before what was to be called then has been.
            self._stored(step, kind, putting)
            self._putting = None
            self._supersede(step, kind, name)

    def _supersede(self, step: int, kind: str, name: ModelId) -> None:
        """Let the last copy against failures go: there is a later state."""
        if self._copy is not None:
            earlier, copy = self._copy
            self._tell("released", step=earlier, name=copy)
            self._assignment.setting.repository.release(copy, self._assignment.setting.cache_label)
        self._copy = (step, str(name)) if kind == "pause" else None

    def progress(self, step: int) -> None:
        self.say("progress", step=step)
        if cancelled(self._assignment.key):
            self._orders.halt(None)

    def trained(self, start: int, stop: int, seconds: Mapping[str, float]) -> None:
        self._tell("trained", start=start, stop=stop, seconds=dict(seconds))

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        objective = self._assignment.setting.objective
        if objective.metric not in metrics:
            raise InvalidProblem(
                f"the objective is {str(objective)!r}, and score() gave no metric {objective.metric!r}; it gave "
                f"{', '.join(sorted(map(str, metrics))) or 'none'}"
            )
        if objective.quality(dict(metrics)) is None:
            value = shown(metrics[objective.metric])
            raise Failed("not finite", f"the quality {objective.metric!r} is {value}, not a finite number")
        self._tell("measured", step=step, metrics=_numbers(metrics))

    def keep(self, step: int, snapshot: Any, metrics: Mapping[str, float] | None, kind: str) -> None:
        self.finish()  # one copy at a time is in memory besides the model
        setting, run = self._assignment.setting, self._assignment.run
        extra = {**snapshot.extra, "trajectory": described(run.trajectory, step), "step": step}
        putting = setting.repository.begin_put_snapshot(
            replace(snapshot, extra=extra),
            step=step,
            base=self._base,
            labels=(setting.cache_label if kind == "pause" else setting.label,),
            metrics=None if metrics is None else _numbers(metrics),
        )
        self._putting = step, kind, putting
        putting.add_done_callback(partial(self._stored, step, kind))

    def _stored(self, step: int, kind: str, putting: Future[ModelId]) -> None:
        """Say once that something was stored; from the event loop, or from the task's thread if that is earlier."""
        if kind == "known" or putting.exception() is not None:
            return
        name = str(putting.result())
        with self._lock:
            if name in self._said:
                return
            self._said.add(name)
        self._tell("saved", step=step, name=name, kind=kind)

    def _tell(self, what: str, **facts: Any) -> None:
        with self._lock:
            self._sayer(what, number=len(self._told), **facts)
            self._told.append({"what": what, **facts})


def _numbers(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in finite(metrics).items() if value is not None}
