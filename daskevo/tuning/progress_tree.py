"""The stage tree for display: every step of a study's trials, its state, and the trials that need it.

A stage tree (:mod:`daskevo.tuning.stages`) contains only steps still to be trained; this one also contains those
already trained, so that a study can be drawn during and after its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from daskevo.tuning.plan import SearchPlan, State
from daskevo.tuning.running_stages import RunningStages
from daskevo.tuning.trajectory import Trajectory
from daskevo.types import JSON

Progress = Literal["done", "running", "waiting", "failed"]


class Asked(NamedTuple):
    """A trial's request and its outcome.

    Parameters
    ----------
    trial:
        The trial's name.
    trajectory, step:
        The trajectory and step whose metrics were requested.
    came:
        Done, failed, or given up: withdrawn, so it needs nothing any more.
    quality:
        Value of the study's objective.
    best:
        Whether it is the best of its study.
    """

    trial: str
    trajectory: Trajectory
    step: int
    came: Literal["waiting", "done", "failed", "given up"] = "waiting"
    quality: float | None = None
    best: bool = False


class Span(NamedTuple):
    """Consecutive steps of a branch, after `start` up to `stop`, with the same state and trials.

    Parameters
    ----------
    trials:
        Trials that need these steps, or needed them.
    trainer:
        The trainer, if the steps are running.
    """

    start: int
    stop: int
    progress: Progress
    trials: tuple[str, ...]
    trainer: str | None = None


class Goal(NamedTuple):
    """A step at which metrics are requested, with the trials and the resulting quality."""

    step: int
    progress: Progress
    trials: tuple[str, ...]
    quality: float | None = None
    best: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the search plan, as far as a trial needs it or it was trained.

    Parameters
    ----------
    parent:
        Index of the parent in :attr:`ProgressTree.branches`; None for a root.
    start, stop:
        Its steps: those after `start` up to `stop`.
    spans:
        All of these steps as consecutive spans.
    goals:
        Ordered by step.
    changes:
        Hyper-parameters that differ from the parent where the branch begins, with their values in its first and last
        step; for a root, those that differ between roots or change over time.
    """

    parent: int | None
    start: int
    stop: int
    spans: tuple[Span, ...]
    goals: tuple[Goal, ...]
    changes: Mapping[str, tuple[JSON, JSON]]

    @property
    def trials(self) -> tuple[str, ...]:
        """All trials that need, or needed, one of its steps."""
        return tuple(dict.fromkeys(trial for span in self.spans for trial in span.trials))


@dataclass(frozen=True, slots=True)
class ProgressTree:
    """All branches of a set of trials.

    Parameters
    ----------
    branches:
        Parents before their children.
    unit:
        The unit of a step.
    """

    branches: tuple[Branch, ...]
    unit: str = "step"

    def steps(self) -> dict[Progress, int]:
        """Return the number of steps that are done, running, waiting and failed; each step counts once."""
        counted: dict[Progress, int] = {"done": 0, "running": 0, "waiting": 0, "failed": 0}
        for branch in self.branches:
            for span in branch.spans:
                counted[span.progress] += span.stop - span.start
        return counted


class _Need(NamedTuple):
    step: int
    asked: Asked


def progress_tree(
    plan: SearchPlan,
    asked: Iterable[Asked],
    *,
    reached: Iterable[State] = (),
    running: Mapping[State, str] | None = None,
) -> ProgressTree:
    """Return the steps that trials need, with their state.

    Parameters
    ----------
    plan:
        The search plan: steps up to a snapshot or metrics are done. Missing nodes of the requests are added; nodes that
        no request needs are not shown.
    reached:
        Further states of the plan that were trained, stored or not.
    running:
        End states of running tasks -> name of the trainer.

    Examples
    --------
    Two trials that part after 4 steps, of which the first was trained until its end:

    >>> from daskevo.tuning import Configuration, Constant, SearchPlan, Trajectory, concatenate
    >>> one = Trajectory("m", Configuration({"lr": Constant(0.1)}))
    >>> two = Trajectory("m", Configuration({"lr": concatenate(Constant(0.1), (4, Constant(0.01)))}))
    >>> tree = progress_tree(SearchPlan(), [Asked("one", one, 6, "done", 0.9), Asked("two", two, 9)])
    >>> for branch in tree.branches:
    ...     spans = [(span.start, span.stop, span.progress) for span in branch.spans]
    ...     print(branch.parent, dict(branch.changes), *spans)
    None {} (0, 4, 'done') (4, 6, 'done')
    0 {'lr': (0.01, 0.01)} (4, 9, 'waiting')
    >>> [span.trials for span in tree.branches[0].spans]
    [('one', 'two'), ('one',)]
    """
    needs: dict[int, list[_Need]] = {}
    goals: dict[int, dict[int, list[Asked]]] = {}
    states = list(reached)
    for each in asked:
        state = plan.locate(each.trajectory, each.step)
        goals.setdefault(state.node, {}).setdefault(state.step, []).append(each)
        if each.came == "done":
            states.append(state)
        for point in plan.path(state):
            needs.setdefault(point.node, []).append(_Need(point.step, each))
    for node in plan.nodes:
        if steps := [*node.snapshots, *node.metrics]:
            states.append(State(node.number, max(steps)))
    done = _furthest(plan, dict.fromkeys(states, ""))
    busy = _furthest(plan, running or {})
    branches: list[Branch] = []
    numbers: dict[int, int] = {}
    # Nodes are numbered from parents to children, so a parent's branch is there before it is looked up.
    for number in sorted(needs):
        start, parent = plan.nodes[number].start, plan.nodes[number].parent
        spans = _spans(start, needs[number], done.get(number, (0, ""))[0], busy.get(number, (0, "")))
        if spans:
            numbers[number] = len(branches)
            above = None if parent is None else numbers[parent]
            met = _goals(goals.get(number, {}), spans)
            branches.append(Branch(above, start, spans[-1].stop, spans, met, _changes(plan, number, spans[-1].stop)))
    units = {plan.nodes[number].trajectory.configuration.unit for number in numbers}
    return ProgressTree(tuple(_without_common(branches)), min(units, default="step"))


