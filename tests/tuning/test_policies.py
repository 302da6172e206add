"""Which stage goes first, policy by policy, and how paths go on."""

from __future__ import annotations

import pytest

from daskevo.tuning import (
    Configuration,
    Constant,
    Policy,
    Run,
    Scheduler,
    SearchPlan,
    State,
    Trajectory,
    concatenate,
    stage_tree,
)
from daskevo.tuning.policies import POLICIES, Queued, best_path


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
    """The paper's: level by level over the stage tree, and in the order of asking within a level (002, section 4.3)."""
    assert path_of(plan, "breadth first") == [(0, 0, 15)]
    tree = stage_tree(plan)
    ranks = POLICIES["breadth first"](plan, tree, [1.0] * len(tree.stages))
    numbers = sorted(range(len(tree.stages)), key=lambda number: ranks[number], reverse=True)
    order = [(tree.stages[number].node, tree.stages[number].start) for number in numbers]
    assert order == [(0, 0), (1, 0), (1, 5), (2, 5), (3, 5)]
    # What is trained already is no level of the tree: of two that can begin, the one asked for first.
    plan.saved(State(1, 5), "s5")
    plan.withdraw("long")
    plan.request("long", rate(0.5), 15)
    assert path_of(plan, "breadth first", batched=False) == [(1, 5, 6)]
    plan.withdraw("parent")
    assert path_of(plan, "breadth first", batched=False) == [(2, 5, 10)]


def test_a_stage_keeps_its_place_in_the_queue(plan: SearchPlan) -> None:
    queue = Queued("critical path")

    def first() -> tuple[int, int]:
        tree = stage_tree(plan)
        ranks = queue(plan, tree, [float(stage.steps) for stage in tree.stages])
        ready = [stage.number for stage in tree.stages if stage.ready]
        stage = tree.stages[best_path(tree, ranks, ready, batched=False)[0]]
        return stage.node, stage.start

    assert first() == (0, 0)
    # Longer than all that is there, and behind it: critical path anew would have it first.
    plan.request("longest", rate(0.9), 100)
    assert path_of(plan, "critical path") == [(4, 0, 100)]
    assert first() == (0, 0)
    for waiter in ("long", "parent", "child", "other child"):
        plan.withdraw(waiter)
    assert first() == (4, 0)


def test_a_queue_takes_in_what_is_asked_for_while_all_are_busy() -> None:
    scheduler = Scheduler(queued=True, batched=False)
    scheduler.trainer("gpu")
    scheduler.add("first", rate(0.1), 5)
    [run] = scheduler.decide()
    assert isinstance(run, Run)
    scheduler.add("second", rate(0.2), 5)
    assert scheduler.decide() == []
    scheduler.add("third", rate(0.3), 50)
    scheduler.saved(run.work, 5, "s")
    scheduler.measured(run.work, 5, {})
    scheduler.ended(run.work)
    [then] = scheduler.decide()
    assert isinstance(then, Run)
    assert then.trajectory == rate(0.2)
