"""Evaluations on their way: submitted as futures, watched, landed with a report, or to be submitted again.

What happens on the cluster arrives in one inbox, so that a run lives in one thread.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from daskevo.errors import ClusterError, NoTrainer
from daskevo.runs import RunRecord, Unit
from daskevo.search import Failure, FailureKind, Report, Request
from daskevo_workflows.evaluation import EVENTS, Assignment, evaluate
from daskevo_workflows.notes import note
from daskevo_workflows.trainers import Trainer, Trainers

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""How often limits and trainers are looked at when nothing else happens."""
SETUP_S = 180.0
"""What a trainer may take, beyond an evaluation's limit, to import Keras and prepare the data."""
MATCH_S = 30.0
"""What the query of a batch may take; after that each evaluation asks for itself."""
NO_TRAINER_S = 60.0
"""How long to wait for a first trainer, or for another when all are gone."""
DEATHS = 2
"""Trainers that may die under an evaluation before it counts as failed: one death may be the machine's fault."""
LOSSES = 6
"""How often it may be lost in all: a trainer that had died before the evaluation began says little about the
candidate."""


class Landed(NamedTuple):
    """A request that is no longer on its way: with its report, or None = submit it again."""

    request: Request
    report: Report | None


@dataclass
class Flight:
    """One evaluation on its way; `submitted`, `begun`, `ready` and `chosen` by this process' monotonic clock."""

    request: Request
    unit: Unit
    trainer: Trainer
    future: Any
    matches: Any
    submitted: float
    begun: float | None = None
    ready: float | None = None
    chosen: float | None = None

    @property
    def place(self) -> str:
        return str(self.trainer.name)


