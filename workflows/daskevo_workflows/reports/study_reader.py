"""Read a study's record into the data that its report shows, during the study or later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daskevo.errors import CorruptRecord
from daskevo.runs import Chosen, Event, RunState, RunView
from daskevo.runs.folder import read_info
from daskevo.search import Report, Request
from daskevo.tuning import Configuration, SearchPlan, State, Trajectory
from daskevo.tuning.progress_tree import Asked, ProgressTree, progress_tree
from daskevo.types import JSON, Objective
from daskevo_workflows.execution.event_kinds import SESSION, STOPPED
from daskevo_workflows.reports.run_reader import RunningTime, facts_of, happenings_of, say_json, state_of
from daskevo_workflows.reports.series import Happening
from daskevo_workflows.studies.accounts import Accounts, Figures
from daskevo_workflows.studies.study_record import DUPLICATES, LEFT, OVER, STAGE, STRATEGY, TRIAL, WORK
from daskevo_workflows.studies.study_view import came_of

BEST_SHOWN = 10
UNSHOWN = (SESSION, STAGE, TRIAL, WORK, OVER, LEFT, "copy")
"""Kinds of events that the report shows in other places."""


@dataclass(frozen=True, slots=True)
class BestTrial:
    """One of the best states: its key, trials, configuration, last step, and quality."""

    key: str
    trials: tuple[str, ...]
    configuration: Configuration
    step: int
    quality: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StudySeries:
    """The data of a study's report.

    Parameters
    ----------
    failures:
        Trial and reason of each failure.
    asked, pending:
        Number of all requests, and of those without an answer.
    """

    label: str
    run_id: str
    objective: Objective
    figures: Figures
    runtime_s: float
    state: str
    asked: int
    pending: int
    best: tuple[BestTrial, ...]
    tree: ProgressTree
    failures: tuple[tuple[str, str], ...]
    happenings: tuple[Happening, ...]
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Trained:
    """A request, its trajectory, and its outcome."""

    request: Request
    trial: str
    trajectory: Trajectory
    report: Report | None

    @property
    def step(self) -> int:
        return self.request.until_step or 0


def is_study(folder: Path) -> bool:
    """Tell whether a folder holds a study; False if it holds no run."""
    info = read_info(folder)
    return info is not None and info.identity.get("strategy") == {"name": "a study", "settings": {}}


def read_study(folder: Path) -> StudySeries:
    """Read a study.

    Raises
    ------
    RunFolderUnusable
        If a folder holds no run that can be read.
    CorruptRecord
        If a row of its record is not what was written.
    """
    # All of one moment: the study may be running, and a report would otherwise name trials whose requests it lacks.
    with RunView(folder) as view, view.still():
        info, sessions, events = view.info, view.sessions(), view.events()
        stops = [event for event in events if event.kind == STOPPED]
        objective = Objective.parse(str(info.identity.get("objective")))
        requests, reports = view.requests(), view.reports()
        trained = _trained(requests, reports, events)
        best = _best(requests, reports, objective, info.label, {one.request.number: one for one in trained})
        is_open = bool(sessions) and sessions[-1].ended is None
        clock = RunningTime(sessions)
        return StudySeries(
            label=info.name,
            run_id=info.id,
            objective=objective,
            figures=_figures(trained, events),
            runtime_s=view.runtime_s,
            state=state_of(sessions, stops, len(requests) - len(reports), "request"),
            asked=len(requests),
            pending=len(requests) - len(reports),
            best=tuple(best),
            tree=_tree(trained, events, best[0] if best else None, is_open=is_open),
            failures=tuple((one.trial, why) for one in trained if (why := _failure(one.report))),
            happenings=tuple(happenings_of(events, clock, UNSHOWN)),
            facts={
                **facts_of(info, Chosen(info.identity.get("space")).space, sessions),
                "strategy": _say_strategies(events),
            },
        )


def _trained(requests: Sequence[Request], reports: Sequence[Report], events: Sequence[Event]) -> list[_Trained]:
    """Return all requests whose trajectory is in the record."""
    origin = ""
    said: dict[int | None, Event] = {}
    for event in events:
        if event.kind == SESSION:
            origin = str(event.facts.get("origin", ""))
        elif event.kind == TRIAL:
            said[event.number] = event
    found = {report.number: report for report in reports}
    trained: list[_Trained] = []
    for request in requests:
        # A process that was killed right after it had recorded the request left no word of its trial.
        if request.number not in said:
            continue
        match said[request.number].facts:
            case {"trial": str() as trial, "configuration": configuration}:
                trajectory = Trajectory(origin, Configuration.from_json(configuration))
                trained.append(_Trained(request, trial, trajectory, found.get(request.number)))
            case other:
                raise CorruptRecord(f"expected what request {request.number} trains, found {other!r:.120}")
    return trained


def _best(
    requests: Sequence[Request],
    reports: Sequence[Report],
    objective: Objective,
    label: str,
    by_number: Mapping[int, _Trained],
) -> list[BestTrial]:
    """Return the best states, each once, with all trials that share it."""
    run_state = RunState(objective, 1, label)
    run_state.ask(requests)
    for report in reports:
        run_state.report(report)
    states: dict[str, BestTrial] = {}
    for report in run_state.best():
        one = by_number.get(report.number)
        if one is None or report.quality is None:
            continue
        key = one.trajectory.key(report.step)
        if (before := states.get(key)) is not None:
            # Trials with equal configurations up to a step share its state, and so its quality: one row names all of
            # them.
            names = tuple(dict.fromkeys((*before.trials, one.trial)))
            states[key] = replace(before, trials=names)
        # The loop goes on all the same: later trials may share a state that is shown.
        elif len(states) < BEST_SHOWN:
            trained_with = one.trajectory.configuration
            states[key] = BestTrial(key, (one.trial,), trained_with, report.step, report.quality, report.metrics)
    return list(states.values())


def _figures(trained: Iterable[_Trained], events: Iterable[Event]) -> Figures:
    accounts = Accounts()
    for one in trained:
        if one.report is not None and one.report.status == "finished":
            accounts.answered(one.trial, one.trajectory, one.report.step)
    for event in events:
        if event.kind == DUPLICATES:
            accounts.duplicates += len(event.facts["snapshots"])
        elif event.kind == STAGE:
            match event.facts:
                case {"start": int() as start, "stop": int() as stop, "seconds": dict() as seconds}:
                    accounts.stage(stop - start, seconds)
                case other:
                    raise CorruptRecord(f"expected which steps were trained, found {other!r:.120}")
    return accounts.figures()


def _tree(
    trained: Sequence[_Trained], events: Sequence[Event], best: BestTrial | None, *, is_open: bool
) -> ProgressTree:
    plan = SearchPlan()
    asked = []
    for one in trained:
        # Also what has no answer yet: the tree shows what is still to be trained.
        plan.locate(one.trajectory, one.step)
        is_best = best is not None and one.step == best.step and one.trajectory.key(one.step) == best.key
        quality = None if one.report is None else one.report.quality
        asked.append(Asked(one.trial, one.trajectory, one.step, came_of(one.report), quality, is_best))
    reached, works = _said(events)
    states = _States(plan)
    # A closed or killed study trains nothing, whatever its last events say.
    running = {state: who for (stop, key), who in works.items() if is_open and (state := states.find(stop, key))}
    known = [state for stop, key in reached if (state := states.find(stop, key)) is not None]
    return progress_tree(plan, asked, reached=known, running=running)


def _said(events: Iterable[Event]) -> tuple[list[tuple[int, JSON]], dict[tuple[int, JSON], str]]:
    """Return all states that were trained, and those where running work ends with its trainer, by step and key."""
    reached: list[tuple[int, JSON]] = []
    works: dict[JSON, tuple[tuple[int, JSON], str]] = {}
    for event in events:
        facts = event.facts
        if event.kind == STAGE:
            reached.append((facts["stop"], facts.get("state")))
        elif event.kind == SESSION:
            # Work of an earlier session ended with it: its process can't have said so when it was killed.
            works.clear()
        elif event.kind == WORK:
            works[facts["work"]] = ((facts["stop"], facts["state"]), str(facts["trainer"]))
        elif event.kind == OVER:
            works.pop(facts["work"], None)
    return reached, dict(works.values())


class _States:
    """Finds states of a plan by their step and key."""

    def __init__(self, plan: SearchPlan) -> None:
        self._plan = plan
        self._by_key: dict[int, dict[JSON, State]] = {}

    def find(self, step: int, key: JSON) -> State | None:
        if step not in self._by_key:
            states = [State(node.number, step) for node in self._plan.nodes if node.start < step]
            # Computed once for a step: a key is a digest of the whole trajectory up to there.
            self._by_key[step] = {self._plan.key(state): state for state in states}
        return self._by_key[step].get(key)


def _say_strategies(events: Iterable[Event]) -> str:
    """Say which strategies have led the study, with their settings, in the order in which they were begun."""
    said = []
    for event in events:
        if event.kind == STRATEGY:
            settings, steps = event.facts["settings"]["settings"], event.facts["settings"]["steps"]
            words = say_json({**settings, **({} if steps is None else {"steps": steps})})
            said.append(f"{event.facts['name']}: {words}")
    return "; ".join(said) or "none: points were asked for one by one"


def _failure(report: Report | None) -> str:
    if came_of(report) != "failed" or report is None or report.failure is None:
        return ""
    return f"{report.failure.kind}: {report.failure.message}"
