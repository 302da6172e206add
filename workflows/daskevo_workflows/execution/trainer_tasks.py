"""Tasks on trainers: each a Dask future pinned to one trainer; watched until it ends, is lost, or is given up.

A search and a study each own one :class:`TrainerTasks`. Dask calls back in its own threads: there, everything is only
posted to the owner, so that a run changes in one thread.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from distributed.client import FutureCancelledError

from daskevo.errors import ClusterError, VersionMismatch
from daskevo.planning import LossKind
from daskevo_plugins.formatting import say_count
from daskevo_workflows.execution.event_log import Noted, note
from daskevo_workflows.execution.letting_go import let_go
from daskevo_workflows.execution.scheduler_lost import FETCH_S, NO_ANSWER, told_if_scheduler_gone, why_cut_off
from daskevo_workflows.execution.trainer_upkeep import Upkeep
from daskevo_workflows.execution.trainers import SILENT_S, Trainer, Trainers

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""Interval at which limits and trainers are checked when nothing else happens."""
SETUP_S = 180.0
"""Time a trainer may take to begin a task, to import Keras and to prepare the data."""
PAUSED_S = 2.0
"""Time a paused trainer has to report that it began a task before it was paused."""


@dataclass(kw_only=True)
class TrainerTask:
    """One task on a trainer; times by this process' monotonic clock.

    Parameters
    ----------
    key:
        Of its Dask future.
    trainer:
        As it was when the task was submitted.
    future:
        Set when it is submitted.
    submitted:
        When it was submitted, or was last seen to wait for another client's tasks.
    begun, ready, over:
        When its trainer said so; `ready`: it has Keras and the data.
    heard:
        When its trainer last said something of it.
    is_waiting:
        Whether it has been said that its trainer is busy with another client's tasks.
    """

    key: str
    trainer: Trainer
    future: Any = None
    submitted: float = field(default_factory=time.monotonic)
    begun: float | None = None
    ready: float | None = None
    over: float | None = None
    heard: float | None = None
    is_waiting: bool = False

    @property
    def place(self) -> str:
        """The name of its trainer."""
        return str(self.trainer.name)

    @property
    def is_running(self) -> bool:
        """Whether its trainer has begun it and has not said that it is over; cancelled, it goes on until it notices."""
        return self.begun is not None and self.over is None

    @property
    def silent_since(self) -> float:
        """When something was last heard of it; its submission counts."""
        return self.submitted if self.heard is None else self.heard

    @property
    def ready_since(self) -> float | None:
        """Since when its own time limit runs; it has the set-up time to get ready. None: it has not begun."""
        return self.ready if self.ready is not None or self.begun is None else self.begun + SETUP_S

    @property
    def number(self) -> int | None:
        """The number of the request that it is for; None if it is for several."""
        return None

    def __str__(self) -> str:
        return self.key


Task = TypeVar("Task", bound=TrainerTask)
Owner_Task = TypeVar("Owner_Task", bound=TrainerTask, contravariant=True)


class TaskOwner(Noted, Protocol[Owner_Task]):
    """Who is told what happens to its tasks, in the thread in which it calls what was posted, or `watch`."""

    def post(self, function: Callable[[], None]) -> None:
        """Have a function called in the owner's thread. Called from any thread."""

    def said(self, task: Owner_Task, message: Mapping[str, Any], *, cancelled: bool) -> None:
        """A trainer has said something of a task: ``begun``, ``ready``, ``over``, or what the task itself says."""

    def freed(self, task: Owner_Task) -> None:
        """A task has ended and its trainer is free; what it returned is fetched next."""

    def returned(self, task: Owner_Task, result: Any) -> None:
        """A task has returned."""

    def raised(self, task: Owner_Task, error: BaseException) -> None:
        """A task has raised, or what it waits for has."""

    def lost(self, task: Owner_Task, kind: LossKind, why: str) -> None:
        """A task was lost."""

    def check(self, task: Owner_Task, now: float) -> None:
        """Check the owner's own limits of a task that its trainer may have begun."""


