"""Running evaluations of a search: submit them with their batch's query, and yield each one that ends."""

from __future__ import annotations

import queue
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from daskevo.errors import ClusterError, SchedulerUnreachable
from daskevo.planning import Losses, LossKind
from daskevo.runs import RunRecord, Unit
from daskevo.search import FailureKind, Report, Request
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.evaluate import evaluate
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.run_data import RunData
from daskevo_workflows.execution.running_task import EndedTask, RunningTask, failed
from daskevo_workflows.execution.scheduler_lost import scheduler_gone
from daskevo_workflows.execution.time_limits import EvaluationLimit
from daskevo_workflows.execution.trainer_tasks import TrainerTasks
from daskevo_workflows.execution.trainers import Trainer

MATCH_S = 30.0
"""Time limit of a batch's query; after that each evaluation makes its own."""


class PlannedEvaluation(NamedTuple):
    """An evaluation that waits for a trainer: its unit, the future of its batch's query, and its place among the
    answers; None: it queries for itself."""

    unit: Unit
    matches: Any = None
    position: int = 0


class RunningTasks:
    """All running evaluations of a run: the owner of its tasks on trainers.

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
    free_for_next:
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
        free_for_next: Callable[[], None] = lambda: None,
        grows: Callable[[], bool] = lambda: False,
        expected_s: Callable[[], float | None] = lambda: None,
        parcel: Callable[[], Any] = lambda: None,
    ) -> None:
        self.repository = repository
        self.record = record
        self._evaluation_limit = limit
        self._limits: dict[int | None, tuple[float, str] | None] = {}
        """Limits of evaluations at this tick, by the steps that they train."""
        self._free_for_next = free_for_next
        self._parcel = parcel
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ended: deque[EndedTask] = deque()
        self._losses = Losses[int]()
        self._data = data
        # Weak: an answer goes when the last evaluation of its batch has.
        self._queries: weakref.WeakSet[Any] = weakref.WeakSet()
        self.tasks: TrainerTasks[RunningTask] = TrainerTasks(client, self, recycle_after, grows, expected_s)
        self.trainers = self.tasks.trainers
        self.unmatched: set[int] = set()
        """Requests that query for themselves, since their batch's query failed."""

    def close(self, patience_s: float = 0.0) -> None:
        """Cancel all running evaluations and stop listening (`patience_s`: as in :meth:`TrainerTasks.close`)."""
        tasks = self.all
        # First, or Dask would ask again if a trainer is ended with the only copy of an answer.
        for matches in self._queries:
            matches.release()
        self.tasks.close(lambda seconds: list(self._hear(seconds)), patience_s)
        for task in tasks:
            self.record.unit_ended(task.unit.key, "cancelled")

    def give_up(self, number: int) -> bool:
        """Cancel a request's evaluation, which ends after its current batch of data; False if it is not running."""
        for task in [task for task in self.all if task.number == number]:
            self.tasks.give_up(task)
            self.record.unit_ended(task.unit.key, "cancelled")
            return True
        return False

    @property
    def all(self) -> list[RunningTask]:
        """All running evaluations."""
        return list(self.tasks.running.values())

    @property
    def requests(self) -> list[Request]:
        return [task.request for task in self.all]

    @property
    def choosing(self) -> frozenset[str]:
        """Keys of the evaluations that may still choose an ancestor from the published models."""
        return frozenset(task.key for task in self.all if task.chosen is None and task.request.transfer)

    def __len__(self) -> int:
        return len(self.tasks.running)

    # Submitting

    def match(self, unit: Unit, graphs: Mapping[int, Any], exclude: Collection[str]) -> Any:
        """Submit a batch's query; return the future of its answers.

        Parameters
        ----------
        unit:
            In the record already.
        graphs:
            Architecture graphs by request number.
        exclude:
            Models that are no match.

        Returns
        -------
        distributed.Future, optional
            None if no provider is there now: then each evaluation queries for itself.
        """
        asked = [graphs[number] for number in unit.numbers]
        try:
            # Without `client=`: the repository's own client is this one, and its connection knows the providers.
            matches = self.repository.query_futures(asked, exclude=exclude)
        except SchedulerUnreachable as error:
            raise scheduler_gone(error) from error
        except ClusterError as error:
            note(self.record, "no query", f"the batch's query could not be submitted: {error}")
            self.record.unit_ended(unit.key, "lost")
            return None
        self._queries.add(matches)
        matches.add_done_callback(lambda done: self.post(lambda: self._matched(unit, done)))
        return matches

    def _matched(self, unit: Unit, matches: Any) -> None:
        self.record.unit_ended(unit.key, "lost" if _is_lost(matches) else "done")

    def submit(
        self,
        planned: PlannedEvaluation,
        assignment: EvaluationAssignment,
        trainer: Trainer,
        steps: int | None = None,
    ) -> None:
        """Submit an evaluation to a trainer; it begins once its batch's query is answered (`steps`: that it trains)."""
        if _is_lost(planned.matches):
            # Lost since, with the cluster's restart for one: Dask would cancel whatever depends on it.
            planned = PlannedEvaluation(planned.unit)
        task = RunningTask(
            key=assignment.key,
            trainer=trainer,
            request=assignment.request,
            unit=planned.unit,
            matches=planned.matches,
            steps=steps,
        )
        assignment = replace(assignment, topic=self.tasks.topic)
        self.tasks.submit(task, evaluate, assignment, planned.matches, planned.position, self._parcel())

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

    def watch(self) -> Iterator[EndedTask]:
        """Check limits and trainers, once per tick; yield each evaluation that is over."""
        self._limits.clear()
        self.tasks.watch()
        yield from self._all_ended()

    def _hear(self, timeout_s: float) -> Iterator[EndedTask]:
        try:
            # Process every message that has arrived before checking limits: a report may settle what looks overdue.
            function = self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
            while True:
                function()
                yield from self._all_ended()
                function = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _all_ended(self) -> Iterator[EndedTask]:
        while self._ended:
            yield self._ended.popleft()

    # As the owner of tasks on trainers

    def post(self, function: Callable[[], None]) -> None:
        self._inbox.put(function)

    def event(self, kind: str, message: str, number: int | None = None, **facts: Any) -> None:
        self.record.event(kind, message, number, **facts)

    def said(self, task: RunningTask, message: Mapping[str, Any], *, cancelled: bool) -> None:
        if message["what"] == "chosen":
            task.chosen = task.heard
        elif message["what"] in ("began again", "unsaved"):
            note(self.record, message["what"], message["why"], task.number, worker=message["worker"])
        elif message["what"] == "ready" and not cancelled:
            self._data.seen(message.get("data"), message["worker"])

    def freed(self, task: RunningTask) -> None:
        self._free_for_next()

    def returned(self, task: RunningTask, result: Report) -> None:
        state = "done" if result.status == "finished" else "failed"
        self.record.unit_ended(task.unit.key, state, result.started, result.ended)
        self._ended.append(EndedTask(task.request, result))

    def raised(self, task: RunningTask, error: BaseException) -> None:
        if task.matches is not None and task.matches.status == "error":
            self._without_match(task, f"the query of its batch failed: {error}")
        else:
            self._fail(task, "failed", "error", f"{type(error).__name__}: {error}")

    def lost(self, task: RunningTask, kind: LossKind, why: str) -> None:
        if kind == "cancelled" and _is_lost(task.matches):
            self._without_match(task, "the query of its batch was lost")
        elif kind == "cancelled":
            self._fail(task, "cancelled", "cancelled", why)
        elif (times := self._losses.count(task.number, kind)) is not None:
            self._fail(task, "lost", "trainer lost", f"{why}; this evaluation has lost {times} trainers")
        else:
            self._again(task, why)

    def check(self, task: RunningTask, now: float) -> None:
        if self._unanswered(task, now):
            self.tasks.give_up(task)
            self._without_match(task, "the query of its batch was not answered")
            return
        limit = self._limit(task.steps)
        if limit is not None and task.ready_since is not None and now - task.ready_since > limit[0]:
            message = f"past {limit[1]}; {self.tasks.end(task)}"
            note(self.record, "time limit", message, task.number, worker=task.place)
            self._fail(task, "cancelled", "time limit", f"the evaluation was {message}")

    def _limit(self, steps: int | None) -> tuple[float, str] | None:
        if steps not in self._limits:
            self._limits[steps] = self._evaluation_limit.now(steps)
        return self._limits[steps]

    def _unanswered(self, task: RunningTask, now: float) -> bool:
        """Tell whether an evaluation waits in vain for its batch's query.

        The query's task may be pinned to a provider that died, before or after it answered.
        """
        if task.matches is None or task.begun is not None:
            return False
        # An answer that is done still has to travel to the trainer, so it gets more time.
        return now - task.submitted > (3 * MATCH_S if task.matches.done() else MATCH_S)

    def _without_match(self, task: RunningTask, message: str) -> None:
        """Give back an evaluation that has not begun, to be submitted again without its batch's query."""
        self.unmatched.add(task.number)
        self._again(task, f"{message}; it will ask for itself")

    def _again(self, task: RunningTask, message: str) -> None:
        """Give back an evaluation without a report: the executor looks for its model, and submits it again."""
        self.record.unit_ended(task.unit.key, "lost")
        note(self.record, "again", message, task.number, worker=task.place)
        self._ended.append(EndedTask(task.request, None))

    def _fail(self, task: RunningTask, state: str, kind: FailureKind, message: str) -> None:
        self.record.unit_ended(task.unit.key, state)
        self._ended.append(EndedTask(task.request, failed(task.request, kind, message, task.place)))


def _is_lost(matches: Any) -> bool:
    """Tell whether a batch's query failed, was cancelled or went with its provider: no answer will come of it."""
    return matches is not None and matches.status not in ("pending", "finished")
