"""Running evaluations: submit them as Dask futures, watch them, and yield each one that ends.

Callbacks of other threads only put messages into one queue, so all state of a run changes in one thread.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from distributed.client import FutureCancelledError

from daskevo.errors import ClusterError
from daskevo.runs import RunRecord, Unit
from daskevo.search import Report, Request
from daskevo_plugins.formatting import say_count
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.evaluate import evaluate
from daskevo_workflows.evaluation.trainer_task import EVENTS
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.letting_go import let_go
from daskevo_workflows.execution.run_data import RunData
from daskevo_workflows.execution.running_task import EndedTask, RunningTask, failed
from daskevo_workflows.execution.scheduler_lost import FETCH_S, NO_ANSWER, why_cut_off
from daskevo_workflows.execution.time_limits import EvaluationLimit
from daskevo_workflows.execution.trainer_upkeep import Upkeep
from daskevo_workflows.execution.trainers import SILENT_S, Trainer, Trainers

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""Interval at which limits and trainers are checked when nothing else happens."""
SETUP_S = 180.0
"""Time a trainer may take, beyond an evaluation's limit, to import Keras and prepare the data."""
PAUSED_S = 2.0
"""Time a paused trainer has to report that it began the evaluation before it was paused."""
MATCH_S = 30.0
"""Time limit of a batch's query; after that each evaluation makes its own."""
DEATHS = 2
"""Trainers that may die during an evaluation before it counts as failed: one death may be the machine's fault."""
LOSSES = 6
"""Losses of any kind before it counts as failed. They say little about the candidate when the trainer died before it
began, or left in good order (cluster scaled down, worker lifetime over)."""


