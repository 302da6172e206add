"""The loop of a run: ask the strategy, plan, submit futures, take reports, keep the record, mind limits.

Decisions are made by pure parts (the strategy, :class:`daskevo.runs.Book`, the planner); here they are carried out.
What happens on the cluster arrives in one inbox, so that everything below runs in one thread.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from daskevo.errors import (
    CannotFlatten,
    ClusterError,
    ModelRetired,
    NoTrainer,
    SchedulerUnreachable,
    UnknownModel,
)
from daskevo.runs import Book, LabelChange, RunRecord, Unit, identity, plan, share
from daskevo.search import Failure, FailureKind, Report, Request, Stop, Strategy, View
from daskevo.types import ModelId
from daskevo_workflows.evaluation import (
    EVENTS,
    Assignment,
    Callbacks,
    evaluate,
    evaluation_seed,
    in_control_arm,
    report_of_record,
)
from daskevo_workflows.problems.reference import ProblemReference
from daskevo_workflows.progress import Progress
from daskevo_workflows.trainers import Trainer, Trainers

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""How often limits and trainers are looked at when nothing else happens."""
SETUP_S = 180.0
"""What a trainer may take, beyond an evaluation's limit, to import Keras and prepare the data."""
MATCH_S = 15.0
"""What the query of a batch may take; after that each evaluation asks for itself."""
TRAINERS_S = 60.0
"""How long to wait for the first trainer, or for another when all are gone."""
DEATHS = 2
"""Trainers that an evaluation may lose before it counts as failed: one may have been the machine's fault."""
STORAGE_S = 3.0
"""Least time between two samples of what the repository holds."""


@dataclass(frozen=True)
class Settings:
    """How a run evaluates (see :func:`daskevo_workflows.nas.search`)."""

    seed: int = 0
    transfer: bool = True
    freeze: Any = "prefix"
    control_share: float = 0.0
    time_limit_s: float | None = None
    evaluation_limit_s: float | None = None
    recycle_after: int | None = 100
    callbacks: Callbacks = ()
    epochs: int | None = None


@dataclass
class Flight:
    """An evaluation on its way: its unit, trainer and futures; `begun` and `ready` by this process' clock."""

    request: Request
    unit: Unit
    trainer: Trainer
    future: Any
    matches: Any
    submitted: float
    begun: float | None = None
    ready: float | None = None


