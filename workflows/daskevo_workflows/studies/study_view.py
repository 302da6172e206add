"""A study at one moment, for those who watch it: its tree, its figures, who trains what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from daskevo.runs import RunInfo, RunState
from daskevo.search import Report
from daskevo.tuning import Scheduler, Trajectory
from daskevo.tuning.progress_tree import Asked, ProgressTree, progress_tree, states_under_way
from daskevo.tuning.tree_layout import NAMED, TreeLayout, tree_layout
from daskevo.types import ModelId, Objective
from daskevo_plugins.dashboard.news import LONGEST, MOST_ROWS, CardNews, Standing, StudyNews, TrainerNews, can_be_sent
from daskevo_plugins.formatting import plain, say_count, say_quality, say_times
from daskevo_workflows.studies.accounts import Figures
from daskevo_workflows.studies.trial_lines import Lines

ROWS = (60, 30, 15, 5)
"""Of a tree: as many as can be sent."""


class ViewedStudy(Protocol):
    """What is looked at of a study's record."""

    @property
    def info(self) -> RunInfo: ...

    @property
    def objective(self) -> Objective: ...

    @property
    def run_state(self) -> RunState: ...

    @property
    def lines(self) -> Lines: ...

    def trajectory(self, name: ModelId) -> Trajectory: ...

    def figures(self) -> Figures: ...


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study at one moment.

    Parameters
    ----------
    tree:
        Of all that it asked for.
    cards:
        Its figures.
    """

    study: str
    name: str
    metric: str
    standing: Standing
    tree: ProgressTree
    cards: tuple[CardNews, ...]

    def news(self, client: str) -> StudyNews:
        """Return what is sent to be shown; takes longer than the picture, and may be made in any thread."""
        layouts = (_shortened(tree_layout(self.tree, rows)) for rows in ROWS)
        return StudyNews(
            study=self.study,
            client=client,
            name=plain(self.name, 100),
            metric=plain(self.metric, 40),
            standing=self.standing,
            cards=self.cards,
            trainers=tuple(_who_trains(self.tree))[:MOST_ROWS],
            tree=next((layout for layout in layouts if can_be_sent(layout)), None),
        )


def picture_of(study: ViewedStudy, scheduler: Scheduler, *, is_over: bool = False) -> StudyView:
    """Return a study's picture.

    Parameters
    ----------
    is_over:
        Nothing is trained for it any more.
    """
    reached, running = states_under_way(scheduler.under_way)
    asked = list(_asked(study, scheduler))
    tree = progress_tree(scheduler.plan, asked, reached=reached, running={} if is_over else running)
    pending = len(study.run_state.requests) - len(study.run_state.reports)
    return StudyView(
        study=study.info.id,
        name=study.info.name,
        metric=study.objective.metric,
        standing="running" if not is_over else "stopped" if pending or not asked else "ended",
        tree=tree,
        cards=tuple(_cards(study, scheduler, tree, pending)),
    )


def came_of(report: Report | None) -> Literal["waiting", "done", "failed", "given up"]:
    """Say what came of a request by its report; None: there is none yet."""
    if report is None:
        return "waiting"
    if report.status == "finished":
        return "done"
    return "given up" if report.failure is not None and report.failure.kind == "stopped" else "failed"


def _asked(study: ViewedStudy, scheduler: Scheduler) -> Iterator[Asked]:
    run_state, plan = study.run_state, scheduler.plan
    best = next(iter(run_state.best(1)), None)
    top = None if best is None else plan.locate(study.trajectory(best.model_id), best.step)
    for request in run_state.requests.values():
        report = run_state.reports.get(request.number)
        trajectory, step = study.trajectory(request.model_id), request.until_step or 0
        quality = None if report is None else report.quality
        is_best = best is not None and quality == best.quality and plan.locate(trajectory, step) == top
        trial = study.lines[request.model_id].trial.name
        yield Asked(trial, trajectory, step, came_of(report), quality, is_best)


def _cards(study: ViewedStudy, scheduler: Scheduler, tree: ProgressTree, pending: int) -> Iterator[CardNews]:
    figures, run_state = study.figures(), study.run_state
    best = next(iter(run_state.best(1)), None)
    failed = sum(came_of(report) == "failed" for report in run_state.reports.values())
    notes = (say_count(failed, "request") + " failed" if failed else "", f"{pending} without an answer" * bool(pending))
    yield CardNews("trials answered", str(figures.trials), ", ".join(filter(None, notes)))
    found = "" if best is None else f"{study.lines[best.model_id].trial.name}, step {best.step}"
    quality = say_quality(None if best is None else best.quality)
    yield CardNews(f"best {plain(study.objective.metric, 40)}", quality, plain(found, 60))
    steps = ", ".join(f"{count:,} {word}" for word, count in tree.steps().items() if count)
    yield CardNews("steps trained", f"{figures.trained_steps:,}", f"of the tree: {steps}" if steps else "")
    said = f"{figures.total_steps:,} steps of the trials answered / steps trained"
    yield CardNews("saving so far", say_times(figures.saving if figures.trials else None), said)
    busy = {work.trainer for work in scheduler.under_way.works.values()}
    yield CardNews("trainers at work", f"{len(busy)} of {len(scheduler.trainers)}", "for all studies of this process")


def _who_trains(tree: ProgressTree) -> Iterator[TrainerNews]:
    """Say of each trainer which steps it is at, and for whom."""
    spans: dict[str, list[tuple[int, int]]] = {}
    trials: dict[str, dict[str, None]] = {}
    for branch in tree.branches:
        for span in branch.spans:
            if span.trainer is not None:
                spans.setdefault(span.trainer, []).append((span.start, span.stop))
                trials.setdefault(span.trainer, {}).update(dict.fromkeys(span.trials))
    for trainer in sorted(spans):
        named, more = list(trials[trainer])[:NAMED], len(trials[trainer]) - NAMED
        who = ", ".join(named) + (f" and {more} more" if more > 0 else "")
        first, last = min(spans[trainer])[0], max(stop for _, stop in spans[trainer])
        yield TrainerNews(plain(trainer, 100), f"{first:,} to {last:,}", plain(who, 300))


def _shortened(layout: TreeLayout) -> TreeLayout:
    """Cut what is said right of a row: an architecture may be a long text."""
    rows = (row if len(row.words) <= LONGEST else replace(row, words=plain(row.words, LONGEST)) for row in layout.rows)
    return replace(layout, rows=tuple(rows))
