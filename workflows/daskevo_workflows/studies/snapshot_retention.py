"""Keeps a study's snapshots: what is needed under its ``request`` label, all else under ``cache`` while there is room.

What is to be done is decided in the controller's thread (:mod:`daskevo.tuning.snapshot_labels`), and done in a
thread of its own, one thing after the other: the repository may take its time.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from daskevo.errors import ClusterError, RepositoryError
from daskevo.tuning import (
    Kind,
    LabelStep,
    Run,
    State,
    Trajectory,
    begun_with,
    label_steps,
)
from daskevo.tuning.needs import needed_snapshots
from daskevo_workflows.studies import quota_eviction
from daskevo_workflows.studies.controller import Controller
from daskevo_workflows.studies.quota_eviction import GONE, RoomMaker, release_all
from daskevo_workflows.studies.stored_snapshots import Twin, twins

logger = logging.getLogger(__name__)

KEEP_S = 1.0
"""Least time between two looks at which labels are to be changed."""
AGAIN_S = 15.0
"""How long label changes are put off when nobody answers for a snapshot."""
CLOSE_S = 60.0
"""Longest that the end of a study waits for its labels."""


class RetentionStore(quota_eviction.EvictionStore, Protocol):
    """What of a repository is used here."""

    def hold(self, model_id: str, label: str) -> Any: ...


class Told(Protocol):
    """The study's record, as it is used here."""

    def held(self) -> Sequence[tuple[Trajectory, int]]:
        """Return what the study still wants kept."""

    def note(self, kind: str, message: str, **facts: Any) -> None:
        """Store something that happened."""

    def duplicates(self, names: Sequence[str]) -> None:
        """Take in snapshots of states that were stored by another process, too."""