@dataclass
class Executor:
    """Carries a run on until it stops.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    repository:
        Where models are put; open on the client's cluster.
    reference:
        The problem.
    strategy:
        Started, and restored if the run is resumed.
    record, book:
        Of the run; the book holds what the record holds.
    settings:
        How to evaluate.
    on_progress:
        Called after each report and about once a second.
    """

    client: Any
    repository: Any
    reference: ProblemReference
    strategy: Strategy
    record: RunRecord
    book: Book
    settings: Settings
    on_progress: Callable[[Progress], None] | None = None
    _inbox: queue.SimpleQueue[tuple[str, Any]] = field(default_factory=queue.SimpleQueue)
    _queue: deque[Request] = field(default_factory=deque)
    _flights: dict[str, Flight] = field(default_factory=dict)
    _waiting: dict[int, int] = field(default_factory=dict)
    _attempts: dict[int, int] = field(default_factory=dict)
    _deaths: dict[int, int] = field(default_factory=dict)
    _unmatched: set[int] = field(default_factory=set)
    _graphs: dict[int, Any] = field(default_factory=dict)
    _exhausted: str | None = None
    _watched: float = 0.0
    _sampled: float = 0.0
    _storage: Mapping[str, int] = field(default_factory=dict)
    _alone_since: float | None = None

    def __post_init__(self) -> None:
        self.problem = self.reference.load()
        self.space = self.problem.space()
        self.trainers = Trainers(self.client, lambda name, error: self._inbox.put(("restarted", (name, error))))
        self.started = time.monotonic()

    def run(self) -> tuple[str, str]:
        """Go on until the budget is spent or something else ends the run; return why, as a word and a sentence.

        Raises
        ------
        NoTrainer
            If there is none, or none comes back.
        KeyboardInterrupt
            After everything under way has been cancelled; it is pending in the record.
        """
        self.client.subscribe_topic(EVENTS, lambda event: self._inbox.put(("said", event[1])))
        try:
            self._resume()
            while (stop := self._step()) is None:
                pass
        except BaseException as error:
            self._cancel_all()
            self._note("stopped", type(error).__name__)
            raise
        else:
            self._cancel_all()
            self._sample_storage(at_once=True)
            self._note("stopped", stop[1], word=stop[0])
            return stop
        finally:
            self.client.unsubscribe_topic(EVENTS)

    def _step(self) -> tuple[str, str] | None:
        stop = self._stop_reason()
        if stop is not None:
            return stop
        busy = self._start()
        self._take(0.0 if busy else TICK_S)
        self._watch()
        self._tell_progress()
        return None

    def _stop_reason(self) -> tuple[str, str] | None:
        limit = self.settings.time_limit_s
        if limit is not None and time.monotonic() - self.started > limit:
            return "time limit", f"the search's time limit of {limit:g} s is over"
        stop = self.book.stop_reason()
        if stop is None and self._exhausted is not None and not self._flights and not self._queue:
            stop = ("exhausted", self._exhausted)
        return stop

    # Resuming

    def _resume(self) -> None:
        """Carry out label changes that were decided, and find what was put but never reported."""
        self._change_labels()
        for request in self.book.pending:
            found = self._found(request) if self.record.resumed else None
            if found is None:
                self._queue.append(request)
            else:
                self._note("found", "its model was put, its report was lost with the process", request.number)
                self._report(found)
        if self.record.resumed:
            expected = {
                *self.strategy.population(),
                *(report.model_id for report in self.book.best(self.book.keep_best)),
            }
            for name in sorted(expected):
                state = self.repository.status(name).state
                if state != "published":
                    logger.warning("model %s was reported, but the repository says it is %s", name, state)
                    self._note("model missing", f"{name} was reported, but the repository says it is {state}")

    def _found(self, request: Request) -> Report | None:
        standing = self.repository.status(request.model_id)
        if standing.state in ("published", "retiring", "retired") and standing.record is not None:
            if standing.state != "published":
                self._note("model missing", f"{request.model_id} has been {standing.state}", request.number)
            return report_of_record(standing.record, request.number)
        return None

    # Asking, planning, submitting

    def _start(self) -> bool:
        """Give free trainers something to do; return whether to come back at once."""
        free = self.trainers.free()
        room = min(len(free), self.book.evaluations - self.book.counts["finished"] - len(self._flights))
        batch: list[Request] = []
        # Candidates are built here to know their graphs: no longer than a tick, reports must not wait.
        until = time.monotonic() + TICK_S
        while len(batch) < room and self.book.stop_reason() is None and time.monotonic() < until:
            if not self._queue and not self._ask(room - len(batch)):
                break
            asked = [self._queue.popleft() for _ in range(min(room - len(batch), len(self._queue)))]
            batch += self._share([request for request in asked if self._identify(request)], batch)
        if batch:
            self._submit(batch, free)
        return len(batch) < room and bool(self._queue or not self._exhausted) and self.book.wanted > 0

    def _ask(self, wanted: int) -> bool:
        wanted = min(wanted, self.book.wanted)
        if wanted < 1 or self._exhausted is not None:
            return False
        label = self.record.info.label
        view = View(wanted, self.book.next_number, label, self.book.asked, len(self.book.pending))
        requests = self.strategy.ask(view)
        if isinstance(requests, Stop):
            self._exhausted = requests.message
            self._note("exhausted", requests.message)
            return False
        share = self.settings.control_share
        requests = [
            replace(
                request,
                transfer=request.transfer
                and self.settings.transfer
                and not in_control_arm(self.settings.seed, request.number, share),
            )
            for request in requests[:wanted]
        ]
        self.record.asked(requests, self.strategy.state())
        self.book.ask(requests)
        self._queue.extend(requests)
        return bool(requests)

    def _identify(self, request: Request) -> bool:
        """Build the candidate without weights to know its graph; a candidate without one has failed."""
        if request.number in self.book.identities and request.number in self._graphs:
            return True
        from daskevo.models import flatten, shape_only

        try:
            with shape_only():
                graph = flatten(self.problem.build(self.space.values(request.candidate))).graph
        except CannotFlatten as error:
            self._report(failed(request, "flatten", str(error)))
            return False
        except Exception as error:  # noqa: BLE001 - the user's build() may raise anything
            self._report(failed(request, "build", f"build() raised {type(error).__name__}: {error}"))
            return False
        self._graphs[request.number] = graph
        self.book.identify(request.number, identity(request, graph.ids))
        return True

    def _share(self, requests: Sequence[Request], batch: Sequence[Request]) -> tuple[Request, ...]:
        """Answer what is known, let wait what is under way; return what is to be evaluated."""
        under_way = [flight.request for flight in self._flights.values()] + list(batch)
        sharing = share(
            requests,
            self.book.identities,
            self.book.done,
            {self.book.identities[request.number]: request.number for request in under_way},
        )
        self._waiting.update(sharing.waiting)
        for number, original in sharing.known.items():
            self._report(self.book.duplicate(number, original))
        return sharing.fresh

    def _submit(self, batch: Sequence[Request], free: Sequence[Trainer]) -> None:
        units = plan(
            [
                request if request.number not in self._unmatched else replace(request, ancestor=None)
                for request in batch
            ],
            self._attempts,
            self.book.recent_seconds(),
        )
        evaluations = {unit.numbers[0]: unit for unit in units if unit.kind == "evaluate"}
        places = dict(zip((request.number for request in batch), free, strict=False))
        workers = {evaluations[number].key: str(trainer.name) for number, trainer in places.items()}
        # Everything is in the record before anything is submitted.
        identities = {request.number: self.book.identities[request.number] for request in batch}
        self.record.planned(identities, units, workers)
        matches, positions = self._match(units)
        for request in batch:
            unit, trainer = evaluations[request.number], places[request.number]
            assignment = Assignment(
                key=unit.key,
                request=request,
                problem=self.reference,
                repository=self.repository,
                seed=evaluation_seed(self.settings.seed, request.number),
                objective=self.book.objective,
                freeze=self.settings.freeze,
                labels=(self.book.population_label,),
                callbacks=self.settings.callbacks,
                epochs=self.settings.epochs,
            )
            position = positions.get(request.number)
            future = self.client.submit(
                evaluate,
                assignment,
                None if position is None else matches,
                0 if position is None else position,
                key=unit.key,
                workers=[trainer.name],
                allow_other_workers=False,
                resources={"evaluation": 1},
                pure=False,
            )
            self._attempts[request.number] = self._attempts.get(request.number, 0) + 1
            self._flights[unit.key] = Flight(
                request, unit, trainer, future, None if position is None else matches, time.monotonic()
            )
            self.trainers.take(str(trainer.name), unit.key)
            future.add_done_callback(lambda done, key=unit.key: self._inbox.put(("done", key)))

    def _match(self, units: Sequence[Unit]) -> tuple[Any, Mapping[int, int]]:
        """Submit the batch's query: futures on the providers and their reduction; and whose answer is where in it."""
        match = next((unit for unit in units if unit.kind == "match"), None)
        if match is None:
            return None, {}
        future = self.repository.query_futures([self._graphs[number] for number in match.numbers], client=self.client)
        future.add_done_callback(lambda done, key=match.key: self._inbox.put(("matched", key)))
        return future, {number: position for position, number in enumerate(match.numbers)}

    # What happens on the cluster

    def _take(self, timeout_s: float) -> None:
        """Wait for the next message, and take in all that are there."""
        try:
            kind, what = self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
            while True:
                getattr(self, f"_on_{kind}")(what)
                kind, what = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _on_said(self, message: Mapping[str, Any]) -> None:
        flight = self._flights.get(message["key"])
        if flight is not None and message["what"] in ("begun", "ready"):
            setattr(flight, message["what"], time.monotonic())

    def _on_restarted(self, what: tuple[str, Exception | None]) -> None:
        name, error = what
        self.trainers.restarting.discard(name)
        self.trainers.evaluations[name] = 0
        self.trainers.refresh()
        if error is not None:
            self._note("restart failed", f"{name}: {error}")

    def _on_matched(self, key: str) -> None:
        if self.record is not None:
            self.record.unit_ended(key, "done")

    def _on_done(self, key: str) -> None:
        flight = self._flights.get(key)
        if flight is None:
            return
        if flight.future.status == "finished":
            report: Report = flight.future.result()
            self._land(flight, "done" if report.status == "finished" else "failed", report.started, report.ended)
            self._report(report)
        elif flight.future.status == "error":
            error = flight.future.exception()
            if type(error).__name__ == "KilledWorker":
                self._lost(flight, f"its trainer died: {error}")
                return
            self._land(flight, "failed")
            self._report(failed(flight.request, "error", f"{type(error).__name__}: {error}"))
        else:
            self.trainers.refresh()  # raises if it is the scheduler that is gone
            self._land(flight, "cancelled")
            self._report(failed(flight.request, "cancelled", "its task was cancelled by somebody else"))
        self._recycle(str(flight.trainer.name))

    def _land(self, flight: Flight, state: str, started: float | None = None, ended: float | None = None) -> None:
        del self._flights[flight.unit.key]
        self.trainers.give_back(str(flight.trainer.name), flight.unit.key, evaluated=state in ("done", "failed"))
        self.record.unit_ended(flight.unit.key, state, started, ended)
        flight.future.release()

    def _recycle(self, name: str) -> None:
        """Restart a trainer that has trained its share of models: training leaks memory whatever one clears."""
        after = self.settings.recycle_after
        if not after or self.trainers.evaluations.get(name, 0) < after or self.trainers.used.get(name):
            return
        if self.book.wanted > 0 and self.trainers.restart(name):
            self._note("recycled", f"{name} after {self.trainers.evaluations[name]} evaluations", worker=name)

    def _watch(self) -> None:
        now = time.monotonic()
        if now - self._watched < TICK_S and self._watched:
            return
        self._watched = now
        before = set(self.trainers.present)
        present = self.trainers.refresh()
        if set(present) != before:
            self._note("trainers", f"{len(present)} trainers: {', '.join(sorted(present)) or 'none'}")
        self._mind_trainers(present, now)
        limit = self.settings.evaluation_limit_s
        for flight in list(self._flights.values()):
            there = present.get(str(flight.trainer.name))
            if there is None or there.address != flight.trainer.address:
                self._lost(flight, f"trainer {flight.trainer.name} died or left")
            elif flight.matches is not None and flight.begun is None and self._late(flight, now):
                self._unmatched.add(flight.request.number)
                self._withdraw(flight, "lost", "the query of its batch was not answered; asking again")
            elif limit is not None and now > limit + (flight.ready or flight.submitted + SETUP_S):
                self._past_limit(flight, limit)

    def _late(self, flight: Flight, now: float) -> bool:
        return now - flight.submitted > MATCH_S and not flight.matches.done()

    def _mind_trainers(self, present: Mapping[str, Trainer], now: float) -> None:
        if present or self.trainers.restarting:
            self._alone_since = None
            return
        self._alone_since = self._alone_since or now
        if now - self._alone_since > TRAINERS_S:
            raise NoTrainer(
                f"no worker with the resource 'evaluation' for {TRAINERS_S:g} s: start trainers with "
                "--resources evaluation=1 "
                "(daskevo.local_cluster does), and run the same command again to go on"
            )

    def _past_limit(self, flight: Flight, limit: float) -> None:
        """End an evaluation past its limit: cancel first, or the restart would make Dask run it again elsewhere."""
        flight.future.cancel(force=True)
        self._land(flight, "cancelled")
        name = str(flight.trainer.name)
        if not self.trainers.restart(name):
            self._note("no restart", f"{name} has no nanny: the evaluation past its limit goes on there", worker=name)
        message = f"past its limit of {limit:g} s; its trainer {name} was restarted"
        self._report(replace(failed(flight.request, "time limit", message), worker=name))

    def _lost(self, flight: Flight, message: str) -> None:
        """Submit again what was lost with its trainer; twice lost, it has failed."""
        number = flight.request.number
        self._deaths[number] = self._deaths.get(number, 0) + 1
        if self._deaths[number] < DEATHS:
            self._withdraw(flight, "lost", message)
            return
        flight.future.cancel(force=True)
        self._land(flight, "lost")
        self._report(failed(flight.request, "trainer lost", f"{message}, the {DEATHS}nd time under this evaluation"))

    def _withdraw(self, flight: Flight, state: str, message: str) -> None:
        flight.future.cancel(force=True)
        self._land(flight, state)
        self._note("again", message, flight.request.number)
        found = self._found(flight.request)
        if found is None:
            self._queue.appendleft(flight.request)
        else:
            self._report(found)

    def _cancel_all(self) -> None:
        """Cancel what is under way. It stays pending in the record; trainers notice after the current batch."""
        flights, self._flights = list(self._flights.values()), {}
        if not flights:
            return
        try:
            self.client.cancel([flight.future for flight in flights], force=True)
        except (OSError, TimeoutError, RuntimeError, ClusterError) as error:
            logger.warning("tasks under way could not be cancelled: %s", error)
        for flight in flights:
            self.trainers.give_back(str(flight.trainer.name), flight.unit.key, evaluated=False)
            self.record.unit_ended(flight.unit.key, "cancelled")

    # Reports

    def _report(self, report: Report) -> None:
        """Take in a report: book, strategy, record, labels, then whoever waited for the same result."""
        if report.number in self.book.reports:
            return
        changes = self.book.report(report)
        self.strategy.tell(report)
        changes += self.book.left(self.strategy.leave())
        self.record.reported(report, self.strategy.state(), changes)
        self._graphs.pop(report.number, None)
        if report.failure is not None and report.status == "failed":
            logger.info("evaluation %d failed (%s): %s", report.number, report.failure.kind, report.failure.message)
        self._change_labels()
        for number in [number for number, original in self._waiting.items() if original == report.number]:
            del self._waiting[number]
            self._queue.appendleft(self.book.requests[number])
        self._sample_storage()

    def _change_labels(self) -> None:
        """Carry out the label changes that the record holds, in order: what is given comes before what is taken."""
        for number, change in self.record.label_changes():
            try:
                self._change_label(change)
            except (ModelRetired, UnknownModel) as error:
                self._note("label", f"{change.action} {change.label} on {change.model_id}: {error}")
            except SchedulerUnreachable:
                raise
            except ClusterError as error:
                # Home is being opened elsewhere; the change stays in the record and is tried again with the next.
                logger.info("label change is put off: %s", error)
                return
            self.record.labels_changed([number])

    def _change_label(self, change: LabelChange) -> None:
        getattr(self.repository, change.action)(change.model_id, change.label)

    def _sample_storage(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if now - self._sampled < STORAGE_S and not at_once:
            return
        self._sampled = now
        try:
            stats = self.repository.stats()
        except ClusterError as error:
            logger.info("what the repository holds can't be asked now: %s", error)
            return
        self._storage = {
            "stored_bytes": int(stats["payload_bytes"]),
            "full_copy_bytes": int(stats["full_copy_bytes"]),
            "live_models": int(stats["models"]),
        }
        self.record.event("storage", "", **self._storage)

    def _tell_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress.of(self.book, self._storage, self.trainers.slots))

    def _note(self, kind: str, message: str, number: int | None = None, **facts: Any) -> None:
        logger.info("%s: %s", kind, message)
        self.record.event(kind, message, number, **facts)


def failed(request: Request, kind: FailureKind, message: str) -> Report:
    """Make the report of a request that failed without one from its trainer."""
    return Report(
        request.number, ModelId(request.model_id), "failed", failure=Failure(kind, message[:2_000]), ended=time.time()
    )
