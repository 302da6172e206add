"""A study's record, in the controller's thread: what was asked, what came of it, what was trained for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from daskevo.errors import TrialFailed
from daskevo.runs import Keeping, RunRecord, RunState
from daskevo.search import Failure, Report, Request
from daskevo.tuning import ConfigurationSpace, Run, Scheduler, SearchPlan, Trajectory
from daskevo.types import JSON, ModelId, Objective
from daskevo_workflows.execution.event_kinds import SESSION
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.studies.accounts import Accounts, Figures
from daskevo_workflows.studies.study_view import StudyView, picture_of
from daskevo_workflows.studies.trial_lines import Line, Lines

STRATEGY = "strategy"
"""Kind of the events that say that a strategy was begun."""

STAGE = "stage"
"""Kind of the events that say which steps were trained."""

TRIAL = "trial"
"""Kind of the events that say what a request trains: a space may be a function, which no record holds."""

WORK = "work"
"""Kind of the events that say that a trainer was given a work."""

OVER = "work over"
"""Kind of the events that say that it has none of it any more."""


LEFT = "left"
"""Kind of the events that say which models left their strategies."""

DUPLICATES = "duplicates"
"""Kind of the events that say which states another process had stored, too."""

KEEP_BEST = 5


class Ledger:
    """Opened, used and closed in one thread.

    Parameters
    ----------
    folder, identity, about:
        See :class:`daskevo.runs.RunRecord`.
    space, objective:
        Of the study.
    origin:
        Of its trajectories.
    keep_best:
        States of so many of the best of each strategy are wanted kept, whatever it lets go.
    """

    def __init__(
        self,
        folder: str | Path,
        identity: Mapping[str, JSON],
        about: Mapping[str, JSON],
        space: ConfigurationSpace,
        objective: Objective,
        origin: str,
        keep_best: int = KEEP_BEST,
    ) -> None:
        self.record = RunRecord(folder, identity, about)
        self.info = self.record.info
        self.objective = objective
        self.origin = origin
        self.lines = Lines(space)
        self.accounts = Accounts()
        self.run_state = RunState(objective, 1, self.info.label)
        self._keeping = Keeping(objective, keep_best)
        self._duplicates: set[str] = set()
        self._closed = False
        try:
            self._read()
        except BaseException:
            self.record.close("error")
            raise

    def _read(self) -> None:
        for request in self.record.requests():
            self.lines.add(request)
            self.run_state.ask([request])
            self._keeping.ask(request)
        for report in self.record.reports():
            self._take(report)
        for event in self.record.events(STAGE):
            self.accounts.stage(int(event.facts["stop"]) - int(event.facts["start"]), event.facts["seconds"])
        for event in self.record.events(LEFT):
            self._keeping.leave(event.facts["models"])
        for event in self.record.events(DUPLICATES):
            self._take_duplicates(event.facts["snapshots"])
        self.record.event(SESSION, "", origin=self.origin)

    # Requests and reports

    @property
    def next_number(self) -> int:
        return self.run_state.next_number

    def begun(self, name: str, settings: JSON) -> tuple[str, bool]:
        """Return the beginning of a strategy's model ids, and whether it is one that was begun before."""
        events = self.record.events(STRATEGY)
        for event in events:
            if (event.facts["name"], event.facts["settings"]) == (name, settings):
                return str(event.facts["prefix"]), True
        prefix = f"{self.info.label}-s{len(events)}"
        self.record.event(STRATEGY, name, name=name, settings=settings, prefix=prefix)
        return prefix, False

    def of(self, prefix: str) -> tuple[list[Request], list[Report]]:
        """Return a strategy's requests and reports so far, each in their order."""
        requests = [
            request for request in self.run_state.requests.values() if request.model_id.startswith(f"{prefix}-")
        ]
        numbers = {request.number for request in requests}
        return requests, [report for report in self.run_state.reports.values() if report.number in numbers]

    def by_hand(self) -> list[Request]:
        """Return the requests that no strategy made, in their order."""
        strategies = tuple(f"{event.facts['prefix']}-" for event in self.record.events(STRATEGY))
        return [request for request in self.run_state.requests.values() if not request.model_id.startswith(strategies)]

    def ask(self, requests: Sequence[Request]) -> list[Line]:
        """Take in requests, and return their trials; raises InvalidInput, and takes none, as lines do."""
        lines = [self.lines.add(request) for request in requests]
        self.record.asked(requests)
        self.run_state.ask(requests)
        for request in requests:
            self._keeping.ask(request)
        for request, line in zip(requests, lines, strict=True):
            trained = line.trial.configuration.to_json()
            self.record.event(TRIAL, "", request.number, trial=line.trial.name, configuration=trained)
        return lines

    def trajectory(self, name: ModelId) -> Trajectory:
        """Return the trajectory of a request's training."""
        return Trajectory(self.origin, self.lines[name].trial.configuration)

    def report(self, request: Request, outcome: Mapping[str, float] | BaseException, began: float) -> Report | None:
        """Take in what came of a request; None if nothing did, because the study ends.

        Parameters
        ----------
        outcome:
            Its metrics, or why there are none.
        began:
            When it was asked for, in seconds since the epoch.
        """
        step = request.until_step or 0
        if isinstance(outcome, BaseException) and not isinstance(outcome, TrialFailed):
            return None
        failed = self._failure(outcome)
        if failed is not None:
            report = Report(request.number, request.model_id, "failed", step=0, failure=failed, ended=time.time())
        else:
            assert not isinstance(outcome, BaseException)
            report = Report(
                request.number,
                request.model_id,
                "finished",
                step=step,
                quality=self.objective.quality(dict(outcome)),
                metrics=outcome,
                started=began,
                ended=time.time(),
            )
        self.record.reported(report, (), ())
        self._take(report)
        return report

    def _failure(self, outcome: Mapping[str, float] | TrialFailed) -> Failure | None:
        if isinstance(outcome, TrialFailed):
            return Failure("error", outcome.message[:2_000])
        if self.objective.quality(dict(outcome)) is not None:
            return None
        # Of a study with another objective, which kept what was finite.
        known = ", ".join(sorted(outcome)) or "none"
        return Failure(
            "not finite", f"there is no finite number {self.objective.metric!r} among the metrics stored of it: {known}"
        )

    def stop(self, request: Request) -> Report:
        """Take in that a request was given up by its strategy."""
        failed = Failure("stopped", "the strategy gave it up")
        report = Report(request.number, request.model_id, "failed", failure=failed, ended=time.time())
        self.record.reported(report, (), ())
        self._take(report)
        return report

    def _take(self, report: Report) -> None:
        self.run_state.report(report)
        self._keeping.report(report)
        if report.status == "finished":
            trial = self.lines[report.model_id].trial
            self.accounts.answered(trial.name, self.trajectory(report.model_id), report.step)

    # What is kept

    def leave(self, models: Iterable[ModelId]) -> None:
        """Take in which models left their strategy: their states are kept no more, unless they are among the best."""
        if news := self._keeping.leave(models):
            self._event(LEFT, models=list(news))

    def held(self) -> list[tuple[Trajectory, int]]:
        """Return trajectories and steps of which a state is to be kept: to go on from, or for the result."""
        requests = self.run_state.requests
        kept = [requests[number] for number in self._keeping.kept]
        return [(self.trajectory(request.model_id), request.until_step or 0) for request in kept]

    def duplicates(self, names: Sequence[str]) -> None:
        """Take in snapshots of states that were stored by another process, too."""
        if news := self._take_duplicates(names):
            words = f"{len(news)} states were stored by another study, too: each is kept once from now on"
            self.note(DUPLICATES, words, snapshots=news)

    def _take_duplicates(self, names: Iterable[str]) -> list[str]:
        news = [name for name in names if name not in self._duplicates]
        self._duplicates.update(news)
        self.accounts.duplicates = len(self._duplicates)
        return news

    def teach(self, plan: SearchPlan) -> None:
        """Have a plan know the metrics that were reported, which the repository may not have any more."""
        for report in self.run_state.reports.values():
            if report.status == "finished":
                plan.measured(plan.locate(self.trajectory(report.model_id), report.step), report.metrics)

    def figures(self) -> Figures:
        return self.accounts.figures()

    def picture(self, scheduler: Scheduler, *, is_over: bool = False) -> StudyView:
        return picture_of(self, scheduler, is_over=is_over)

    # What the controller tells

    def given(self, run: Run) -> None:
        stop = run.marks[-1][0]
        state = run.trajectory.key(stop) if stop else None
        self._event(WORK, work=run.work, trainer=run.trainer, stop=stop, state=state)

    def over(self, run: Run) -> None:
        self._event(OVER, work=run.work)

    def stage(self, run: Run, start: int, stop: int, seconds: Mapping[str, float]) -> None:
        self.accounts.stage(stop - start, seconds)
        kept = {phase: spent for phase, spent in seconds.items() if spent}
        state = run.trajectory.key(stop) if stop else None
        self._event(STAGE, start=start, stop=stop, seconds=kept, work=run.work, trainer=run.trainer, state=state)

    def stored(self, run: Run, step: int, name: str, kind: str) -> None:
        if kind == "pause":
            self._event("copy", snapshot=name, step=step, work=run.work)

    def note(self, kind: str, message: str, **facts: Any) -> None:
        if not self._closed:
            note(self.record, kind, message, **facts)

    def _event(self, kind: str, **facts: Any) -> None:
        # A study that closes is told of its works until it has left.
        if not self._closed:
            self.record.event(kind, "", **facts)

    def ended(self, failure: BaseException) -> None:
        self.close("error")

    def close(self, ended: str) -> None:
        """Close the record, once."""
        if not self._closed:
            self._closed = True
            self.record.close(ended)
