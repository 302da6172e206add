"""Order of stages: critical path, breadth first, or most children first (paper 002, sections 4.3 and 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from daskevo.tuning.plan import SearchPlan
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
    """Rank stages by the depth of their node, smaller first; at equal depth, those that begin earlier first."""
    return [(-plan.nodes[stage.node].depth, -stage.start) for stage in tree.stages]


def most_children(plan: SearchPlan, tree: StageTree, seconds: Sequence[float]) -> Ranks:
    """Rank stages by the number of stages that begin where they end."""
    return [(len(stage.children),) for stage in tree.stages]


POLICIES: dict[Policy, Callable[[SearchPlan, StageTree, Sequence[float]], Ranks]] = {
    "critical path": critical_path,
    "breadth first": breadth_first,
    "most children": most_children,
}


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
