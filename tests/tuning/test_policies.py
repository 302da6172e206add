"""Which stage goes first, policy by policy, and how paths go on."""

from __future__ import annotations

import pytest

from daskevo.tuning import Configuration, Constant, Policy, SearchPlan, State, Trajectory, concatenate, stage_tree
from daskevo.tuning.policies import POLICIES, best_path


def rate(first: float, later: float | None = None, at: int = 5) -> Trajectory:
    sequence = Constant(first) if later is None else concatenate(Constant(first), (at, Constant(later)))
    return Trajectory("m", Configuration({"lr": sequence}))


def path_of(plan: SearchPlan, policy: Policy, *, batched: bool = True) -> list[tuple[int, int, int]]:
    """Node, start and stop of the stages that go first."""
    tree = stage_tree(plan)
    ranks = POLICIES[policy](plan, tree, [float(stage.steps) for stage in tree.stages])
    ready = [stage.number for stage in tree.stages if stage.ready]
    path = [tree.stages[number] for number in best_path(tree, ranks, ready, batched=batched)]
    return [(stage.node, stage.start, stage.stop) for stage in path]


@pytest.fixture
def plan() -> SearchPlan:
    """Node 0 alone until 15; node 1 until 6, and its children from 5 on, 2 until 10 and 3 until 9."""
    plan = SearchPlan()
    plan.request("long", rate(0.5), 15)
    plan.request("parent", rate(0.1), 6)
    plan.request("child", rate(0.1, 0.2), 10)
    plan.request("other child", rate(0.1, 0.3), 9)
    return plan


def test_the_longest_path(plan: SearchPlan) -> None:
    assert path_of(plan, "critical path") == [(0, 0, 15)]
    plan.request("grandchild", rate(0.1, 0.2), 16)
    assert path_of(plan, "critical path") == [(1, 0, 5), (2, 5, 10), (2, 10, 16)]
    assert path_of(plan, "critical path", batched=False) == [(1, 0, 5)]


def test_most_children(plan: SearchPlan) -> None:
    assert path_of(plan, "most children") == [(1, 0, 5), (1, 5, 6)]
    plan.request("grandchild", rate(0.1, 0.3), 30)
    assert path_of(plan, "most children") == [(1, 0, 5), (3, 5, 9), (3, 9, 30)]


def test_breadth_first(plan: SearchPlan) -> None:
    plan.saved(State(1, 5), "s5")
    plan.request("far", rate(0.1, 0.3), 40)
    assert path_of(plan, "critical path")[0] == (3, 5, 9)
    plan.withdraw("parent")
    plan.saved(State(0, 8), "s8")
    # It begins later than the others, but no node is above it.
    assert path_of(plan, "breadth first") == [(0, 8, 15)]
    plan.withdraw("long")
    assert path_of(plan, "breadth first") == [(3, 5, 9), (3, 9, 40)]
