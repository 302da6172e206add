"""The main loop of a search: prepare candidates, submit them to trainers, record reports, resume after a kill.

Pure parts decide (the strategy, :class:`daskevo.runs.RunState`, the planner). Other modules of this package carry the
decisions out: `candidates` before a request is submitted, `submission` when it is, `running_tasks` on the cluster, and
`label_sync` in the repository.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from daskevo.errors import InvalidProblem, RepositoryFull, ShardUnavailable
from daskevo.runs import RunRecord, RunState
from daskevo.search import Report, Request, Strategy
from daskevo_workflows.dashboard.search import SearchShowing
from daskevo_workflows.evaluation.report import other_candidate, report_of_record
from daskevo_workflows.execution.candidates import Candidates
from daskevo_workflows.execution.deadline import WALLTIME
from daskevo_workflows.execution.event_kinds import INTERRUPTED, STOPPED
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.label_sync import Holdings
from daskevo_workflows.execution.letting_go import LETTING_GO_S, hurried_s
from daskevo_workflows.execution.machine_load import LoadNotes
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.run_data import RunData
from daskevo_workflows.execution.run_deadline import Closing
from daskevo_workflows.execution.running_task import EndedTask, failed
from daskevo_workflows.execution.running_tasks import RunningTasks
from daskevo_workflows.execution.scaling_demand import Demand
from daskevo_workflows.execution.scheduler_lost import told_if_scheduler_gone
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.execution.submission import Submission
from daskevo_workflows.execution.time_limits import EvaluationLimit
from daskevo_workflows.execution.trainer_tasks import TICK_S
from daskevo_workflows.problems.content import version_of
from daskevo_workflows.problems.delivery import Delivery
from daskevo_workflows.problems.reference import ProblemReference

logger = logging.getLogger(__name__)

MISSING = "model missing"
"""Kind of the events that note that a model of the run is no longer in the repository."""

MAY_BE_PUT = ("cancelled", "trainer lost", "time limit", "repository")
"""Kinds of failures of an evaluation that may have put its model all the same."""

ATTEMPTS = 2
"""Submissions of one evaluation, at most, when the repository fails; after that the evaluation has failed."""


class Executor:
    """Runs a search until it stops.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    repository:
        Where models are put; open on the client's cluster.
    reference:
        The problem.
    strategy:
        Already started; on resume it has been told the recorded reports.
    record, run_state:
        Of the run; on resume the state has been filled from the record.
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
        run_state: RunState,
        settings: SearchSettings,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.repository = repository
        self.strategy = strategy
        self.record = record
        self.run_state = run_state
        self.settings = settings
        self.on_progress = on_progress
        self.closing = Closing(settings.deadline, self._seconds_of_next)
        self.demand = Demand(client, record.info.label)
        self.delivery = Delivery(client, reference)
        self.data = RunData(
            record,
            has_finished=run_state.counts["finished"] > 0,
            is_versioned=version_of(reference.load()) is not None,
        )
        self.tasks = RunningTasks(
            client,
            repository,
            record,
            EvaluationLimit(settings.evaluation_limit_s, run_state.finished_seconds),
            self.data,
            settings.recycle_after,
            free_for_next=self._free_for_next,
            grows=self.demand.is_met_later,
            expected_s=self.closing.expected_s,
            parcel=self.delivery.parcel,
        )
        self.holdings = Holdings(
            repository,
            record,
            lambda: self.submission.choosing,
            state_label=None if settings.unit is None else run_state.population_label,
        )
        self.candidates = Candidates(
            reference.load(), strategy, record, run_state, settings, lambda: self.tasks.requests, self._report
        )
        self.submission = Submission(
            self.candidates,
            self.tasks,
            self.delivery.reference,
            repository,
            settings,
            record,
            run_state,
            self._leaving,
            self.data.allowed,
        )
        self.load = LoadNotes(record)
        self._started = time.monotonic()
        self.showing = SearchShowing(client, self)

    def run(self) -> tuple[str, str]:
        """Run until the budget is spent or something else ends the run; return why, as a word and a sentence.

        Raises
        ------
        NoTrainer, SchedulerUnreachable
            If the cluster can't go on.
        InvalidProblem
            If the first evaluation to end has no data, or none of the objective's metric.
        RunMismatch
            If a trainer has other data than the run began with.
        KeyboardInterrupt
            Running evaluations are cancelled; they stay pending in the record.
        """
        try:
            with told_if_scheduler_gone():
                stop = self._until_it_stops()
        except BaseException as error:
            # A user who interrupts it wants it to end now.
            self._close(LETTING_GO_S if isinstance(error, Exception) else 0.0)
            why = INTERRUPTED if isinstance(error, KeyboardInterrupt) else type(error).__name__
            self.showing.close("error", why)
            note(self.record, STOPPED, why)
            raise
        # Cancel first: releases of labels wait for running evaluations to choose an ancestor, and now none is running.
        self._close(hurried_s() if stop[0] == WALLTIME else LETTING_GO_S)
        self.holdings.change_labels()
        self._release_strays()
        self.holdings.sample(at_once=True)
        self._tell_progress()
        self.showing.close(*stop)
        note(self.record, STOPPED, stop[1], word=stop[0])
        return stop

    def _until_it_stops(self) -> tuple[str, str]:
        self._resume()
        # Fetches the list of trainers; without it the first round would submit nothing.
        self._take(self.tasks.watch())
        self._look_at_load()
        while (stop := self._stop_reason()) is None:
            self._fill()
            self.demand.say(self._useful())
            for ended in self.tasks.wait(TICK_S):
                self._take([ended])
                # Submit before the next report is told, so that a run on one trainer always asks in the same order.
                self._fill()
            self.holdings.go_on()
            self._look_at_load()
            self._tell_progress()
        self._look_at_load(at_once=True)
        return stop

    def _look_at_load(self, *, at_once: bool = False) -> None:
        self.load.look([trainer.address for trainer in self.tasks.trainers.present.values()], at_once=at_once)

    def _close(self, patience_s: float) -> None:
        self.demand.close()
        self.tasks.close(patience_s)
        self.delivery.close()
        self.submission.close()

    def _useful(self) -> int:
        """Return how many evaluations could run now if there were enough trainers."""
        if self.closing.is_closing():
            return len(self.tasks)
        left = self.run_state.evaluations - self.run_state.counts["finished"]
        # A strategy that waits for reports, or has nothing more to ask, can't use more trainers than it has candidates.
        return min(left, len(self.tasks) + len(self.candidates)) if self.candidates.all_asked else left

    def time_left_s(self) -> float | None:
        """Return the seconds left of the search's time limit; None if it has no limit."""
        limit = self.settings.time_limit_s
        return None if limit is None else limit - (time.monotonic() - self._started)

    def _stop_reason(self) -> tuple[str, str] | None:
        left_s = self.time_left_s()
        if left_s is not None and left_s < 0:
            return "time limit", f"the search's time limit of {self.settings.time_limit_s:g} s is over"
        stop = self.run_state.stop_reason() or self.closing.why_over(len(self.tasks))
        exhausted = self.candidates.exhausted
        if stop is None and exhausted is not None and not self.tasks and not self.candidates:
            stop = ("exhausted", exhausted)
        return stop

    def _release_strays(self) -> None:
        self._release_given_up()
        pending = [request.model_id for request in self.run_state.pending]
        self.holdings.release_strays([*self.strategy.population(), *pending])

    def _release_given_up(self) -> None:
        """Release the models of evaluations that were given up while their put was on the way, and published since."""
        kinds = (*MAY_BE_PUT, "stopped")
        reports = [one for one in self.run_state.reports.values() if one.failure and one.failure.kind in kinds]
        if reports:
            self.holdings.wait_until_settled()
        for report in reports:
            standing, request = self._standing(report.model_id), self.run_state.requests[report.number]
            # Another candidate's model is another run's: the folder may have been restored from an older copy.
            if (
                standing is not None
                and standing.record is not None
                and standing.state == "published"
                and other_candidate(standing.record, request) is None
            ):
                self.holdings.release(report.model_id, self.run_state.population_label)

    def _seconds_of_next(self, count: int) -> list[float]:
        """Return the seconds of recent evaluations, in proportion to the longest one that is ready."""
        steps = [self.run_state.part_steps(request.number) for request in self.candidates.ready]
        return self.run_state.finished_seconds(count, max(filter(None, steps), default=None))

    # Resuming

    def _resume(self) -> None:
        """Carry out label changes that are still due, and recover models that were put but not reported."""
        self.holdings.change_labels()
        if self.record.resumed:
            self._release_strays()
        self._mind_strategy()
        for request in self.run_state.pending:
            # A killed process may have lost the report of a model that was already put: don't train it twice.
            if not self.record.resumed or not self._found(request):
                self.candidates.add(request)
        best = [report.model_id for report in self.run_state.kept()]
        for name in sorted({*self.strategy.population(), *best}) if self.record.resumed else ():
            standing = self._standing(name)
            if standing is not None and standing.state != "published":
                self._note_missing(name, f"{name} was reported, but the repository says it is {standing.state}")

    def _note_missing(self, name: str, words: str, number: int | None = None) -> None:
        """Note that a model is gone: once per model, however often the run is resumed."""
        if not any(event.facts.get("model") == name for event in self.record.events(MISSING)):
            logger.warning("%s", words)
            note(self.record, MISSING, words, number, model=name)

    def _again(self, request: Request) -> None:
        """Submit a request without a report again, before all others."""
        if not self._found(request):
            self.candidates.again(request)

    def _found(self, request: Request) -> bool:
        """Recover the report of a request from its model, if that was put; return whether it was."""
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
        self._report(report_of_record(standing.record, request.number, self.run_state.objectives))
        return True

    def _standing(self, model_id: str) -> Any:
        """Ask for a model's status; None if its home shard does not answer (a new evaluation will find it there)."""
        try:
            return self.repository.status(model_id)
        except ShardUnavailable as error:
            note(self.record, "not asked", f"where {model_id} stands: {error}")
            return None

    def _is_worth_another(self, report: Report) -> bool:
        """Tell whether to submit a failed evaluation again: once, if the repository and not the candidate failed."""
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
        """Submit evaluations to free trainers, and prepare some for the trainers that become free next."""
        if self.closing.is_closing():
            return
        trainers = self.tasks.trainers
        self._prepare(len(trainers.free()))
        self.submission.submit()
        # The strategy is asked earlier than necessary, so that no trainer waits while candidates are built.
        self._prepare(max(1, trainers.slots // 4))
        self.submission.plan_ahead()

    def _free_for_next(self) -> None:
        """Submit what is ready as soon as a trainer is free, before its last report is fetched."""
        if self._stop_reason() is None and not self.closing.is_closing():
            self.holdings.go_on()
            self.submission.submit(ended=1)

    def _prepare(self, wanted: int) -> None:
        """Prepare up to `wanted` evaluations, as far as the budget and the strategy allow.

        Building candidates for their graphs can take long when many of them are duplicates, so time limits and trainers
        are checked in between.
        """
        until = time.monotonic() + TICK_S
        while self._stop_reason() is None:
            room = min(wanted, self.submission.room()) - len(self.candidates.ready)
            if room < 1 or not self.candidates.prepare(room):
                return
            if time.monotonic() > until:
                self._take(self.tasks.watch())
                until = time.monotonic() + TICK_S

    def _leaving(self) -> set[str]:
        """Return the models that go once their last label is removed, which may have to wait."""
        kept = {*self.strategy.population(), *(report.model_id for report in self.run_state.kept())}
        return {*self.holdings.leaving} - kept

    # Reports

    def _take(self, ended_tasks: Iterable[EndedTask]) -> None:
        """Handle evaluations that have ended: report them, recover their models, or submit them again.

        Raises
        ------
        RepositoryFull
            If an evaluation found no room for its model twice.
        RunMismatch
            If its trainer had other data than the run's.
        """
        for ended in ended_tasks:
            if ended.report is None or self._is_worth_another(ended.report):
                self._again(ended.request)
            elif self._may_be_put(ended.report) and self._found(ended.request):
                pass  # the model was put before the evaluation ended: it counts as finished
            elif ended.report.failure is not None and ended.report.failure.kind == "no room":
                raise self._full(ended.report.failure.message)
            elif ended.report.failure is not None and ended.report.failure.kind == "other data":
                # The report came before the trainer's word on its data. It is not kept: the evaluation stays pending.
                raise self.data.mismatch(ended.report.worker or "a trainer")
            else:
                self._report(ended.report)

    def _may_be_put(self, report: Report) -> bool:
        """Tell whether a failed evaluation may nevertheless have put its model before it ended."""
        return report.failure is not None and report.failure.kind in MAY_BE_PUT

    def _full(self, found: str) -> RepositoryFull:
        """Return the error that ends the run: no further model would find room either.

        The evaluation gets no report, so it is pending in the record and is done again on resume.
        """
        return RepositoryFull(
            f"the repository has no room for another model, so the run in {self.record.folder} was ended: {found}. All "
            "that was finished is kept; make room, then give the same command again, and the run goes on",
            path=str(self.record.folder),
        )

    def _report(self, report: Report) -> None:
        """Store a report in state, strategy and record; then change labels, and release requests that wait for it."""
        if report.number in self.run_state.reports:
            return
        changes = self.run_state.report(report)
        # Tell the strategy before writing: the record stores the population that follows from this report with it.
        self.strategy.tell(self.run_state.requests[report.number], report)
        changes += self.run_state.left(self.strategy.leave())
        self.record.reported(report, self.strategy.population(), changes)
        if report.status == "failed" and report.failure is not None:
            logger.info("evaluation %d failed (%s): %s", report.number, report.failure.kind, report.failure.message)
        # Only after the write: a process killed here finds the changes in the record and carries them out on resume.
        self.holdings.change_labels()
        self.candidates.reported(report.number)
        self.holdings.sample()
        self._tell_progress()
        self._mind_problem(report)
        self._mind_strategy()

    def _mind_strategy(self) -> None:
        """Cancel the evaluations that the strategy no longer wants."""
        for number in self.strategy.stop():
            request = self.run_state.requests.get(number)
            if request is None or number in self.run_state.reports:
                continue
            self.candidates.drop(number)
            self.submission.drop(number)
            if not self.tasks.give_up(number) or not self._found(request):
                self._report(failed(request, "stopped", f"the strategy {self.strategy.name!r} gave it up"))

    def _mind_problem(self, report: Report) -> None:
        """End the run if the problem itself is at fault, because then every candidate would fail alike.

        Once one evaluation has finished, the run goes on: the fault lies with this candidate (`score` treats it
        differently) or with this trainer (it sees no data).
        """
        failure = report.failure
        if failure is not None and failure.kind == "problem" and not self.run_state.counts["finished"]:
            raise InvalidProblem(
                f"{failure.message}\nNo candidate would fare better, so the run in {self.record.folder} has "
                "been ended: mend the problem, and the same command or call begins it anew",
                path=str(self.record.folder),
                reason=failure.message,
            )

    def _tell_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress.of(self.run_state, self.holdings.storage, self.tasks.trainers.slots))
        self.showing.look()
