"""Evaluations on their way: submitted as futures, watched, landed with a report, or to be submitted again.

What happens on the cluster arrives in one inbox, so that a run lives in one thread.
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
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.evaluate import evaluate
from daskevo_workflows.evaluation.trainer_task import EVENTS
from daskevo_workflows.execution.event_kinds import DATA
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.running_task import Landed, RunningTask, failed
from daskevo_workflows.execution.scheduler_lost import FETCH_S, NO_ANSWER, why_cut_off
from daskevo_workflows.execution.time_limits import EvaluationLimit
from daskevo_workflows.execution.trainer_upkeep import Upkeep
from daskevo_workflows.execution.trainers import SILENT_S, Trainer, Trainers
from daskevo_workflows.formatting import say_count

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""How often limits and trainers are looked at when nothing else happens."""
SETUP_S = 180.0
"""What a trainer may take, beyond an evaluation's limit, to import Keras and prepare the data."""
PAUSED_S = 2.0
"""What a paused trainer may take to say that it had begun before it was paused."""
MATCH_S = 30.0
"""What the query of a batch may take; after that each evaluation asks for itself."""
DEATHS = 2
"""Trainers that may die under an evaluation before it counts as failed: one death may be the machine's fault."""
LOSSES = 6
"""How often it may be lost in all: a trainer that had died before the evaluation began says little about the
candidate, nor does one that left in good order, as a smaller cluster's or one at the end of its lifetime does."""