class TrainerTasks(Generic[Task]):
    """All tasks of one owner on the cluster's trainers.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    owner:
        Told what happens.
    recycle_after, grows:
        See :class:`daskevo_workflows.execution.trainer_upkeep.Upkeep`.
    expected_s:
        See :class:`daskevo_workflows.execution.trainers.Trainers`.
    """

    def __init__(
        self,
        client: Any,
        owner: TaskOwner[Task],
        recycle_after: int | None,
        grows: Callable[[], bool] = lambda: False,
        expected_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.running: dict[str, Task] = {}
        self.topic = f"daskevo-{uuid.uuid4().hex[:12]}"
        """Dask topic on which trainers say how far these tasks are. A client has one handler per topic."""
        self._client = client
        self._owner = owner
        self._cancelled: dict[str, Task] = {}
        self._watched = 0.0
        post = owner.post
        self.trainers = Trainers(
            client, lambda name, error: post(partial(self._has_restarted, name, error)), expected_s
        )
        self.upkeep = Upkeep(self.trainers, owner, recycle_after, grows)
        client.subscribe_topic(self.topic, lambda event: post(partial(self._hear, event[1])))

    def submit(self, task: Task, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit a task to its trainer.

        Raises
        ------
        SchedulerUnreachable
        """
        with told_if_scheduler_gone():
            task.future = self._client.submit(
                function,
                *arguments,
                key=task.key,
                # Pinned by name: the owner counts slots per trainer. Pinned to an address it would wait for ever after
                # a nanny's restart.
                workers=[task.trainer.name],
                allow_other_workers=False,
                resources=self.trainers.claims,
                pure=False,
            )
        self.running[task.key] = task
        self.trainers.take(task.place, task.key)
        # By key: a late callback of a task that was given up must find nothing.
        key = task.key
        task.future.add_done_callback(lambda done: self._owner.post(partial(self._on_done, key)))

    def give_up(self, task: Task) -> None:
        """Cancel a task, which ends after its current batch of data; nothing more is told of it."""
        task.future.cancel(force=True)
        self._land(task)

    def lose(self, task: Task, kind: LossKind, why: str) -> None:
        """Cancel a task that is lost, and tell its owner."""
        self.give_up(task)
        self._owner.lost(task, kind, why)

    def end(self, task: Task) -> str:
        """Cancel a task whose trainer does not get on, with that trainer's process if possible; return what was."""
        done = self.upkeep.end(task.future, task.place, task.key, str(task))
        self._land(task)
        return done

    def close(self, take_in: Callable[[float], object], patience_s: float) -> bool:
        """Cancel all tasks and stop listening; return False if the scheduler could not be reached.

        Parameters
        ----------
        take_in, patience_s:
            As in :func:`daskevo_workflows.execution.letting_go.let_go`; trainers notice after their current batch.
        """
        self._cancelled, self.running = self.running, {}
        try:
            if self._cancelled:
                self._client.cancel([task.future for task in self._cancelled.values()], force=True)
                let_go(self._still_running, self._end_at_last, self.trainers, take_in, patience_s)
            self._client.unsubscribe_topic(self.topic)
        except (*NO_ANSWER, ClusterError) as error:
            logger.warning("tasks on their way could not be cancelled: %s", error)
            return False
        finally:
            # A cancelled future still counts as a reference to its key.
            for task in self._cancelled.values():
                task.future.release()
        return True

    def _still_running(self) -> list[tuple[Task, Trainer]]:
        return [(task, task.trainer) for task in self._cancelled.values() if task.is_running]

    def _end_at_last(self, task: Task) -> None:
        done = self.upkeep.end(task.future, task.place, task.key, str(task))
        logger.warning("%s did not end when it was cancelled; %s", task, done)
        note(self._owner, "given up", done, task.number, worker=task.place)

    # What happens on the cluster

    def _hear(self, message: Mapping[str, Any]) -> None:
        key, what = message["key"], message["what"]
        if what == "over" and self.trainers.unstick(key):
            words = f"{message['worker']} has ended the task that was given up, and takes others again"
            note(self._owner, "trainer back", words, worker=message["worker"])
        task = self.running.get(key) or self._cancelled.get(key)
        if task is None:
            return
        task.heard = time.monotonic()
        if what in ("begun", "ready", "over"):
            setattr(task, what, task.heard)
        self._owner.said(task, message, cancelled=key not in self.running)

    def _has_restarted(self, name: str, error: Exception | None) -> None:
        self.trainers.has_restarted(name)
        if error is not None:
            note(self._owner, "restart failed", f"{name}: {error}", worker=name)

    def _on_done(self, key: str) -> None:
        task = self.running.get(key)
        if task is None:
            return
        status = task.future.status
        if status == "finished":
            self._free(task)
            try:
                # The result lies on the worker: it may die between the end of the task and this fetch.
                result = task.future.result(FETCH_S)
            except (*NO_ANSWER, FutureCancelledError) as cut:
                self.trainers.refresh()  # raises if it is the scheduler that is gone
                self._unfetched(task, f"{type(cut).__name__}: {cut}")
                return
            self._owner.returned(task, result)
        elif status in ("lost", "pending"):
            # The task had ended, but its result was lost with the worker. Dask would run it again, pinned to a worker
            # that is gone, and wait for ever.
            self._free(task)
            self._unfetched(task, "it went with its trainer")
            return
        elif status == "error":
            error = task.future.exception()
            if type(error).__name__ == "KilledWorker":
                self.lose(task, _died(task), f"its trainer died: {error}")
                return
            if isinstance(error, VersionMismatch):
                self._refuse(task, error.message)
                return
            self._free(task)
            self._owner.raised(task, error)
        else:
            self.trainers.refresh()  # raises if it is the scheduler that is gone
            why = why_cut_off(task.future)
            self.lose(task, "cut off" if why else "cancelled", why or "its task was cancelled by somebody else")
            return
        task.future.release()
        self.upkeep.recycle(task.place)

    def _free(self, task: Task) -> None:
        """Free a trainer after a task, and have the owner give it the next one, unless the trainer is due for a
        restart: that must wait until the result is fetched."""
        del self.running[task.key]
        self.trainers.give_back(task.place, task.key, evaluated=True)
        if not self.upkeep.why_recycle(task.place):
            self._owner.freed(task)

    def _refuse(self, task: Task, why: str) -> None:
        """Do without a trainer that would train otherwise than the others: its tasks would fail one after the other."""
        if self.trainers.refuse(task.trainer, why):
            logger.warning("trainer %s gets no task: %s", task.place, why)
            note(self._owner, "trainer refused", why, worker=task.place)
        self.lose(task, "refused", why)

    def _unfetched(self, task: Task, why: str) -> None:
        task.future.cancel(force=True)
        task.future.release()
        self._owner.lost(task, "unfetched", f"its report could not be fetched: {why}")

    def _land(self, task: Task) -> None:
        """Remove a task that did not end by itself."""
        del self.running[task.key]
        # A stuck trainer still computes this task: its slot stays taken (see `Trainers.stick`).
        if task.key not in self.trainers.stuck:
            self.trainers.give_back(task.place, task.key, evaluated=False)
        task.future.release()

    # Limits and trainers

    def watch(self) -> bool:
        """Check limits and trainers, once per tick; return whether it was time to.

        Raises
        ------
        NoTrainer, SchedulerUnreachable
        """
        now = time.monotonic()
        if now - self._watched < TICK_S:
            return False
        self._watched = now
        before = set(self.trainers.present)
        present = self.trainers.refresh()
        if set(present) != before:
            listed = ", ".join(sorted(present)) or "none"
            note(self._owner, "trainers", f"{len(present)} trainers: {listed}")
        self.upkeep.check_any(now)
        for task in [task for task in self.running.values() if not task.future.done()]:
            self._check(task, present.get(task.place), now)
        for name in list(present):
            self.upkeep.recycle(name)
        return True

    def _check(self, task: Task, there: Trainer | None, now: float) -> None:
        name = task.place
        # Compare addresses, not names: a nanny's restart keeps the name, and the task died with the old process.
        if there is None or there.address != task.trainer.address:
            self.lose(task, *self.how_gone(task))
        elif self.trainers.is_silent(name):
            self._end(
                task,
                "not begun" if task.begun is None else "silent",
                f"nothing was heard of trainer {name} for {SILENT_S:g} s",
            )
        elif task.begun is None and there.paused and now - task.submitted > PAUSED_S:
            # It can't begin before the trainer's memory use falls, and only a restart does that.
            self.lose(task, "paused", f"trainer {name} was paused for its memory before it had begun it")
        elif task.begun is None and now - task.submitted > SETUP_S and not self._waits_its_turn(task, now):
            self._end(task, "not begun", f"trainer {name} did not begin it within {SETUP_S:g} s")
        else:
            self._owner.check(task, now)

    def how_gone(self, task: Task) -> tuple[LossKind, str]:
        """Return how a task was lost whose trainer is gone, and in words."""
        kind = "left" if task.trainer.address in self.trainers.left else _died(task)
        return kind, f"trainer {task.place} died or left"

    def _end(self, task: Task, kind: LossKind, why: str) -> None:
        self._owner.lost(task, kind, f"{why}; {self.end(task)}")

    def _waits_its_turn(self, task: Task, now: float) -> bool:
        """Tell whether the trainer is busy with other clients' tasks; note it once, and restart the set-up time."""
        others = self.trainers.others_tasks(task.place, self.running)
        if not others:
            return False
        task.submitted = now
        if not task.is_waiting:
            task.is_waiting = True
            words = f"it has not begun: {task.place} has {say_count(others, 'task')} of others, and does those first"
            logger.warning("%s: %s", task, words)
            note(self._owner, "waiting", words, task.number, worker=task.place)
        return True


def _died(task: TrainerTask) -> LossKind:
    """Return how a task was lost whose trainer died: that says nothing about a task that it had not begun."""
    return "not begun" if task.begun is None else "died"
