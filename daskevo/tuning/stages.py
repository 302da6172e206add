"""The stage tree: the steps still to be trained, cut wherever a model is needed (paper 002, chapter 3).

It is built from the search plan for each decision and then discarded. This is not the paper's Algorithm 1 as printed,
which looks for a snapshot strictly before each request, so that it misses one exactly there, and which makes a stage
for each request of a node from the same beginning, so that stages overlap. Here the steps at which a node is needed
(requests, and where children diverge) and the steps at which its model is available are sorted, and each stage leads
from one of them to the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from daskevo.tuning.plan import SearchPlan, State


@dataclass(frozen=True, slots=True)
class TrainingStage:
    """Steps to train in one go; none, if a model only has to be evaluated.

    Parameters
    ----------
    number:
        Its index in `StageTree.stages`; parents come before their children.
    node:
        Number of the node in the search plan.
    start, stop:
        Trains from after `start` steps up to `stop`, where it saves; if equal, it only evaluates.
    source:
        The state that it starts from; None: an untrained model.
    parent, children:
        The stage that produces its source, and the stages whose source it produces.
    ready:
        Whether it can begin: its source is stored, or it has none.
    evaluate:
        Whether a request waits for the metrics at its end.
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
        """The state that it produces."""
        return State(self.node, self.stop)


@dataclass(frozen=True, slots=True)
class Promises:
    """Results that running tasks will produce: steps at which they save, by node, and states that they evaluate."""

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
        Promised states that a request waits for, or that a stage starts from.
    """

    stages: tuple[TrainingStage, ...]
    awaited: frozenset[State]

    @property
    def steps(self) -> int:
        """Total number of steps to train."""
        return sum(stage.steps for stage in self.stages)


def stage_tree(plan: SearchPlan, promises: Promises | None = None) -> StageTree:
    """Return the stages that serve all requests of a plan.

    Every step belongs to at most one stage. Every request, and every step where trajectories that need training
    diverge, is the end of a stage, or stored, or promised.

    Parameters
    ----------
    promises:
        Of running tasks: these results are not produced again.

    Examples
    --------
    A request within another one, and a child that diverges before both:

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
            # From the last needed step, or from a later one at which a model is there.
            start = max(reached, had.latest(State(node, step)) or 0)
            # A model that is there is no stage, unless somebody waits for its metrics.
            if start < step or State(node, step) in asked:
                spans.append((start, step, node))
            reached = step
    # Parents begin before their children; ties are ordered arbitrarily, but always in the same way.
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
    """Steps at which models are stored, or will be."""

    def __init__(self, plan: SearchPlan, promises: Promises) -> None:
        self._nodes = plan.nodes
        self._promises = promises
        self._steps: dict[int, list[int]] = {}

    def latest(self, state: State) -> int | None:
        """Return the last step of the state's node, up to the state, at which its model is available."""
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
    """Return, by node, the steps at which models are needed for all requests; each state is visited once."""
    needed: dict[int, set[int]] = {}
    # A stack instead of recursion: a tree may be as deep as a trial has changes of hyper-parameters.
    left = list(asked)
    while left:
        state = left.pop()
        steps = needed.setdefault(state.node, set())
        if state.step in steps:
            continue
        steps.add(state.step)
        node = plan.nodes[state.node]
        # Nothing on this node to start from: its training begins where it leaves its parent.
        if node.parent is not None and had.latest(state) is None:
            left.append(State(node.parent, node.start))
    return needed


def _source(plan: SearchPlan, number: int, step: int) -> State | None:
    """Return the state from which a node's training continues at a step; None if nothing has been trained yet."""
    node = plan.nodes[number]
    if step > node.start:
        return State(number, step)
    return None if node.parent is None else State(node.parent, node.start)
