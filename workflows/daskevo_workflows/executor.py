"""The loop of a run: ask the strategy, share and plan, submit, take reports, keep the record, give and take labels.

Decisions are made by pure parts (the strategy, :class:`daskevo.runs.Book`, the planner) and carried out here;
:class:`daskevo_workflows.in_flight.Flights` is the side of the cluster.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from daskevo.errors import (
    CannotFlatten,
    ClusterError,
    InvalidInput,
    InvalidProblem,
    ModelRetired,
    SchedulerUnreachable,
    UnknownModel,
)
from daskevo.runs import Book, RunRecord, Unit, identity, plan, share
from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo_workflows.evaluation import (
    Assignment,
    evaluation_seed,
    in_control_arm,
    other_candidate,
    report_of_record,
    say_error,
)
from daskevo_workflows.in_flight import TICK_S, Flights, Landed, failed
from daskevo_workflows.problems.reference import ProblemReference
from daskevo_workflows.progress import Progress
from daskevo_workflows.training import Callbacks

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""How often an evaluation is submitted before a failure of the repository counts as its own."""
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
    recycle_after: int | None = 50
    callbacks: Callbacks = ()
    epochs: int | None = None


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

    def __init__(
        self,
        *,
        client: Any,
        repository: Any,
        reference: ProblemReference,
        strategy: Strategy,
        record: RunRecord,
        book: Book,
        settings: Settings,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.repository = repository
        self.reference = reference
        self.problem = reference.load()
        self.space = self.problem.space()
        self.strategy = strategy
        self.record = record
        self.book = book
        self.settings = settings
        self.on_progress = on_progress
        self.flights = Flights(
            client, repository, record, settings.evaluation_limit_s, settings.recycle_after, freed=self._freed
        )
        self._queue: deque[Request] = deque()
        self._ready: deque[Request] = deque()
        self._planned: dict[int, Unit] = {}
        self._waiting: dict[int, int] = {}
        self._attempts: dict[int, int] = {}
        self._graphs: dict[int, Any] = {}
        self._exhausted: str | None = None
        self._storage: Mapping[str, int] = {}
        self._sampled = 0.0
        self._started = time.monotonic()

    def run(self) -> tuple[str, str]:
        """Go on until the budget is spent or something else ends the run; return why, as a word and a sentence.

        Raises
        ------
        NoTrainer, SchedulerUnreachable
            If the cluster can't go on.
        InvalidProblem
            If the first evaluation to end has no data, or none of the objective's metric.
        KeyboardInterrupt
            What was on its way is cancelled, and pending in the record.
        """
        try:
            self._resume()
            self._take(self.flights.watch())
            while (stop := self._stop_reason()) is None:
                self._fill()
                for landed in self.flights.wait(TICK_S):
                    self._take([landed])
                    # Before the next report is heard, so that a run on one trainer asks in one order.
                    self._fill()
                self._tell_progress()
        except BaseException as error:
            self._close()
            self._note("stopped", type(error).__name__)
            raise
        self._close()
        self._sample_storage(at_once=True)
        self._tell_progress()
        self._note("stopped", stop[1], word=stop[0])
        return stop

    def _close(self) -> None:
        self.flights.close()
        for unit in self._planned.values():
            self.record.unit_ended(unit.key, "cancelled")

    def _stop_reason(self) -> tuple[str, str] | None:
        limit = self.settings.time_limit_s
        if limit is not None and time.monotonic() - self._started > limit:
            return "time limit", f"the search's time limit of {limit:g} s is over"
        stop = self.book.stop_reason()
        if stop is None and self._exhausted is not None and not self.flights and not self._queue and not self._ready:
            stop = ("exhausted", self._exhausted)
        return stop

    # Resuming

    def _resume(self) -> None:
        """Carry out label changes that were decided, and find what was put but never reported."""
        self._change_labels()
        for request in self.book.pending:
            if not self.record.resumed or not self._found(request):
                self._queue.append(request)
        best = [report.model_id for report in self.book.best(self.book.keep_best)]
        for name in sorted({*self.strategy.population(), *best}) if self.record.resumed else ():
            state = self.repository.status(name).state
            if state != "published":
                logger.warning("model %s was reported, but the repository says it is %s", name, state)
                self._note("model missing", f"{name} was reported, but the repository says it is {state}")

    def _again(self, request: Request) -> None:
        """Have a request whose evaluation has no report submitted again, before all others."""
        if not self._found(request):
            self._ready.appendleft(request)

    def _found(self, request: Request) -> bool:
        """Take in the model of a request that has no report, if it was put all the same."""
        standing = self.repository.status(request.model_id)
        if standing.record is None or standing.state not in ("published", "retiring", "retired"):
            return False
        if (other := other_candidate(standing.record, request)) is not None:
            self._note("another model", other, request.number)
            self._report(failed(request, "repository", other))
            return True
        if standing.state != "published":
            self._note("model missing", f"{request.model_id} has been {standing.state}", request.number)
        self._note("found", "its model was put, but its report was lost", request.number)
        self._report(report_of_record(standing.record, request.number))
        return True

    def _is_worth_another(self, report: Report) -> bool:
        """Tell whether to submit a failed evaluation again: once, if it was the repository that failed, not the
        candidate."""
        if report.failure is None or report.failure.kind != "repository" or self._attempts[report.number] >= ATTEMPTS:
            return False
        self._note("again", report.failure.message, report.number)
        return True

    # Asking, sharing, submitting

    def _fill(self) -> None:
        """Give free trainers something to do, and have evaluations ready for those that will be free."""
        trainers = self.flights.trainers
        self._prepare(len(trainers.free()))
        self._submit()
        # A strategy is asked so much earlier than it need be, but a trainer never waits for candidates to be built.
        self._prepare(max(1, trainers.slots // 4))
        self._plan_ahead()

    def _freed(self) -> None:
        """Submit what is ready before anything else is done for the evaluation that has just ended."""
        if self._stop_reason() is None:
            self._submit(ended=1)

    def _prepare(self, wanted: int) -> None:
        """Have so many evaluations ready to be submitted, if the budget allows and the strategy has them.

        Candidates are built here to know their graphs, and many may be known: limits and trainers are minded meanwhile.
        """
        until = time.monotonic() + TICK_S
        while self._stop_reason() is None:
            left = self.book.evaluations - self.book.counts["finished"] - len(self.flights)
            room = min(wanted, left) - len(self._ready)
            if room < 1 or (not self._queue and not self._ask(room)):
                return
            asked = [self._queue.popleft() for _ in range(min(room, len(self._queue)))]
            self._ready.extend(self._share([request for request in asked if self._identify(request)]))
            if time.monotonic() > until:
                self._take(self.flights.watch())
                until = time.monotonic() + TICK_S

    def _ask(self, wanted: int) -> bool:
        wanted = min(wanted, self.book.wanted)
        if wanted < 1 or self._exhausted is not None:
            return False
        view = View(wanted, self.book.next_number, self.record.info.label, self.book.asked, len(self.book.pending))
        answer = self.strategy.ask(view)
        if isinstance(answer, Stop):
            self._exhausted = answer.message
            self._note("exhausted", answer.message)
            return False
        if any(request.sequence is not None for request in answer):
            raise InvalidInput(
                f"strategy {self.strategy.name!r} asks for hyper-parameters over time (`sequence`): evaluations train "
                "with those of the problem; leave it None"
            )
        requests = [replace(request, transfer=self._transfers(request)) for request in answer[:wanted]]
        self.record.asked(requests, self.strategy.state())
        self.book.ask(requests)
        self._queue.extend(requests)
        return bool(requests)

    def _transfers(self, request: Request) -> bool:
        settings = self.settings
        control = in_control_arm(settings.seed, request.number, settings.control_share)
        return request.transfer and settings.transfer and not control

    def _identify(self, request: Request) -> bool:
        """Build the candidate without weights to know its graph; a candidate without one has failed."""
        if request.number in self._graphs:
            return True
        from daskevo.models import flatten, shape_only

        try:
            with shape_only():
                graph = flatten(self.problem.build(self.space.values(request.candidate))).graph
        except CannotFlatten as error:
            self._report(failed(request, "flatten", str(error)))
            return False
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's build() may raise anything, SystemExit too
            self._report(failed(request, "build", f"build() raised {say_error(error)}"))
            return False
        self._graphs[request.number] = graph
        self.book.identify(request.number, identity(request, graph.ids))
        return True

    def _share(self, requests: Sequence[Request]) -> tuple[Request, ...]:
        """Answer what is known, let wait what is under way; return what is to be evaluated."""
        under_way = {
            self.book.identities[request.number]: request.number for request in [*self.flights.requests, *self._ready]
        }
        sharing = share(requests, self.book.identities, self.book.done, under_way)
        self._waiting.update(sharing.waiting)
        for number, original in sharing.known.items():
            self._report(self.book.duplicate(number, original))
        return sharing.fresh

    def _plan_ahead(self) -> None:
        """Record the units of what is ready, so that nothing has to wait for the disk when it is submitted.

        An evaluation planned here asks for its best match itself when it begins, and finds what was put until then.
        """
        batch = [request for request in self._ready if request.number not in self._planned]
        if batch:
            units = plan(
                [replace(request, ancestor=None) for request in batch], self._attempts, self.book.recent_seconds()
            )
            self._planned.update((unit.numbers[0], unit) for unit in units)
            self._record_units(batch, units, {})

    def _record_units(self, batch: Sequence[Request], units: Sequence[Unit], workers: Mapping[str, str]) -> None:
        # In the record before anything is submitted: whatever dies, the model's name is known.
        self.record.planned({request.number: self.book.identities[request.number] for request in batch}, units, workers)

    def _submit(self, ended: int = 0) -> None:
        """Submit what is ready to free trainers.

        Parameters
        ----------
        ended:
            Evaluations that are over and not reported yet: each may be one of those that the budget counts.
        """
        free = self.flights.trainers.free()
        left = self.book.evaluations - self.book.counts["finished"] - len(self.flights) - ended
        batch = [self._ready.popleft() for _ in range(max(0, min(len(free), left, len(self._ready))))]
        if not batch:
            return
        new = [request for request in batch if request.number not in self._planned]
        unmatched = self.flights.unmatched
        matched = [replace(request, ancestor=None) if request.number in unmatched else request for request in new]
        units = [*plan(matched, self._attempts, self.book.recent_seconds())] if new else []
        ahead = [self._planned.pop(request.number) for request in batch if request.number in self._planned]
        keys = {unit.numbers[0]: unit.key for unit in [*units, *ahead] if unit.kind == "evaluate"}
        places = free[: len(batch)]
        workers = {keys[request.number]: str(place.name) for request, place in zip(batch, places, strict=True)}
        for unit in ahead:
            self.record.unit_placed(unit.key, workers[unit.key])
        if new:
            self._record_units(new, units, workers)
        assignments = [
            Assignment(
                key=keys[request.number],
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
            for request in batch
        ]
        self.flights.submit([*units, *ahead], assignments, places, self._graphs)
        for request in batch:
            self._attempts[request.number] = self._attempts.get(request.number, 0) + 1

    # Reports and labels

    def _take(self, landings: Iterable[Landed]) -> None:
        """Take in evaluations that are no longer on their way."""
        for landed in landings:
            if landed.report is None or self._is_worth_another(landed.report):
                self._again(landed.request)
            else:
                self._report(landed.report)

    def _report(self, report: Report) -> None:
        """Take in a report: book, strategy, record, labels, then whoever waits for the same result."""
        if report.number in self.book.reports:
            return
        changes = self.book.report(report)
        self.strategy.tell(report)
        changes += self.book.left(self.strategy.leave())
        self.record.reported(report, self.strategy.state(), changes)
        if report.status == "failed" and report.failure is not None:
            logger.info("evaluation %d failed (%s): %s", report.number, report.failure.kind, report.failure.message)
        self._graphs.pop(report.number, None)
        self._change_labels()
        for number in [number for number, original in self._waiting.items() if original == report.number]:
            del self._waiting[number]
            self._queue.appendleft(self.book.requests[number])
        self._sample_storage()
        self._tell_progress()
        self._mind_problem(report)

    def _mind_problem(self, report: Report) -> None:
        """End the run if nothing can finish: every other candidate would fail alike.

        A problem that has been seen to work goes on: then it is this candidate that `score` treats otherwise, or this
        trainer that sees no data.
        """
        failure = report.failure
        if failure is not None and failure.kind == "problem" and not self.book.counts["finished"]:
            raise InvalidProblem(
                f"{failure.message}\nNo candidate would fare better, so the run in {self.record.folder} has "
                "been ended: mend the problem, and use another folder for the new run",
                path=str(self.record.folder),
            )

    def _change_labels(self) -> None:
        """Carry out the label changes in the record, in order: what is given comes before what is taken."""
        carried_out: list[int] = []
        for number, change in self.record.label_changes():
            try:
                getattr(self.repository, change.action)(change.model_id, change.label)
            except (ModelRetired, UnknownModel) as error:
                self._note("label", f"{change.action} {change.label} on {change.model_id}: {error}")
            except SchedulerUnreachable:
                raise
            except ClusterError as error:
                # Home is being opened elsewhere; the change stays in the record and is tried again with the next.
                logger.info("label changes are put off: %s", error)
                break
            carried_out.append(number)
        if carried_out:
            self.record.labels_changed(carried_out)

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
            self.on_progress(Progress.of(self.book, self._storage, self.flights.trainers.slots))

    def _note(self, kind: str, message: str, number: int | None = None, **facts: Any) -> None:
        logger.info("%s: %s", kind, message)
        self.record.event(kind, message, number, **facts)
