"""Order of stages: critical path, breadth first, or most children first (paper 002, sections 4.3 and 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from daskevo.tuning.plan import SearchPlan, State
from daskevo.tuning.stages import StageTree

Policy = Literal["critical path", "breadth first", "most children"]

Ranks = list[tuple[float, ...]]


def critical_path(plan: SearchPlan, tree: StageTree, seconds: Sequence[float]) -> Ranks:
    """Rank stages by the estimated seconds of the longest path that begins with them."""
    longest = list(seconds)
    # Parents come before their children, so from the end each child is known when its parent asks.
    for stage in reversed(tree.stages):
        below = max((longest[child] for child in stage.children), default=0.0)
        longest[stage.number] = seconds[stage.number] + below
    return [(length,) for length in longest]


def breadth_first(plan: SearchPlan, tree: StageTree, seconds: Sequence[float]) -> Ranks:
    """Rank stages in breadth-first order: by the number of stages above them in the stage tree, fewer first.

    Of as many, those go first that serve the request that was asked first: the stage tree holds only what is still to
    be trained, so all stages that can begin are its roots.
    """
    asked = {state: number for number, state in enumerate(plan.wanted)}
    first = [asked.get(stage.end, len(asked)) for stage in tree.stages]
    for stage in reversed(tree.stages):
        if stage.parent is not None:
            first[stage.parent] = min(first[stage.parent], first[stage.number])
    levels: list[int] = []
    for stage in tree.stages:
        levels.append(0 if stage.parent is None else levels[stage.parent] + 1)
    return [(-level, -number) for level, number in zip(levels, first, strict=True)]


def most_children(plan: SearchPlan, tree: StageTree, seconds: Sequence[float]) -> Ranks:
    """Rank stages by the number of stages that begin where they end."""
    return [(len(stage.children),) for stage in tree.stages]


POLICIES: dict[Policy, Callable[[SearchPlan, StageTree, Sequence[float]], Ranks]] = {
    "critical path": critical_path,
    "breadth first": breadth_first,
    "most children": most_children,
}


class Queued:
    """A policy by which what has a place in the queue keeps it, as in the paper's scheduler (section 4.3).

    There the stages of a tree that find no free worker are queued, and those of later trees are queued behind them.

    Parameters
    ----------
    policy:
        Orders the stages that come into the queue together.
    """

    def __init__(self, policy: Policy) -> None:
        self._order = POLICIES[policy]
        self._places: dict[State, tuple[float, ...]] = {}
        self._times = 0

    def __call__(self, plan: SearchPlan, tree: StageTree, seconds: Sequence[float]) -> Ranks:
        """Rank stages by when they were first seen, earlier first, then by their ranks at that time."""
        new = [stage for stage in tree.stages if stage.end not in self._places]
        if new:
            self._times += 1
            ranks = self._order(plan, tree, seconds)
            self._places.update({stage.end: (-self._times, *ranks[stage.number]) for stage in new})
        return [self._places[stage.end] for stage in tree.stages]


def best_path(tree: StageTree, ranks: Ranks, ready: Sequence[int], *, batched: bool) -> list[int]:
    """Return the path of stages for one trainer: the best ready stage, then always the best child.

    Parameters
    ----------
    ready:
        Numbers of the stages that can begin now, at least one.
    batched:
        False: return only the first stage.
    """

    def best(numbers: Sequence[int]) -> int:
        # Ties go to the earlier stage, so that a study repeats exactly.
        return max(numbers, key=lambda number: (ranks[number], -number))

    path = [best(ready)]
    while batched and (children := tree.stages[path[-1]].children):
        path.append(best(children))
    return path