def states_under_way(under_way: RunningStages) -> tuple[list[State], dict[State, str]]:
    """Return the states that running tasks have reached, and their end states with their trainers."""
    reached: list[State] = []
    running: dict[State, str] = {}
    for work in under_way.works.values():
        if (state := work.state_at(work.reached)) is not None:
            reached.append(state)
        if not work.stopping:
            running[work.legs[-1]] = work.trainer
    return reached, running


def _furthest(plan: SearchPlan, states: Mapping[State, str]) -> dict[int, tuple[int, str]]:
    """Return, by node, the last step that training to one of the states passes, with that state's word."""
    furthest: dict[int, tuple[int, str]] = {}
    for state, word in states.items():
        for point in plan.path(state):
            furthest[point.node] = max(furthest.get(point.node, (0, "")), (point.step, word))
    return furthest


def _spans(start: int, needs: list[_Need], done: int, busy: tuple[int, str]) -> tuple[Span, ...]:
    """Cut a node into spans wherever the trials that need it, or its progress, change."""
    until = max(done, busy[0])
    stop = max(min(need.step, until) if need.asked.came == "given up" else need.step for need in needs)
    if stop <= start:
        return ()
    cuts = sorted({start, stop, *(cut for cut in (done, busy[0], *(n.step for n in needs)) if start < cut < stop)})
    spans: list[Span] = []
    for begin, end in pairwise(cuts):
        here = [need.asked for need in needs if need.step >= end]
        needing = [each for each in here if each.came != "given up"]
        trainer = None
        progress: Progress
        if end <= done:
            progress, needing = "done", here
        elif end <= busy[0]:
            progress, trainer = "running", busy[1]
        else:
            progress = "waiting" if any(each.came == "waiting" for each in needing) else "failed"
        span = Span(begin, end, progress, tuple(dict.fromkeys(each.trial for each in needing)), trainer)
        if spans and spans[-1][2:] == span[2:]:
            span = span._replace(start=spans.pop().start)
        spans.append(span)
    return tuple(spans)


def _goals(goals: Mapping[int, list[Asked]], spans: tuple[Span, ...]) -> tuple[Goal, ...]:
    found: list[Goal] = []
    for step in sorted(goals):
        here = [each for each in goals[step] if each.came != "given up"]
        if not here:
            continue
        came = {each.came for each in here}
        span = next(span for span in spans if step <= span.stop)
        progress: Progress
        if "done" in came:
            progress = "done"
        elif "waiting" in came:
            # Trained up to this step, but still to be scored.
            progress = "running" if span.progress == "running" else "waiting"
        else:
            progress = "failed"
        quality = next((each.quality for each in here if each.came == "done"), None)
        trials = tuple(dict.fromkeys(each.trial for each in here))
        found.append(Goal(step, progress, trials, quality, any(each.best for each in here)))
    return tuple(found)


def _changes(plan: SearchPlan, number: int, stop: int) -> dict[str, tuple[JSON, JSON]]:
    node = plan.nodes[number]
    configuration = node.trajectory.configuration
    first, last = configuration.at(node.start), configuration.at(stop - 1)
    if node.parent is None:
        constants = {name: (value, value) for name, value in configuration.constants.items()}
        return {**constants, **{name: (value, last[name]) for name, value in first.items()}}
    before = plan.nodes[node.parent].trajectory.configuration.at(node.start)
    # By bits, as trajectories are compared: 0.0 and -0.0 part them.
    return {name: (value, last[name]) for name, value in first.items() if value.hex() != before[name].hex()}


def _without_common(branches: list[Branch]) -> list[Branch]:
    """Remove from the changes of root branches all values that are constant and equal in all of them."""
    roots = [branch for branch in branches if branch.parent is None]
    common = {
        name
        for name, values in (roots[0].changes.items() if roots else ())
        # As text, because 1, 1.0 and True are equal in Python.
        if repr(values[0]) == repr(values[1]) and all(repr(root.changes.get(name)) == repr(values) for root in roots)
    }

    def cleared(branch: Branch) -> Branch:
        kept = {name: values for name, values in branch.changes.items() if name not in common}
        return replace(branch, changes=kept)

    return [cleared(branch) if branch.parent is None else branch for branch in branches]
