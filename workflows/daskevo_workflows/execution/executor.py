"""The loop of a run: have candidates ready, submit them, take reports, until it stops; resume what was stopped.

Decisions are made by pure parts (the strategy, :class:`daskevo.runs.Book`, the planner). They are carried out by this
room's `candidates` before a request is submitted, `submission` then, `running_tasks` on the cluster, and `label_sync`
in the repository.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from daskevo.errors import InvalidProblem, RepositoryFull, ShardUnavailable
from daskevo.runs import Book, RunRecord
from daskevo.search import Report, Request, Strategy
from daskevo_workflows.dashboard.search import SearchShowing
from daskevo_workflows.evaluation.report import other_candidate, report_of_record
from daskevo_workflows.execution.candidates import Candidates
from daskevo_workflows.execution.event_kinds import INTERRUPTED, STOPPED
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.label_sync import Holdings
from daskevo_workflows.execution.machine_load import LoadNotes
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.run_deadline import Closing
from daskevo_workflows.execution.running_task import Landed, failed
from daskevo_workflows.execution.running_tasks import TICK_S, RunningTasks
from daskevo_workflows.execution.scaling_demand import Demand
from daskevo_workflows.execution.scheduler_lost import told_if_scheduler_gone
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.execution.submission import Submission
from daskevo_workflows.execution.time_limits import EvaluationLimit
from daskevo_workflows.problems.delivery import Delivery
from daskevo_workflows.problems.reference import ProblemReference

logger = logging.getLogger(__name__)

MISSING = "model missing"
"""Kind of the events that say of a model of the run that it is not in the repository any more."""

ATTEMPTS = 2
"""How often an evaluation is submitted before a failure of the repository counts as its own."""


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
        Started, and told what the run knows if it is resumed.
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
        settings: SearchSettings,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.repository = repository
        self.strategy = strategy
        self.record = record
        self.book = book
        self.settings = settings
        self.on_progress = on_progress
        self.closing = Closing(settings.deadline, book.finished_seconds)
        self.demand = Demand(client, record.info.label)
        self.delivery = Delivery(client, reference)
        self.flights = RunningTasks(
            client,
            repository,
            record,
            EvaluationLimit(settings.evaluation_limit_s, book.finished_seconds),
            settings.recycle_after,
            freed=self._freed,
            grows=self.demand.is_met_later,
            expected_s=self.closing.expected_s,
            parcel=self.delivery.parcel,
        )
        self.holdings = Holdings(repository, record, lambda: self.flights.choosing)
        self.candidates = Candidates(
            reference.load(), strategy, record, book, settings, lambda: self.flights.requests, self._report
        )
        self.submission = Submission(
            self.candidates, self.flights, self.delivery.reference, repository, settings, record, book
        )
        self.load = LoadNotes(record)
        self._started = time.monotonic()
        self.showing = SearchShowing(client, self)

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
            with told_if_scheduler_gone():
                stop = self._until_it_stops()
        except BaseException as error:
            self._close()
            why = INTERRUPTED if isinstance(error, KeyboardInterrupt) else type(error).__name__
            self.showing.close("error", why)
            note(self.record, STOPPED, why)
            raise
        self._close()
        self.holdings.change_labels()
        self.holdings.sample(at_once=True)
        self._tell_progress()
        self.showing.close(*stop)
        note(self.record, STOPPED, stop[1], word=stop[0])
        return stop

    def _until_it_stops(self) -> tuple[str, str]:
        self._resume()
        self._take(self.flights.watch())
        self._look_at_load()
        while (stop := self._stop_reason()) is None:
            self._fill()
            self.demand.say(self._useful())
            for landed in self.flights.wait(TICK_S):
                self._take([landed])
                # Before the next report is heard, so that a run on one trainer asks in one order.
                self._fill()
            self.holdings.go_on()
            self._look_at_load()
            self._tell_progress()
        self._look_at_load(at_once=True)
        return stop

    def _look_at_load(self, *, at_once: bool = False) -> None:
        self.load.look([trainer.address for trainer in self.flights.trainers.present.values()], at_once=at_once)

    def _close(self) -> None:
        self.demand.close()
        self.flights.close()
        self.delivery.close()
        self.submission.close()

    def _useful(self) -> int:
        """Return how many evaluations could be under way if there were trainers for all."""
        if self.closing.is_closing():
            return len(self.flights)
        left = self.book.evaluations - self.book.counts["finished"]
        # A strategy that waits for reports, or has no more to ask, needs no more trainers than it has candidates.
        return min(left, len(self.flights) + len(self.candidates)) if self.candidates.all_asked else left

    def time_left_s(self) -> float | None:
        """Return what is left of the search's time limit, in seconds; None: it has none."""
        limit = self.settings.time_limit_s
        return None if limit is None else limit - (time.monotonic() - self._started)

    def _stop_reason(self) -> tuple[str, str] | None:
        left_s = self.time_left_s()
        if left_s is not None and left_s < 0:
            return "time limit", f"the search's time limit of {self.settings.time_limit_s:g} s is over"
        stop = self.book.stop_reason() or self.closing.why_over(len(self.flights))
        exhausted = self.candidates.exhausted
        if stop is None and exhausted is not None and not self.flights and not self.candidates:
            stop = ("exhausted", exhausted)
        return stop

    # Resuming

    def _resume(self) -> None:
        """Carry out label changes that were decided, and find what was put but never reported."""
        self.holdings.change_labels()
        self._mind_strategy()
        for request in self.book.pending:
            if not self.record.resumed or not self._found(request):
                self.candidates.add(request)
        best = [report.model_id for report in self.book.kept()]
        for name in sorted({*self.strategy.population(), *best}) if self.record.resumed else ():
            standing = self._standing(name)
            if standing is not None and standing.state != "published":
                self._note_missing(name, f"{name} was reported, but the repository says it is {standing.state}")

    def _note_missing(self, name: str, words: str, number: int | None = None) -> None:
        """Note that a model is not there any more: once, however often the run goes on."""
        if not any(event.facts.get("model") == name for event in self.record.events(MISSING)):
            logger.warning("%s", words)
            note(self.record, MISSING, words, number, model=name)

    def _again(self, request: Request) -> None:
        """Have a request whose evaluation has no report submitted again, before all others."""
        if not self._found(request):
            self.candidates.again(request)

    def _found(self, request: Request) -> bool:
        """Take in the model of a request that has no report, if it was put all the same."""
        standing = self._standing(request.model_id)
        if standing is None or standing.record is None or standing.state not in ("published", "retiring", "retired"):
            return False
        if (other := other_candidate(standing.record, request)) is not None:
            note(self.record, "another model", other, request.number)
            self._report(failed(request, "repository", other))
            return True
        if standing.state != "published":
            self._note_missing(request.model_id, f"{request.model_id} has been {standing.state}", request.number)
        note(self.record, "found", "its model was put, but its report was lost", request.number)
        self._report(report_of_record(standing.record, request.number, self.book.objectives))
        return True

    def _standing(self, model_id: str) -> Any:
        """Ask where a model stands; None if its home gives no answer: evaluated again, it will be found there."""
        try:
            return self.repository.status(model_id)
        except ShardUnavailable as error:
            note(self.record, "not asked", f"where {model_id} stands: {error}")
            return None

    def _is_worth_another(self, report: Report) -> bool:
        """Tell whether to submit a failed evaluation again: once, if it was the repository that failed, not the
        candidate."""
        if (
            report.failure is None
            or report.failure.kind not in ("repository", "no room")
            or self.submission.attempts[report.number] >= ATTEMPTS
        ):
            return False
        note(self.record, "again", report.failure.message, report.number)
        return True

    # Submitting

    def _fill(self) -> None:
        """Give free trainers something to do, and have evaluations ready for those that will be free."""
        if self.closing.is_closing():
            return
        trainers = self.flights.trainers
        self._prepare(len(trainers.free()))
        self.submission.submit()
        # A strategy is asked so much earlier than it need be, but a trainer never waits for candidates to be built.
        self._prepare(max(1, trainers.slots // 4))
        self.submission.plan_ahead()

    def _freed(self) -> None:
        """Submit what is ready before anything else is done for the evaluation that has just ended."""
        if self._stop_reason() is None and not self.closing.is_closing():
            self.holdings.go_on()
            self.submission.submit(ended=1)

    def _prepare(self, wanted: int) -> None:
        """Have so many evaluations ready to be submitted, if the budget allows and the strategy has them.

        Candidates are built here to know their graphs, and many may be known: limits and trainers are minded meanwhile.
        """
        until = time.monotonic() + TICK_S
        while self._stop_reason() is None:
            room = min(wanted, self.submission.room()) - len(self.candidates.ready)
            if room < 1 or not self.candidates.prepare(room):
                return
            if time.monotonic() > until:
                self._take(self.flights.watch())
                until = time.monotonic() + TICK_S

    # Reports

    def _take(self, landings: Iterable[Landed]) -> None:
        """Take in evaluations that are no longer on their way.

        Raises
        ------
        RepositoryFull
            If one has found no room for its model twice.
        """
        for landed in landings:
            if landed.report is None or self._is_worth_another(landed.report):
                self._again(landed.request)
            elif self._may_be_put(landed.report) and self._found(landed.request):
                pass  # it was put before it was given up, and is a finished evaluation like any other
            elif landed.report.failure is not None and landed.report.failure.kind == "no room":
                raise self._full(landed.report.failure.message)
            else:
                self._report(landed.report)

    def _may_be_put(self, report: Report) -> bool:
        """Tell whether an evaluation that failed may have put its model all the same, before what ended it."""
        kinds = ("cancelled", "trainer lost", "time limit", "repository")
        return report.failure is not None and report.failure.kind in kinds

    def _full(self, found: str) -> RepositoryFull:
        """Return what ends a run whose models find no room: every other evaluation would be trained in vain.

        It has no report, so that it is pending in the record, and done again when the run goes on.
        """
        return RepositoryFull(
            f"the repository has no room for another model, so the run in {self.record.folder} was ended: {found}. All "
            "that was finished is kept; make room, then give the same command again, and the run goes on",
            path=str(self.record.folder),
        )

    def _report(self, report: Report) -> None:
        """Take in a report: book, strategy, record, labels, then whoever waits for the same result."""
        if report.number in self.book.reports:
            return
        changes = self.book.report(report)
        self.strategy.tell(self.book.requests[report.number], report)
        changes += self.book.left(self.strategy.leave())
        self.record.reported(report, self.strategy.population(), changes)
        if report.status == "failed" and report.failure is not None:
            logger.info("evaluation %d failed (%s): %s", report.number, report.failure.kind, report.failure.message)
        self.holdings.change_labels()
        self.candidates.reported(report.number)
        self.holdings.sample()
        self._tell_progress()
        self._mind_problem(report)
        self._mind_strategy()

    def _mind_strategy(self) -> None:
        """Give up what the strategy does not want finished."""
        for number in self.strategy.stop():
            request = self.book.requests.get(number)
            if request is None or number in self.book.reports:
                continue
            self.candidates.drop(number)
            if not self.flights.give_up(number) or not self._found(request):
                self._report(failed(request, "stopped", f"the strategy {self.strategy.name!r} gave it up"))

    def _mind_problem(self, report: Report) -> None:
        """End the run if nothing can finish: every other candidate would fail alike.

        A problem that has been seen to work goes on: then it is this candidate that `score` treats otherwise, or this
        trainer that sees no data.
        """
        failure = report.failure
        if failure is not None and failure.kind == "problem" and not self.book.counts["finished"]:
            raise InvalidProblem(
                f"{failure.message}\nNo candidate would fare better, so the run in {self.record.folder} has "
                "been ended: mend the problem, and the same command or call begins it anew",
                path=str(self.record.folder),
                reason=failure.message,
            )

    def _tell_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress.of(self.book, self.holdings.storage, self.flights.trainers.slots))
        self.showing.look()
