"""A study that has ended, from its record: whether anything is left to do, and what was found, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from daskevo.runs import RunState, RunView
from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.space import ModelSpace
from daskevo.tuning import ConfigurationSpace, SearchPlan, Trajectory
from daskevo.types import Objective
from daskevo_workflows.execution.event_kinds import SESSION
from daskevo_workflows.reports.study_reader import read_study
from daskevo_workflows.studies.result import StudyResult
from daskevo_workflows.studies.stored_snapshots import learn
from daskevo_workflows.studies.strategy_driver import AT_ONCE, nothing_left, why_budget_is_over
from daskevo_workflows.studies.study_record import STRATEGY
from daskevo_workflows.studies.trial_lines import Line, Lines


def ended(
    folder: Path,
    strategy: Strategy,
    space: ConfigurationSpace,
    repository: Any,
    *,
    seed: int,
    steps: int | None,
    evaluations: int | None = None,
    at_once: int = AT_ONCE,
) -> StudyResult | None:
    """Return what a strategy's part of a study came to, if nothing of it is left to do; None otherwise.

    Parameters
    ----------
    folder:
        Of the study, which must be the one that is asked for.
    strategy:
        Is started here, and told all that it was told before.
    repository:
        A look at the one that has the study's snapshots; no cluster is needed.
    seed, steps, evaluations, at_once:
        As the study is called with.

    Raises
    ------
    RunFolderUnusable, CorruptRecord
        If the record can't be read.
    """
    with RunView(folder) as view:
        sessions = view.sessions()
        if not sessions or sessions[-1].ended != "closed":
            return None  # labels of snapshots may be left to be changed
        goal = Objective.parse(str(view.info.identity["objective"]))
        assert isinstance(space, ModelSpace)
        strategy.start(space, (goal,), seed)
        begun = {"settings": strategy.settings, "steps": steps}
        prefixes = [
            str(event.facts["prefix"])
            for event in view.events(STRATEGY)
            if (event.facts["name"], event.facts["settings"]) == (strategy.name, begun)
        ]
        if not prefixes:
            return None
        study = RecordedStudy(view, space, goal, repository)
    requests, reports = study.of(prefixes[0])
    stop = _why_ended(strategy, prefixes[0], study.run_state, requests, reports, evaluations, at_once)
    return None if stop is None else StudyResult(study, prefixes[0], stop)


def _why_ended(
    strategy: Strategy,
    prefix: str,
    run_state: RunState,
    requests: list[Request],
    reports: list[Report],
    evaluations: int | None,
    at_once: int,
) -> tuple[str, str] | None:
    """Ask a strategy for more as its study would; return why there is none, as a word and a sentence."""
    if len(requests) > len(reports):
        return None
    by_number = {request.number: request for request in requests}
    finished = failures = 0
    for report in reports:
        stopped = report.failure is not None and report.failure.kind == "stopped"
        finished += report.status == "finished"
        failures += report.status == "failed" and not stopped
        strategy.tell(by_number[report.number], report)
        strategy.leave()
    over = why_budget_is_over(finished, failures, evaluations)
    if over is not None:
        return over
    wanted = at_once if evaluations is None else min(at_once, evaluations - finished)
    asked = {request.candidate for request in requests}
    answer = strategy.ask(View(wanted, run_state.next_number, prefix, asked, []))
    if isinstance(answer, Stop):
        return nothing_left(strategy, answer)
    return None if answer else nothing_left(strategy)


class RecordedStudy:
    """What a :class:`daskevo_workflows.studies.study.Study` says of itself to its results, from a record.

    Parameters
    ----------
    view:
        Of its folder; not needed later.
    space, objective:
        As it was made.
    repository:
        A look at the one that has its snapshots.
    """

    def __init__(self, view: RunView, space: ConfigurationSpace, objective: Objective, repository: Any) -> None:
        self.folder = view.folder
        self.space = space
        self.objective = objective
        self.repository = repository
        self.origin = str(view.events(SESSION)[-1].facts["origin"])
        self.run_state = RunState(objective, 1, view.info.label)
        self._lines = Lines(space)
        for request in view.requests():
            self._lines.add(request)
            self.run_state.ask([request])
        for report in view.reports():
            self.run_state.report(report)
        self._plan: SearchPlan | None = None

    def of(self, prefix: str) -> tuple[list[Request], list[Report]]:
        """Return a strategy's requests and reports, each in their order."""
        requests = [
            request for request in self.run_state.requests.values() if request.model_id.startswith(f"{prefix}-")
        ]
        numbers = {request.number for request in requests}
        return requests, [report for report in self.run_state.reports.values() if report.number in numbers]

    def read(self, result: StudyResult, prefix: str) -> None:
        """Fill in what a result says of the requests whose model ids begin so."""
        result.requests, result.reports = self.of(prefix)
        series = read_study(self.folder)
        result.figures, result.runtime_s = series.figures, series.runtime_s

    def line(self, request: Request) -> Line:
        """Return the trial of a request."""
        return self._lines[request.model_id]

    def snapshot(self, trajectory: Trajectory, step: int) -> str | None:
        """Return the name of the snapshot at a step; None if the repository has none."""
        if self._plan is None:
            self._plan = SearchPlan()
            learn(self._plan, self.repository.snapshots(), self.origin)
        state = self._plan.find(trajectory, step)
        return None if state is None else self._plan.nodes[state.node].snapshots.get(state.step)
