"""The stage tree: what is still to be trained, cut where somebody needs the model (paper 002, chapter 3).

Made of a search plan whenever something is to be decided, and thrown away after that. Not the paper's Algorithm 1 as
printed: that looks for a snapshot strictly before each request, so that one exactly there is missed, and makes a stage
for each request of a node from the same beginning, so that stages overlap. Here the steps at which a node is needed
(requests, and where children part) and the steps at which its model is to be had are sorted, and each stage goes from
one of them to the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from daskevo.tuning.plan import SearchPlan, State


@dataclass(frozen=True, slots=True)
class TrainingStage:
    """Steps to be trained in one go, or none, where a model only has to be evaluated.

    Parameters
    ----------
    number:
        Its place in `StageTree.stages`; parents come before their children.
    node:
        Of the search plan.
    start, stop:
        Trained from after `start` steps until `stop`, where it is saved; equal: only evaluated.
    source:
        The state that it begins with; None: a model that hasn't been trained.
    parent, children:
        The stage that makes its source, and those whose source it makes.
    ready:
        Its source is stored, or it has none.
    evaluate:
        Somebody waits for the metrics at its end.
    """

    number: int
    node: int
    start: int
    stop: int
    source: State | None
    parent: int | None
    ready: bool
    evaluate: bool
    children: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        return self.stop - self.start

    @property
    def end(self) -> State:
        """The state it makes."""
        return State(self.node, self.stop)


@dataclass(frozen=True, slots=True)
class Promises:
    """What running work will have made: by node the steps at which it saves, and states that it evaluates."""

    saves: Mapping[int, Collection[int]] = field(default_factory=dict)
    evaluations: Collection[State] = ()


@dataclass(frozen=True, slots=True)
class StageTree:
    """All stages still to be trained.

    Parameters
    ----------
    stages:
        Parents before children.
    awaited:
        Promised states that somebody waits for, or that a stage begins with.
    """

    stages: tuple[TrainingStage, ...]
    awaited: frozenset[State]

    @property
    def steps(self) -> int:
        """Steps to be trained in all."""
        return sum(stage.steps for stage in self.stages)


def stage_tree(plan: SearchPlan, promises: Promises | None = None) -> StageTree:
    """Return the stages that serve all requests of a plan.

    Every step is in one stage at most; every request, and every step at which trajectories part that are to be trained
    from there, is the end of a stage, stored, or promised.

    Parameters
    ----------
    promises:
        Of work under way: what it will make is not made again.

    Examples
    --------
    A request that another one ends within, and a child that parts before both:

    >>> from daskevo.tuning import Configuration, Constant, Trajectory, concatenate
    >>> plan = SearchPlan()
    >>> one = Trajectory("m", Configuration({"lr": Constant(0.1)}))
    >>> two = Trajectory("m", Configuration({"lr": concatenate(Constant(0.1), (100, Constant(0.2)))}))
    >>> for waiter, (trajectory, step) in enumerate([(one, 150), (one, 200), (two, 300)]):
    ...     standing = plan.request(waiter, trajectory, step)
    >>> [(stage.node, stage.start, stage.stop, stage.children) for stage in stage_tree(plan).stages]
    [(0, 0, 100, (1, 2)), (0, 100, 150, (3,)), (1, 100, 300, ()), (0, 150, 200, ())]
    """
    promises = promises or Promises()
    had = _Had(plan, promises)
    asked = dict.fromkeys(state for state in plan.wanted if state not in promises.evaluations)
    needed = _needed(plan, had, asked)
    spans: list[tuple[int, int, int]] = []  # start, stop, node
    for node, steps in needed.items():
        reached = plan.nodes[node].start
        for step in sorted(steps):
            start = max(reached, had.latest(State(node, step)) or 0)
            if start < step or State(node, step) in asked:
                spans.append((start, step, node))
            reached = step
    # Parents begin before their children; of two that begin at once, the order is made up, but always the same.
    spans.sort()
    ends = {State(node, stop): number for number, (start, stop, node) in enumerate(spans) if start < stop}
    sources = [_source(plan, node, start) for start, _, node in spans]
    parents = [None if source is None or source in had else ends[source] for source in sources]
    children: list[list[int]] = [[] for _ in spans]
    for number, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(number)
    stages = tuple(
        TrainingStage(
            number=number,
            node=node,
            start=start,
            stop=stop,
            source=source,
            parent=parent,
            ready=source is None or had.stored(source),
            evaluate=State(node, stop) in asked,
            children=tuple(children[number]),
        )
        for number, ((start, stop, node), source, parent) in enumerate(zip(spans, sources, parents, strict=True))
    )
    begun_with = {source for source in sources if source is not None and source in had and not had.stored(source)}
    return StageTree(stages, frozenset(begun_with.union(set(plan.wanted).difference(asked))))


class _Had:
    """Where models are stored, or will be."""

    def __init__(self, plan: SearchPlan, promises: Promises) -> None:
        self._nodes = plan.nodes
        self._promises = promises
        self._steps: dict[int, list[int]] = {}

    def latest(self, state: State) -> int | None:
        """Return the last step of the state's node, up to the state, at which its model is to be had."""
        if state.node not in self._steps:
            promised = self._promises.saves.get(state.node, ())
            self._steps[state.node] = sorted({*self._nodes[state.node].snapshots, *promised})
        steps = self._steps[state.node]
        place = bisect_right(steps, state.step)
        return steps[place - 1] if place else None

    def __contains__(self, state: State) -> bool:
        return self.latest(state) == state.step

    def stored(self, state: State) -> bool:
        return state.step in self._nodes[state.node].snapshots


def _needed(plan: SearchPlan, had: _Had, asked: Iterable[State]) -> dict[int, set[int]]:
    """Return, by node, the steps at which it must be had for all that is asked; each is looked at once."""
    needed: dict[int, set[int]] = {}
    left = list(asked)
    while left:
        state = left.pop()
        steps = needed.setdefault(state.node, set())
        if state.step in steps:
            continue
        steps.add(state.step)
        node = plan.nodes[state.node]
        if node.parent is not None and had.latest(state) is None:
            left.append(State(node.parent, node.start))
    return needed


def _source(plan: SearchPlan, number: int, step: int) -> State | None:
    """Return the state that a node's training goes on from at a step; None if nothing has been trained then."""
    node = plan.nodes[number]
    if step > node.start:
        return State(number, step)
    return None if node.parent is None else State(node.parent, node.start)