class SnapshotRetention:
    """Of one study; made and called in the controller's thread, but for `close`.

    Parameters
    ----------
    controller:
        Whose plan and costs these are.
    store:
        The repository.
    told:
        The study's record.
    origin:
        Of its trajectories.
    label:
        Of the study: snapshots have ``request:<label>`` and ``cache:<label>``.
    stored:
        What the repository had when the study was opened.
    """

    def __init__(
        self,
        controller: Controller,
        store: RetentionStore,
        told: Told,
        origin: str,
        label: str,
        stored: Iterable[Any] = (),
    ) -> None:
        self._controller, self._store, self._told, self._origin = controller, store, told, origin
        self._labels: dict[Kind, str] = {"request": f"request:{label}", "cache": f"cache:{label}"}
        rows = list(stored)
        known = self._names()
        self._kinds: dict[str, Kind] = {
            row.name: kind for row in rows if (kind := self._kind(row)) and row.name in known
        }
        self._borrowed: set[str] = set()
        self._copies: dict[str, str] = {}
        self._superseded: set[str] = set()
        self._states: dict[tuple[str, int], State] = {}
        self._is_said = False
        self._busy = False
        self._next = 0.0
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._room = RoomMaker(
            controller, store, self._labels.values(), later=self._jobs.put, lose=self._lose, note=told.note
        )
        self._thread = threading.Thread(target=self._work, daemon=True, name="daskevo-labels")
        self._thread.start()
        if found := self._twins(rows):
            self._jobs.put(lambda: self._join(found))

    @property
    def _plan(self) -> Any:
        return self._controller.plan

    def _kind(self, row: Any) -> Kind | None:
        """Return the kind of label by which this study keeps a snapshot."""
        kinds: tuple[Kind, ...] = ("request", "cache")
        return next((kind for kind in kinds if self._labels[kind] in row.labels), None)

    def _names(self) -> dict[str, State]:
        """Return the state of each snapshot of the plan."""
        return {name: State(node.number, step) for node in self._plan.nodes for step, name in node.snapshots.items()}

    # What happens

    def stored(self, run: Run, step: int, name: str, kind: str) -> None:
        self._kinds[name] = "cache" if kind == "pause" else "request"
        if (copy := self._copies.pop(run.work, None)) is not None:
            self._superseded.add(copy)
        if kind == "pause":
            self._copies[run.work] = name

    def forget(self, name: str | None) -> None:
        if name is not None:
            self._kinds.pop(name, None)

    def unsaved(self, step: int, kind: str, why: str) -> None:
        if kind == "mark":
            words = f"the state at step {step} was not stored, and is trained again where others need it: {why}"
            self._told.note("not stored", words, step=step)
        elif not self._is_said:
            self._is_said = True
            words = f"the repository has no room for copies against failures, or fails them; training goes on: {why}"
            self._told.note("no copies", words, step=step)

    # Labels

    def _held(self) -> list[State]:
        held = []
        for trajectory, step in self._told.held():
            key = trajectory.key(step), step
            if key not in self._states:
                self._states[key] = self._plan.locate(trajectory, step)
            held.append(self._states[key])
        return held

    def needed(self) -> set[str]:
        return set(needed_snapshots(self._plan, self._held()).values())

    def begun_with(self) -> set[str]:
        return begun_with(self._plan, self._controller.scheduler.under_way.promises(), self._held())

    def turn(self) -> None:
        now = time.monotonic()
        if not self._busy and now >= self._next:
            self._next = now + KEEP_S
            self._change()

    def _change(self) -> None:
        in_use = self._controller.in_use
        self._drop_superseded(in_use)
        steps = label_steps(self._plan, self._kinds, borrowed=self._borrowed, held=self._held(), in_use=in_use)
        if steps:
            self._busy = True
            self._jobs.put(lambda: self._carry_out(steps))

    def _drop_superseded(self, in_use: set[str]) -> None:
        """Forget copies that a later state has taken the place of, unless somebody needs them."""
        if not self._superseded:
            return
        needed, places = self._controller.needed(), self._names()
        for name in list(self._superseded):
            if name not in in_use:
                self._superseded.discard(name)
                if name not in needed and name in places:
                    self._plan.gone(places[name])

    def _carry_out(self, steps: Sequence[LabelStep]) -> None:
        """Change labels. In the thread of its own."""
        done: list[LabelStep] = []
        gone: list[str] = []
        off = False
        for step in steps:
            try:
                self._step(step)
                done.append(step)
            except GONE:
                gone.append(step.name)
            except (RepositoryError, ClusterError) as error:
                logger.info("label changes are put off: %s", error)
                off = True
                break
        self._controller.post(lambda: self._changed(done, gone, off=off))

    def _step(self, step: LabelStep) -> None:
        if step.hold is not None:
            self._store.hold(step.name, self._labels[step.hold])
        if step.release is not None:
            self._store.release(step.name, self._labels[step.release])

    def _changed(self, done: Sequence[LabelStep], gone: Sequence[str], *, off: bool) -> None:
        self._busy = False
        if off:
            self._next = time.monotonic() + AGAIN_S
        for name, hold, release in done:
            if hold is not None and release is None:
                self._borrowed.add(name)
            if hold is None:
                self._kinds.pop(name, None)
                self._borrowed.discard(name)
            else:
                self._kinds[name] = hold
        self._lose(gone)

    def _lose(self, names: Iterable[str]) -> None:
        """Have the plan know that snapshots are not there any more."""
        places = self._names()
        for name in names:
            self._kinds.pop(name, None)
            if name in places:
                self._plan.gone(places[name])

    def make_room(self, work: str, step: int, nbytes: int) -> None:
        self._room.make(work, step, nbytes)

    # What several processes have stored

    def _twins(self, rows: Iterable[Any]) -> list[tuple[Twin, Kind]]:
        """Return snapshots of this study of whose states there is a later one; then that is the one to keep."""
        in_use = self._controller.in_use
        found = [(twin, self._kind(twin.earlier)) for twin in twins(rows, self._origin)]
        return [(twin, kind) for twin, kind in found if kind is not None and twin.earlier.name not in in_use]

    def _join(self, found: Sequence[tuple[Twin, Kind]]) -> None:
        """Keep the later ones instead. In the thread of its own."""
        joined: list[tuple[Twin, Kind]] = []
        for twin, kind in found:
            try:
                self._store.hold(twin.later.name, self._labels[kind])
                release_all(self._store, twin.earlier.name, self._labels.values())
                joined.append((twin, kind))
            except (RepositoryError, ClusterError) as error:
                logger.info("a snapshot that is stored twice is left alone: %s", error)
        self._controller.post(lambda: self._joined(joined))

    def _joined(self, found: Sequence[tuple[Twin, Kind]]) -> None:
        places = self._names()
        for twin, kind in found:
            earlier, later = str(twin.earlier.name), str(twin.later.name)
            self._kinds.pop(earlier, None)
            self._kinds[later] = kind
            if later not in places and earlier in places:
                self._plan.saved(places[earlier], later)
        if found:
            self._told.duplicates([str(twin.earlier.name) for twin, _ in found])

    # The end

    def close(self) -> None:
        """Change what labels are still to be changed, and look for what others have stored, too. From any thread."""
        until = time.monotonic() + CLOSE_S
        while self._controller.call(lambda: self._busy) and time.monotonic() < until:
            time.sleep(0.01)
        self._controller.call(self._change)
        self._jobs.put(self._tidy)
        self._jobs.put(None)
        self._thread.join(CLOSE_S)
        self._controller.call(lambda: None)  # what the thread has posted is taken in

    def _tidy(self) -> None:
        try:
            rows = self._store.snapshots()
        except (RepositoryError, ClusterError) as error:
            logger.info("what others have stored can't be asked now: %s", error)
            return
        self._join(self._controller.call(lambda: self._twins(rows)))

    def stop(self) -> None:
        """End without a word to the repository."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                logger.exception("labels of a study could not be changed")