class Flights:
    """All evaluations of a run that are on their way.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    repository:
        To submit queries as futures.
    record:
        Where units and events are noted.
    evaluation_limit_s:
        Longest that an evaluation may take once its trainer is ready; None = no limit.
    recycle_after:
        Evaluations after which an idle trainer is restarted; None = never.
    freed:
        Called as soon as an evaluation has ended and its trainer may take another, before its report is fetched.
    """

    def __init__(
        self,
        client: Any,
        repository: Any,
        record: RunRecord,
        evaluation_limit_s: float | None,
        recycle_after: int | None,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = client
        self.repository = repository
        self.record = record
        self.limit_s = evaluation_limit_s
        self.recycle_after = recycle_after
        self.freed = freed
        self._inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._flights: dict[str, Flight] = {}
        self._deaths: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._watched = 0.0
        self._kept: set[str] = set()
        self._alone_since: float | None = None
        self.trainers = Trainers(client, lambda name, error: self._inbox.put(("restarted", (name, error))))
        self.unmatched: set[int] = set()
        client.subscribe_topic(EVENTS, lambda event: self._inbox.put(("said", event[1])))

    def close(self) -> None:
        """Cancel what is on its way and stop listening. Trainers notice after the current batch."""
        flights, self._flights = list(self._flights.values()), {}
        try:
            if flights:
                self.client.cancel([flight.future for flight in flights], force=True)
            self.client.unsubscribe_topic(EVENTS)
        except (OSError, TimeoutError, RuntimeError, ValueError, ClusterError) as error:
            logger.warning("tasks on their way could not be cancelled: %s", error)
        for flight in flights:
            self.record.unit_ended(flight.unit.key, "cancelled")

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
        assignments: Sequence[Assignment],
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
                key=assignment.key,
                workers=[trainer.name],
                allow_other_workers=False,
                resources={"evaluation": 1},
                pure=False,
            )
            self._flights[assignment.key] = Flight(
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
        flight = self._flights.get(message["key"])
        if flight is not None and message["what"] in ("begun", "ready", "chosen"):
            setattr(flight, message["what"], time.monotonic())
        yield from ()

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
            report: Report = flight.future.result()
            state = "done" if report.status == "finished" else "failed"
            self.record.unit_ended(flight.unit.key, state, report.started, report.ended)
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
            self._free(flight, evaluated=False)
            self.record.unit_ended(flight.unit.key, "cancelled")
            report = failed(flight.request, "cancelled", "its task was cancelled by somebody else", flight.place)
        flight.future.release()
        self._recycle(flight.place)
        yield Landed(flight.request, report)

    def _free(self, flight: Flight, *, evaluated: bool) -> None:
        """Give a trainer back that has done its work, and let it have more at once, unless it is to be restarted: that
        must wait until its report has been fetched."""
        del self._flights[flight.unit.key]
        self.trainers.give_back(flight.place, flight.unit.key, evaluated=evaluated)
        if not self._why_recycle(flight.place):
            self.freed()

    def _land(self, flight: Flight, state: str) -> None:
        """Take an evaluation off that did not end by itself."""
        del self._flights[flight.unit.key]
        self.trainers.give_back(flight.place, flight.unit.key, evaluated=False)
        self.record.unit_ended(flight.unit.key, state)
        flight.future.release()

    # Limits and trainers

    def _why_recycle(self, name: str) -> str | None:
        """Say why a trainer is due for a restart: training leaks memory, whatever one clears; None if it is not."""
        trainer = self.trainers.present.get(name)
        evaluations = self.trainers.evaluations.get(name, 0)
        if trainer is None or self.trainers.used.get(name) or name in self.trainers.restarting or name in self._kept:
            return None
        if trainer.paused:
            return "paused for its memory"
        due = self.recycle_after and evaluations >= self.recycle_after
        return f"after {evaluations} evaluations" if due else None

    def _recycle(self, name: str) -> None:
        """Restart a trainer that is due."""
        why = self._why_recycle(name)
        if why is None:
            return
        if self.trainers.present[name].provider:
            self._say_kept(name, why)
        elif self.trainers.restart(name):
            note(self.record, "recycled", f"{name} {why}", worker=name)

    def _say_kept(self, name: str, why: str) -> None:
        """Say once per trainer that it should be restarted and isn't: all others would wait for its shards."""
        self._kept.add(name)
        words = f"{name} {why} is not restarted, because it is a provider too: its memory grows with each evaluation"
        logger.warning("%s; start providers and trainers as workers of their own for long runs", words)
        note(self.record, "not recycled", words, worker=name)

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
        self._mind_trainers(now)
        for flight in [flight for flight in self._flights.values() if not flight.future.done()]:
            there = present.get(flight.place)
            since = flight.ready if flight.ready is not None else flight.submitted + SETUP_S
            if there is None or there.address != flight.trainer.address:
                yield self._lost(flight, f"trainer {flight.place} died or left")
            elif self._unanswered(flight, now):
                yield self._without_match(flight, "the query of its batch was not answered")
            elif self.limit_s is not None and now - since > self.limit_s:
                yield self._past_limit(flight, self.limit_s)
        for name in present:
            self._recycle(name)

    def _unanswered(self, flight: Flight, now: float) -> bool:
        """Tell whether a flight waits in vain for its match.

        The provider's task may be pinned to a process that died, before or after it answered.
        """
        if flight.matches is None or flight.begun is not None:
            return False
        return now - flight.submitted > (3 * MATCH_S if flight.matches.done() else MATCH_S)

    def _mind_trainers(self, now: float) -> None:
        if self.trainers.present or self.trainers.restarting:
            self._alone_since = None
            return
        self._alone_since = self._alone_since or now
        if now - self._alone_since > NO_TRAINER_S:
            raise NoTrainer(
                f"no worker with the resource 'evaluation' for {NO_TRAINER_S:g} s: start some with --resources "
                "evaluation=1 (daskevo.local_cluster does), then run the same command again to go on"
            )

    def _past_limit(self, flight: Flight, limit_s: float) -> Landed:
        """End an evaluation past its limit: cancel first, or the restart would make Dask run it again elsewhere."""
        flight.future.cancel(force=True)
        self._land(flight, "cancelled")
        restarted = self.trainers.restart(flight.place)
        end = f"its trainer {flight.place} " + ("was restarted" if restarted else "has no nanny and goes on with it")
        note(self.record, "time limit", f"past {limit_s:g} s; {end}", flight.request.number, worker=flight.place)
        message = f"the evaluation was past its limit of {limit_s:g} s; {end}"
        return Landed(flight.request, failed(flight.request, "time limit", message, flight.place))

    def _lost(self, flight: Flight, message: str) -> Landed:
        """Give back what was lost with its trainer, to be submitted again, unless it seems to be its fault."""
        number = flight.request.number
        self._losses[number] += 1
        self._deaths[number] += flight.begun is not None
        if self._deaths[number] < DEATHS and self._losses[number] < LOSSES:
            return self._withdraw(flight, message)
        flight.future.cancel(force=True)
        self._land(flight, "lost")
        again = f"{message}; this evaluation has lost {self._losses[number]} trainers"
        return Landed(flight.request, failed(flight.request, "trainer lost", again, flight.place))

    def _without_match(self, flight: Flight, message: str) -> Landed:
        """Give back an evaluation that has not begun, to be submitted without the answer of a query."""
        self.unmatched.add(flight.request.number)
        return self._withdraw(flight, f"{message}; it will ask for itself")

    def _withdraw(self, flight: Flight, message: str) -> Landed:
        flight.future.cancel(force=True)
        self._land(flight, "lost")
        note(self.record, "again", message, flight.request.number, worker=flight.place)
        return Landed(flight.request, None)


def failed(request: Request, kind: FailureKind, message: str, worker: str | None = None) -> Report:
    """Make the report of a request that failed without one from its trainer."""
    report = Report(
        request.number, request.model_id, "failed", failure=Failure(kind, message[:2_000]), ended=time.time()
    )
    return replace(report, worker=worker)
