"""What a work stores in the background, one state at a time. Where there is no room, training goes on all the same."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from daskevo.errors import AttemptOver, ClusterError, DaskevoError, PutFailed, RepositoryError
from daskevo.repository import Snapshot
from daskevo.types import ModelId
from daskevo_workflows.evaluation.failures import failure_of
from daskevo_workflows.studies.assignment import Setting
from daskevo_workflows.studies.room_request import RoomRequest

ROOM_S = 120.0
"""How long a work waits, once it has nothing else to do, until somebody has made room for a state that is needed."""


@dataclass(frozen=True)
class _Putting:
    """A state on its way; `kind` as :meth:`daskevo_workflows.studies.work.WorkListener.keep` has it."""

    step: int
    kind: str
    snapshot: Snapshot
    metrics: Mapping[str, float] | None
    future: Future[ModelId]
    number: int
    tries: int = 1


class Storing:
    """Stores the states of one work.

    A copy against failures, and metrics of a state that is stored already, may be lost. For a state that is needed,
    room is asked for; if there is none, others train it again.

    Parameters
    ----------
    setting:
        Whose repository and labels.
    base:
        The snapshot that the work began with, or None.
    room:
        Is answered when room was asked for.
    stored:
        Called with step, name and kind of what was stored, once each: on the event loop, or in the task's thread.
    lacking:
        Called with step of a state that is needed and has found no room, and the bytes that it lacks: as above.
    unsaved:
        Called with step, kind and error of what is gone without: in the task's thread.
    """

    def __init__(
        self,
        setting: Setting,
        base: str | None,
        room: RoomRequest,
        stored: Callable[[int, str, str], None],
        lacking: Callable[[int, int], None],
        unsaved: Callable[[int, str, DaskevoError], None],
    ) -> None:
        self._setting = setting
        self._base = base
        self._room = room
        self._on_stored, self._on_lacking, self._on_unsaved = stored, lacking, unsaved
        self._putting: _Putting | None = None
        self._lock = threading.Lock()
        self._said: set[int] = set()
        self._numbers = itertools.count()

    # In the task's own thread

    def put(self, step: int, snapshot: Snapshot, metrics: Mapping[str, float] | None, kind: str) -> None:
        """Begin to store a state, once the one before is stored: one copy at a time is in memory besides the model."""
        self.finish()
        self._begin(step, kind, snapshot, metrics)

    def look(self) -> None:
        """Put again what has found no room, if room was made meanwhile."""
        putting = self._putting
        if putting is not None and putting.future.done() and self._room.is_answered:
            self.finish()

    def finish(self) -> None:
        """Wait until all is stored, or gone without.

        Raises
        ------
        RepositoryError, ClusterError
            If a state that is needed could not be stored for another reason than room.
        """
        while (putting := self._putting) is not None:
            try:
                self._base = putting.future.result()
            except AttemptOver:
                raise
            except (RepositoryError, ClusterError) as error:
                self._say(putting)
                if self._is_worth_another(putting, error):
                    self._begin(putting.step, putting.kind, putting.snapshot, putting.metrics, putting.tries + 1)
                else:
                    self._putting = None
                    self._on_unsaved(putting.step, putting.kind, error)
            else:
                # A future's result is there before what was to be called then has been.
                self._say(putting)
                self._putting = None

    def _is_worth_another(self, putting: _Putting, error: DaskevoError) -> bool:
        if putting.kind != "mark":
            return False
        if is_full(error):
            return self._room.wait(ROOM_S)
        if isinstance(error, PutFailed):
            return putting.tries == 1
        raise error

    def _begin(
        self, step: int, kind: str, snapshot: Snapshot, metrics: Mapping[str, float] | None, tries: int = 1
    ) -> None:
        setting = self._setting
        future = setting.repository.begin_put_snapshot(
            snapshot,
            step=step,
            base=self._base,
            labels=(setting.cache_label if kind == "pause" else setting.label,),
            metrics=metrics,
        )
        self._putting = _Putting(step, kind, snapshot, metrics, future, next(self._numbers), tries)
        future.add_done_callback(partial(self._done, self._putting))

    # On the event loop, or in the task's own thread

    def _done(self, putting: _Putting, future: Future[ModelId]) -> None:
        self._say(putting)

    def _say(self, putting: _Putting) -> None:
        """Say once what came of a put, from whichever thread is there first."""
        with self._lock:
            if putting.number in self._said:
                return
            self._said.add(putting.number)
        error = putting.future.exception()
        if error is None:
            self._on_stored(putting.step, str(putting.future.result()), putting.kind)
        elif putting.kind == "mark" and isinstance(error, DaskevoError) and is_full(error):
            self._room.ask()
            self._on_lacking(putting.step, missing_bytes(error, putting.snapshot))


def is_full(error: DaskevoError) -> bool:
    """Tell whether a put has found no room, on the disk or within the quota."""
    return failure_of(error).kind == "no room"


def missing_bytes(error: DaskevoError, snapshot: Snapshot) -> int:
    """Return the bytes that a put lacks: on a disk that is full, those of the whole state."""
    needed, free = error.facts.get("needed_bytes"), error.facts.get("free_bytes")
    if type(needed) is int and type(free) is int:
        return max(needed - free, 1)
    return sum(array.nbytes for array in (*snapshot.weights, *snapshot.attached.values()))
