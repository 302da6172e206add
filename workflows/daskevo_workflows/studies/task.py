"""The Dask task of one work: what it needs is read, trained with, scored and stored in the background, and said."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daskevo.errors import CorruptRecord, DaskevoError, InvalidProblem, SnapshotGone
from daskevo.tuning.stage_scheduler import Failure
from daskevo_workflows.evaluation.failures import Failed, failure_of, shown
from daskevo_workflows.evaluation.trainer_task import Sayer, cancelled, check_trainer
from daskevo_workflows.evaluation.training import finite
from daskevo_workflows.problems.delivery import Parcel
from daskevo_workflows.problems.reference import adopt
from daskevo_workflows.studies import held_training
from daskevo_workflows.studies.assignment import StageAssignment
from daskevo_workflows.studies.command_mailbox import close_box, open_box
from daskevo_workflows.studies.room_request import RoomRequest
from daskevo_workflows.studies.snapshot_writer import Storing
from daskevo_workflows.studies.stage_commands import Orders
from daskevo_workflows.studies.stored_snapshots import described
from daskevo_workflows.studies.work import carry_out

OUT_OF_MEMORY = ("ResourceExhaustedError", "OutOfMemoryError", "MemoryError")
"""Names of the errors that TensorFlow, PyTorch and Python raise then."""


def train_stages(assignment: StageAssignment, parcel: Parcel | None = None) -> dict[str, Any]:
    """Do one work.

    Parameters
    ----------
    parcel:
        The problem, if it is an object.

    Returns
    -------
    dict
        ``told``: all that was said, in order, for whoever missed some; ``reached``: the last step that was trained;
        ``end``: ``ended``, ``gone`` (its snapshot), or the failure that it ended with; ``why``.

    Raises
    ------
    VersionMismatch
        If this trainer has other versions of what decides a training.
    """
    run, setting = assignment.run, assignment.setting
    check_trainer(setting.repository)
    if parcel is not None:
        adopt(setting.problem, parcel.instance)
    orders = Orders(run.start, run.marks, setting.cache_s)
    room = RoomRequest()
    telling = _Telling(assignment, orders, room)
    open_box(assignment.key, orders, room)
    try:
        telling.say("begun")
        source = None
        if run.snapshot is not None and not held_training.holds(assignment):
            source = setting.repository.read_snapshot(run.snapshot)
        training, before = held_training.take(assignment, source)
        carry_out(training, orders, telling, before)
        telling.finish()
    except (SnapshotGone, CorruptRecord) as error:
        return telling.ending("gone", error.message)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too, and the study goes on
        held_training.drop()
        failure = failure_of(error)
        end = _kind(error, failure.kind)
        return telling.ending(end, f"{failure.message}{_memory()}" if end == "out of memory" else failure.message)
    finally:
        close_box(assignment.key)
        telling.say("over")  # in any case: it may be given up at this very moment
    return telling.ending("ended", "")


def _kind(error: BaseException, kind: str) -> Failure:
    names = {cause.__name__ for cause in type(error).__mro__}
    if names.intersection(OUT_OF_MEMORY) or "RESOURCE_EXHAUSTED" in str(error)[:2_000]:
        return "out of memory"
    return "repository" if kind in ("repository", "no room") else "error"


def _memory() -> str:
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f" (the trainer's process had {most:,} bytes of memory at its peak)"


class _Telling:
    """Says what happens to whoever leads, and stores what is made."""

    def __init__(self, assignment: StageAssignment, orders: Orders, room: RoomRequest) -> None:
        self._assignment = assignment
        self._orders = orders
        self._sayer = Sayer(assignment.key, assignment.topic)
        self._lock = threading.Lock()
        self._told: list[dict[str, Any]] = []
        self._storing = Storing(
            assignment.setting, assignment.run.snapshot, room, self._stored, self._lacking, self._unsaved
        )

    def say(self, what: str, **facts: Any) -> None:
        """Say something that nobody has to hear."""
        self._sayer(what, **facts)

    def ending(self, end: str, why: str) -> dict[str, Any]:
        """Return what the task returns."""
        return {"told": self._told, "reached": self._orders.reached, "end": end, "why": why}

    def finish(self) -> None:
        """Wait for what is being stored; raises what went wrong there."""
        self._storing.finish()

    def progress(self, step: int) -> None:
        self.say("progress", step=step)
        self._storing.look()
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
        extra = {**snapshot.extra, "trajectory": described(self._assignment.run.trajectory, step), "step": step}
        numbers = None if metrics is None else _numbers(metrics)
        self._storing.put(step, replace(snapshot, extra=extra), numbers, kind)

    def _stored(self, step: int, name: str, kind: str) -> None:
        self._tell("saved", step=step, name=name, kind=kind)

    def _lacking(self, step: int, nbytes: int) -> None:
        # Without a number: once the work is over nobody need hear it.
        self.say("full", step=step, nbytes=nbytes)

    def _unsaved(self, step: int, kind: str, error: DaskevoError) -> None:
        self._tell("unsaved", step=step, kind=kind, why=error.message)

    def _tell(self, what: str, **facts: Any) -> None:
        with self._lock:
            self._sayer(what, number=len(self._told), **facts)
            self._told.append({"what": what, **facts})


def _numbers(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in finite(metrics).items() if value is not None}