class RunningTasks:
    """All evaluations of a run that are on their way.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    repository:
        To submit queries as futures.
    record:
        Where units and events are noted.
    limit:
        Longest that an evaluation may take once its trainer is ready.
    recycle_after, grows:
        See :class:`daskevo_workflows.execution.trainer_upkeep.Upkeep`.
    expected_s:
        See :class:`daskevo_workflows.execution.trainers.Trainers`.
    parcel:
        Returns a future of the problem, if that is an object (:class:`daskevo_workflows.problems.delivery.Delivery`).
    freed:
        Called as soon as an evaluation has ended and its trainer may take another, before its report is fetched.
    """

    def __init__(
        self,
        client: Any,
        repository: Any,
        record: RunRecord,
        limit: EvaluationLimit,
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
        self._inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._flights: dict[str, RunningTask] = {}
        self._deaths: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._watched = 0.0
        self._rows: list[str] = []
        self.trainers = Trainers(client, lambda name, error: self._inbox.put(("restarted", (name, error))), expected_s)
        self.upkeep = Upkeep(self.trainers, record, recycle_after, grows)
        self.unmatched: set[int] = set()
        client.subscribe_topic(EVENTS, lambda event: self._inbox.put(("said", event[1])))

    def close(self) -> None:
        """Cancel what is on its way and stop listening. Trainers notice after the current batch."""
        flights, self._flights = list(self._flights.values()), {}
        try:
            if flights:
                self.client.cancel([flight.future for flight in flights], force=True)
            self.client.unsubscribe_topic(EVENTS)
        except (*NO_ANSWER, ClusterError) as error:
            logger.warning("tasks on their way could not be cancelled: %s", error)
        for flight in flights:
            self.record.unit_ended(flight.unit.key, "cancelled")

    def give_up(self, number: int) -> bool:
        """Cancel a request's evaluation, which ends after its current batch; False if it is not on its way."""
        for flight in [flight for flight in self._flights.values() if flight.request.number == number]:
            flight.future.cancel(force=True)
            self._land(flight, "cancelled")
            return True
        return False

    @property
    def all(self) -> list[RunningTask]:
        """All that are on their way."""
        return list(self._flights.values())

    @property
    def requests(self) -> list[Request]:
        return [flight.request for flight in self._flights.values()]

    @property
    def choosing(self) -> frozenset[str]:
        """Keys of the evaluations that may still choose an ancestor among the living."""
        return frozenset(
            key for key, flight in self._flights.items() if flight.chosen is None and flight.request.transfer
        )

    def __len__(self) -> int:
        return len(self._flights)

    # Submitting

    def submit(
        self,
        units: Sequence[Unit],
        assignments: Sequence[EvaluationAssignment],
        places: Sequence[Trainer],
        graphs: Mapping[int, Any],
    ) -> None:
        """Submit a batch: futures that ask the providers, their reduction, and an evaluation per assignment.

        Parameters
        ----------
        units:
            The batch's plan; in the record already.
        assignments, places:
            One per evaluation, and the trainer it goes to.
        graphs:
            Architecture graphs by request number.
        """
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
                workers=[trainer.name],
                allow_other_workers=False,
                resources=self.trainers.claims,
                pure=False,
            )
            self._flights[assignment.key] = RunningTask(
                request=assignment.request,
                unit=by_key[assignment.key],
                trainer=trainer,
                future=future,
                matches=None if position is None else matches,
                submitted=time.monotonic(),
            )
            self.trainers.take(str(trainer.name), assignment.key)
            future.add_done_callback(lambda done, key=assignment.key: self._inbox.put(("done", key)))

    def _match(self, match: Unit, graphs: Mapping[int, Any]) -> Any:
        """Submit the query of a batch; None if no provider is there just now: then each evaluation asks for itself."""
        try:
            matches = self.repository.query_futures([graphs[number] for number in match.numbers], client=self.client)
        except ClusterError as error:
            note(self.record, "no query", f"the batch's query could not be submitted: {error}")
            self.record.unit_ended(match.key, "lost")
            return None
        matches.add_done_callback(lambda done: self._inbox.put(("matched", match.key)))
        return matches

    # What happens on the cluster

    def wait(self, timeout_s: float) -> Iterator[Landed]:
        """Wait for something to happen; yield what has landed, then look at limits and trainers.

        Raises
        ------
        NoTrainer, SchedulerUnreachable
        """
        try:
            kind, what = self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
            while True:
                yield from getattr(self, f"_on_{kind}")(what)
                kind, what = self._inbox.get_nowait()
        except queue.Empty:
            pass
        yield from self.watch()

    def _on_said(self, message: Mapping[str, Any]) -> Iterator[Landed]:
        if message["what"] == "over" and self.trainers.unstick(message["key"]):
            words = f"{message['worker']} has ended the evaluation that was given up, and takes others again"
            note(self.record, "trainer back", words, worker=message["worker"])
        flight = self._flights.get(message["key"])
        if flight is not None and message["what"] in ("begun", "ready", "chosen"):
            setattr(flight, message["what"], time.monotonic())
            if message["what"] == "ready":
                self._mind_data(message.get("data"), message["worker"])
        yield from ()

    def _mind_data(self, rows: str | None, worker: str) -> None:
        """Say, once for each, that a trainer has other data than those that the run began with, by their data key."""
        if rows is None or rows in self._rows:
            return
        if not self._rows:
            self._rows += [str(event.facts["digest"]) for event in self.record.events(DATA)]
        if not self._rows:
            self.record.event(DATA, f"as {worker} has prepared them", digest=rows)
        elif rows not in self._rows:
            words = (
                f"the data that {worker} has prepared aren't those that this run began with: data() gives others at "
                "each call, or what it reads has changed since. Qualities of both can't be compared: begin a new run, "
                "in another folder"
            )
            logger.warning("%s", words)
            note(self.record, "other data", words, worker=worker, digest=rows)
        self._rows.append(rows)

    def _on_restarted(self, what: tuple[str, Exception | None]) -> Iterator[Landed]:
        name, error = what
        self.trainers.has_restarted(name)
        if error is not None:
            note(self.record, "restart failed", f"{name}: {error}", worker=name)
        yield from ()

    def _on_matched(self, key: str) -> Iterator[Landed]:
        self.record.unit_ended(key, "done")
        yield from ()

    def _on_done(self, key: str) -> Iterator[Landed]:
        flight = self._flights.get(key)
        if flight is None:
            return
        if flight.future.status == "finished":
            self._free(flight, evaluated=True)
            try:
                report: Report = flight.future.result(FETCH_S)
            except (*NO_ANSWER, FutureCancelledError) as cut:
                self.trainers.refresh()  # raises if it is the scheduler that is gone
                yield self._unfetched(flight, f"{type(cut).__name__}: {cut}")
                return
            state = "done" if report.status == "finished" else "failed"
            self.record.unit_ended(flight.unit.key, state, report.started, report.ended)
        elif flight.future.status in ("lost", "pending"):
            # It had ended. Dask does it again, and waits for ever where it was to be done by that trainer alone.
            self._free(flight, evaluated=True)
            yield self._unfetched(flight, "it went with its trainer")
            return
        elif flight.future.status == "error":
            error = flight.future.exception()
            if type(error).__name__ == "KilledWorker":
                yield self._lost(flight, f"its trainer died: {error}")
                return
            if flight.matches is not None and flight.matches.status == "error":
                yield self._without_match(flight, f"the query of its batch failed: {error}")
                return
            self._free(flight, evaluated=True)
            self.record.unit_ended(flight.unit.key, "failed")
            report = failed(flight.request, "error", f"{type(error).__name__}: {error}", flight.place)
        else:
            self.trainers.refresh()  # raises if it is the scheduler that is gone
            if (why := why_cut_off(flight.future)) is not None:
                yield self._withdraw(flight, why)
                return
            self._free(flight, evaluated=False)
            self.record.unit_ended(flight.unit.key, "cancelled")
            report = failed(flight.request, "cancelled", "its task was cancelled by somebody else", flight.place)
        flight.future.release()
        self.upkeep.recycle(flight.place)
        yield Landed(flight.request, report)

    def _unfetched(self, flight: RunningTask, why: str) -> Landed:
        """Give back an evaluation that has ended, and whose report could not be fetched: its model tells."""
        self.record.unit_ended(flight.unit.key, "lost")
        flight.future.cancel(force=True)
        flight.future.release()
        note(
            self.record,
            "again",
            f"its report could not be fetched: {why}",
            flight.request.number,
            worker=flight.place,
        )
        return Landed(flight.request, None)

    def _free(self, flight: RunningTask, *, evaluated: bool) -> None:
        """Give a trainer back that has done its work, and let it have more at once, unless it is to be restarted: that
        must wait until its report has been fetched."""
        del self._flights[flight.unit.key]
        self.trainers.give_back(flight.place, flight.unit.key, evaluated=evaluated)
        if not self.upkeep.why_recycle(flight.place):
            self.freed()

    def _land(self, flight: RunningTask, state: str) -> None:
        """Take an evaluation off that did not end by itself."""
        del self._flights[flight.unit.key]
        if flight.unit.key not in self.trainers.stuck:
            self.trainers.give_back(flight.place, flight.unit.key, evaluated=False)
        self.record.unit_ended(flight.unit.key, state)
        flight.future.release()

    # Limits and trainers

    def watch(self) -> Iterator[Landed]:
        """Look at limits and trainers, once per tick; yield what is no longer on its way."""
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
        for flight in [flight for flight in self._flights.values() if not flight.future.done()]:
            there = present.get(flight.place)
            if there is None or there.address != flight.trainer.address:
                yield self._lost(flight, f"trainer {flight.place} died or left")
            elif self._unanswered(flight, now):
                yield self._without_match(flight, "the query of its batch was not answered")
            elif self.trainers.is_silent(flight.place):
                yield self._stalled(flight, f"nothing was heard of trainer {flight.place} for {SILENT_S:g} s")
            elif flight.begun is None and there.paused and now - flight.submitted > PAUSED_S:
                # It won't begin before the trainer has less in memory, which a restart sees to.
                yield self._lost(flight, f"trainer {flight.place} was paused for its memory before it had begun it")
            elif flight.begun is None:
                if now - flight.submitted > SETUP_S and not self._waits_its_turn(flight, now):
                    yield self._stalled(flight, f"trainer {flight.place} did not begin it within {SETUP_S:g} s")
            elif limit is not None:
                since = flight.ready if flight.ready is not None else flight.begun + SETUP_S
                if now - since > limit[0]:
                    yield self._past_limit(flight, limit[1])
        for name in present:
            self.upkeep.recycle(name)

    def _unanswered(self, flight: RunningTask, now: float) -> bool:
        """Tell whether a flight waits in vain for its match.

        The provider's task may be pinned to a process that died, before or after it answered.
        """
        if flight.matches is None or flight.begun is not None:
            return False
        return now - flight.submitted > (3 * MATCH_S if flight.matches.done() else MATCH_S)

    def _waits_its_turn(self, flight: RunningTask, now: float) -> bool:
        """Tell whether a trainer is busy for somebody else, and say so; then this evaluation's time begins anew."""
        others = self.trainers.others_tasks(flight.place, self._flights)
        if not others:
            return False
        flight.submitted = now
        if not flight.is_waiting:
            flight.is_waiting = True
            words = f"it has not begun: {flight.place} has {say_count(others, 'task')} of others, and does those first"
            logger.warning("evaluation %d: %s", flight.request.number, words)
            note(self.record, "waiting", words, flight.request.number, worker=flight.place)
        return True

    def _past_limit(self, flight: RunningTask, limit: str) -> Landed:
        """End an evaluation past its limit."""
        end = self._end(flight)
        self._land(flight, "cancelled")
        note(self.record, "time limit", f"past {limit}; {end}", flight.request.number, worker=flight.place)
        message = f"the evaluation was past {limit}; {end}"
        return Landed(flight.request, failed(flight.request, "time limit", message, flight.place))

    def _end(self, flight: RunningTask) -> str:
        what = f"evaluation {flight.request.number}"
        return self.upkeep.end(flight.future, flight.place, flight.unit.key, what)

    def _stalled(self, flight: RunningTask, message: str) -> Landed:
        """Give back an evaluation whose trainer does not work."""
        return self._lost(flight, f"{message}; {self._end(flight)}")

    def _lost(self, flight: RunningTask, message: str) -> Landed:
        """Give back what was lost with its trainer, to be submitted again, unless it seems to be its fault."""
        number = flight.request.number
        self._losses[number] += 1
        self._deaths[number] += flight.begun is not None and flight.trainer.address not in self.trainers.left
        if self._deaths[number] < DEATHS and self._losses[number] < LOSSES:
            return self._withdraw(flight, message)
        flight.future.cancel(force=True)
        self._land(flight, "lost")
        again = f"{message}; this evaluation has lost {self._losses[number]} trainers"
        return Landed(flight.request, failed(flight.request, "trainer lost", again, flight.place))

    def _without_match(self, flight: RunningTask, message: str) -> Landed:
        """Give back an evaluation that has not begun, to be submitted without the answer of a query."""
        self.unmatched.add(flight.request.number)
        return self._withdraw(flight, f"{message}; it will ask for itself")

    def _withdraw(self, flight: RunningTask, message: str) -> Landed:
        flight.future.cancel(force=True)
        self._land(flight, "lost")
        note(self.record, "again", message, flight.request.number, worker=flight.place)
        return Landed(flight.request, None)