class RunningTasks:
    """All running evaluations of a run.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    repository:
        Used to submit queries as futures.
    record:
        Where units and events are noted.
    limit:
        Time limit of an evaluation, counted from when its trainer is ready.
    data:
        Is told what data trainers have prepared.
    recycle_after, grows:
        See :class:`daskevo_workflows.execution.trainer_upkeep.Upkeep`.
    expected_s:
        See :class:`daskevo_workflows.execution.trainers.Trainers`.
    parcel:
        Returns a future of the problem, if that is an object (:class:`daskevo_workflows.problems.delivery.Delivery`).
    freed:
        Called as soon as an evaluation has ended and its trainer is free, before the report is fetched.
    """

    def __init__(
        self,
        client: Any,
        repository: Any,
        record: RunRecord,
        limit: EvaluationLimit,
        data: RunData,
        recycle_after: int | None,
        freed: Callable[[], None] = lambda: None,
        grows: Callable[[], bool] = lambda: False,
        expected_s: Callable[[], float | None] = lambda: None,
        parcel: Callable[[], Any] = lambda: None,
    ) -> None:
        self.client = client
        self.repository = repository
        self.record = record
        self.limit = limit
        self.freed = freed
        self._parcel = parcel
        # Callbacks run in the client's event loop thread: they may only put into this queue.
        self._inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._tasks: dict[str, RunningTask] = {}
        self._cancelled: dict[str, RunningTask] = {}
        self._deaths: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._watched = 0.0
        self._data = data
        self.trainers = Trainers(client, lambda name, error: self._inbox.put(("restarted", (name, error))), expected_s)
        self.upkeep = Upkeep(self.trainers, record, recycle_after, grows)
        self.unmatched: set[int] = set()
        client.subscribe_topic(EVENTS, lambda event: self._inbox.put(("said", event[1])))

    def close(self, patience_s: float = 0.0) -> None:
        """Cancel all running evaluations and stop listening.

        Parameters
        ----------
        patience_s:
            As in :func:`daskevo_workflows.execution.letting_go.let_go`; trainers notice after their current batch.
        """
        self._cancelled, self._tasks = self._tasks, {}
        tasks = list(self._cancelled.values())
        try:
            if tasks:
                self.client.cancel([task.future for task in tasks], force=True)
                for task in tasks:
                    task.release_matches()
                let_go(self._still_running, self._end_at_last, self.trainers, lambda s: list(self._hear(s)), patience_s)
            self.client.unsubscribe_topic(EVENTS)
        except (*NO_ANSWER, ClusterError) as error:
            logger.warning("tasks on their way could not be cancelled: %s", error)
        self._cancelled = {}
        for task in tasks:
            self.record.unit_ended(task.unit.key, "cancelled")

    def _still_running(self) -> list[tuple[RunningTask, Trainer]]:
        return [(task, task.trainer) for task in self._cancelled.values() if task.is_running]

    def _end_at_last(self, task: RunningTask) -> None:
        end = self._end(task)
        logger.warning("evaluation %d did not end when it was cancelled; %s", task.request.number, end)
        note(self.record, "given up", end, task.request.number, worker=task.place)

    def give_up(self, number: int) -> bool:
        """Cancel a request's evaluation, which ends after its current batch of data; False if it is not running."""
        for task in [task for task in self._tasks.values() if task.request.number == number]:
            task.future.cancel(force=True)
            self._remove(task, "cancelled")
            return True
        return False

    @property
    def all(self) -> list[RunningTask]:
        """All running evaluations."""
        return list(self._tasks.values())

    @property
    def requests(self) -> list[Request]:
        return [task.request for task in self._tasks.values()]

    @property
    def choosing(self) -> frozenset[str]:
        """Keys of the evaluations that may still choose an ancestor from the published models."""
        return frozenset(key for key, task in self._tasks.items() if task.chosen is None and task.request.transfer)

    def __len__(self) -> int:
        return len(self._tasks)

    # Submitting

    def submit(
        self,
        units: Sequence[Unit],
        assignments: Sequence[EvaluationAssignment],
        places: Sequence[Trainer],
        graphs: Mapping[int, Any],
    ) -> None:
        """Submit a batch: a query per provider, their reduction, and an evaluation per assignment.

        Parameters
        ----------
        units:
            The batch's plan; already in the record.
        assignments, places:
            One evaluation each, and the trainer that gets it.
        graphs:
            Architecture graphs by request number.
        """
        # A plan has at most one match unit; without it, or without providers, evaluations query for themselves.
        match = next((unit for unit in units if unit.kind == "match"), None)
        matches = None if match is None else self._match(match, graphs)
        positions: dict[int, int] = {}
        if match is not None and matches is not None:
            positions = {number: position for position, number in enumerate(match.numbers)}
        by_key = {unit.key: unit for unit in units}
        for assignment, trainer in zip(assignments, places, strict=True):
            position = positions.get(assignment.request.number)
            future = self.client.submit(
                evaluate,
                assignment,
                None if position is None else matches,
                position or 0,
                self._parcel(),
                key=assignment.key,
                # Pinned: this run counts slots per trainer, and the record already names this one.
                workers=[trainer.name],
                allow_other_workers=False,
                resources=self.trainers.claims,
                pure=False,
            )
            self._tasks[assignment.key] = RunningTask(
                request=assignment.request,
                unit=by_key[assignment.key],
                trainer=trainer,
                future=future,
                matches=None if position is None else matches,
                submitted=time.monotonic(),
            )
            self.trainers.take(str(trainer.name), assignment.key)
            # By key: a late callback of an evaluation that was given up must find nothing.
            future.add_done_callback(lambda done, key=assignment.key: self._inbox.put(("done", key)))

    def _match(self, match: Unit, graphs: Mapping[int, Any]) -> Any:
        """Submit a batch's query; None if no provider is there now, and then each evaluation queries for itself."""
        try:
            matches = self.repository.query_futures([graphs[number] for number in match.numbers], client=self.client)
        except ClusterError as error:
            note(self.record, "no query", f"the batch's query could not be submitted: {error}")
            self.record.unit_ended(match.key, "lost")
            return None
        matches.add_done_callback(lambda done: self._inbox.put(("matched", match.key)))
        return matches

    # What happens on the cluster

    def wait(self, timeout_s: float) -> Iterator[EndedTask]:
        """Wait for messages, then check limits and trainers; yield each evaluation that has ended.

        Raises
        ------
        NoTrainer, SchedulerUnreachable
        RunMismatch
            If a trainer has prepared data that the run can't go on with.
        """
        yield from self._hear(timeout_s)
        yield from self.watch()

    def _hear(self, timeout_s: float) -> Iterator[EndedTask]:
        try:
            # Process every message that has arrived before checking limits: a report may settle what looks overdue.
            kind, what = self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
            while True:
                yield from getattr(self, f"_on_{kind}")(what)
                kind, what = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _on_said(self, message: Mapping[str, Any]) -> Iterator[EndedTask]:
        if message["what"] == "over" and self.trainers.unstick(message["key"]):
            words = f"{message['worker']} has ended the evaluation that was given up, and takes others again"
            note(self.record, "trainer back", words, worker=message["worker"])
        task = self._tasks.get(message["key"]) or self._cancelled.get(message["key"])
        if task is not None:
            task.hear(message)
            if message["what"] == "ready" and message["key"] in self._tasks:
                self._data.seen(message.get("data"), message["worker"])
        yield from ()

    def _on_restarted(self, what: tuple[str, Exception | None]) -> Iterator[EndedTask]:
        name, error = what
        self.trainers.has_restarted(name)
        if error is not None:
            note(self.record, "restart failed", f"{name}: {error}", worker=name)
        yield from ()

    def _on_matched(self, key: str) -> Iterator[EndedTask]:
        self.record.unit_ended(key, "done")
        yield from ()

    def _on_done(self, key: str) -> Iterator[EndedTask]:
        task = self._tasks.get(key)
        if task is None:
            return
        if task.future.status == "finished":
            self._free(task, evaluated=True)
            try:
                # The result lives on the worker: it may die between the end of the task and this fetch.
                report: Report = task.future.result(FETCH_S)
            except (*NO_ANSWER, FutureCancelledError) as cut:
                self.trainers.refresh()  # raises if it is the scheduler that is gone
                yield self._unfetched(task, f"{type(cut).__name__}: {cut}")
                return
            state = "done" if report.status == "finished" else "failed"
            self.record.unit_ended(task.unit.key, state, report.started, report.ended)
        elif task.future.status in ("lost", "pending"):
            # The evaluation had ended, but its result was lost with the worker. Dask would run it again, pinned to a
            # worker that is gone, and wait for ever.
            self._free(task, evaluated=True)
            yield self._unfetched(task, "it went with its trainer")
            return
        elif task.future.status == "error":
            error = task.future.exception()
            if type(error).__name__ == "KilledWorker":
                yield self._lost(task, f"its trainer died: {error}")
                return
            if task.matches is not None and task.matches.status == "error":
                yield self._without_match(task, f"the query of its batch failed: {error}")
                return
            self._free(task, evaluated=True)
            self.record.unit_ended(task.unit.key, "failed")
            report = failed(task.request, "error", f"{type(error).__name__}: {error}", task.place)
        else:
            self.trainers.refresh()  # raises if it is the scheduler that is gone
            if (why := why_cut_off(task.future)) is not None:
                yield self._withdraw(task, why)
                return
            self._free(task, evaluated=False)
            self.record.unit_ended(task.unit.key, "cancelled")
            report = failed(task.request, "cancelled", "its task was cancelled by somebody else", task.place)
        task.future.release()
        self.upkeep.recycle(task.place)
        yield EndedTask(task.request, report)

    def _unfetched(self, task: RunningTask, why: str) -> EndedTask:
        """Give back an evaluation that ended without its report reaching us: the executor looks for its model."""
        self.record.unit_ended(task.unit.key, "lost")
        task.future.cancel(force=True)
        task.future.release()
        note(
            self.record,
            "again",
            f"its report could not be fetched: {why}",
            task.request.number,
            worker=task.place,
        )
        return EndedTask(task.request, None)

    def _free(self, task: RunningTask, *, evaluated: bool) -> None:
        """Free a trainer after an evaluation and submit the next one at once, unless the trainer is due for a restart:
        a restart must wait until the report is fetched."""
        del self._tasks[task.unit.key]
        self.trainers.give_back(task.place, task.unit.key, evaluated=evaluated)
        if not self.upkeep.why_recycle(task.place):
            self.freed()

    def _remove(self, task: RunningTask, state: str) -> None:
        """Remove an evaluation that did not end by itself."""
        del self._tasks[task.unit.key]
        # A stuck trainer still computes this evaluation: its slot stays taken (see `Trainers.stick`).
        if task.unit.key not in self.trainers.stuck:
            self.trainers.give_back(task.place, task.unit.key, evaluated=False)
        self.record.unit_ended(task.unit.key, state)
        task.future.release()

    # Limits and trainers

    def watch(self) -> Iterator[EndedTask]:
        """Check limits and trainers, once per tick; yield each evaluation that is over."""
        now = time.monotonic()
        if now - self._watched < TICK_S:
            return
        self._watched = now
        before = set(self.trainers.present)
        present = self.trainers.refresh()
        if set(present) != before:
            note(self.record, "trainers", f"{len(present)} trainers: {', '.join(sorted(present)) or 'none'}")
        self.upkeep.check_any(now)
        limit = self.limit.now()
        for task in [task for task in self._tasks.values() if not task.future.done()]:
            there = present.get(task.place)
            # Compare addresses, not names: a nanny's restart keeps the name, and the task died with the old process.
            if there is None or there.address != task.trainer.address:
                yield self._lost(task, f"trainer {task.place} died or left")
            elif self._unanswered(task, now):
                yield self._without_match(task, "the query of its batch was not answered")
            elif self.trainers.is_silent(task.place):
                yield self._stalled(task, f"nothing was heard of trainer {task.place} for {SILENT_S:g} s")
            elif task.begun is None and there.paused and now - task.submitted > PAUSED_S:
                # It can't begin before the trainer's memory use falls, and only a restart does that.
                yield self._lost(task, f"trainer {task.place} was paused for its memory before it had begun it")
            elif task.begun is None:
                if now - task.submitted > SETUP_S and not self._waits_its_turn(task, now):
                    yield self._stalled(task, f"trainer {task.place} did not begin it within {SETUP_S:g} s")
            elif limit is not None:
                # Until it is ready it has the set-up time on top of its limit.
                since = task.ready if task.ready is not None else task.begun + SETUP_S
                if now - since > limit[0]:
                    yield self._past_limit(task, limit[1])
        for name in present:
            self.upkeep.recycle(name)

    def _unanswered(self, task: RunningTask, now: float) -> bool:
        """Tell whether an evaluation waits in vain for its batch's query.

        The query's task may be pinned to a provider that died, before or after it answered.
        """
        if task.matches is None or task.begun is not None:
            return False
        # An answer that is done still has to travel to the trainer, so it gets more time.
        return now - task.submitted > (3 * MATCH_S if task.matches.done() else MATCH_S)

    def _waits_its_turn(self, task: RunningTask, now: float) -> bool:
        """Tell whether the trainer is busy with other clients' tasks; note it once, and restart the set-up time."""
        others = self.trainers.others_tasks(task.place, self._tasks)
        if not others:
            return False
        task.submitted = now
        if not task.is_waiting:
            task.is_waiting = True
            words = f"it has not begun: {task.place} has {say_count(others, 'task')} of others, and does those first"
            logger.warning("evaluation %d: %s", task.request.number, words)
            note(self.record, "waiting", words, task.request.number, worker=task.place)
        return True

    def _past_limit(self, task: RunningTask, limit: str) -> EndedTask:
        """End an evaluation past its limit."""
        end = self._end(task)
        self._remove(task, "cancelled")
        note(self.record, "time limit", f"past {limit}; {end}", task.request.number, worker=task.place)
        message = f"the evaluation was past {limit}; {end}"
        return EndedTask(task.request, failed(task.request, "time limit", message, task.place))

    def _end(self, task: RunningTask) -> str:
        what = f"evaluation {task.request.number}"
        return self.upkeep.end(task.future, task.place, task.unit.key, what)

    def _stalled(self, task: RunningTask, message: str) -> EndedTask:
        """Give back an evaluation whose trainer does not respond, and end that trainer's process."""
        return self._lost(task, f"{message}; {self._end(task)}")

    def _lost(self, task: RunningTask, message: str) -> EndedTask:
        """Give back an evaluation that was lost with its trainer: submit it again, or fail it after too many losses."""
        number = task.request.number
        self._losses[number] += 1
        self._deaths[number] += task.begun is not None and task.trainer.address not in self.trainers.left
        if self._deaths[number] < DEATHS and self._losses[number] < LOSSES:
            return self._withdraw(task, message)
        task.future.cancel(force=True)
        self._remove(task, "lost")
        again = f"{message}; this evaluation has lost {self._losses[number]} trainers"
        return EndedTask(task.request, failed(task.request, "trainer lost", again, task.place))

    def _without_match(self, task: RunningTask, message: str) -> EndedTask:
        """Give back an evaluation that has not begun, to be submitted again without its batch's query."""
        self.unmatched.add(task.request.number)
        return self._withdraw(task, f"{message}; it will ask for itself")

    def _withdraw(self, task: RunningTask, message: str) -> EndedTask:
        task.future.cancel(force=True)
        self._remove(task, "lost")
        note(self.record, "again", message, task.request.number, worker=task.place)
        return EndedTask(task.request, None)
