"""Estimates of seconds: what they rest on, and starts apart from steps."""

from __future__ import annotations

import pytest

from daskevo.errors import InvalidInput
from daskevo.tuning import (
    Configuration,
    Constant,
    Costs,
    MultiStep,
    Scheduler,
    SearchPlan,
    Trajectory,
    concatenate,
    stage_tree,
)


def trajectory(rate: float, *, size: int = 32, at: int = 5, origin: str = "m") -> Trajectory:
    rates = concatenate(Constant(0.1), (at, Constant(rate)))
    return Trajectory(origin, Configuration({"lr": rates, "batch_size": MultiStep(32, (5,), size / 32)}))


@pytest.fixture
def plan() -> SearchPlan:
    """Node 0, its children 1 (batch size as node 0), 2 (another one), and 3 of another model."""
    plan = SearchPlan()
    for number, each in enumerate([trajectory(0.1), trajectory(0.2), trajectory(0.3, size=64)]):
        plan.request(number, each, 20)
    plan.request(3, trajectory(0.1, origin="other"), 20)
    return plan


def test_what_estimates_rest_on(plan: SearchPlan) -> None:
    costs = Costs(plan, cold_s=3.0)
    assert [costs.step_s(node) for node in range(4)] == [(3.0, "cold")] * 4
    costs.trained(0, 10, 5.0)
    assert [costs.step_s(node) for node in range(4)] == [
        (0.5, "measured"),
        (0.5, "alike"),
        (0.5, "parent"),
        (0.5, "mean"),
    ]
    costs.trained(2, 10, 15.0)
    assert costs.step_s(2) == (1.5, "measured")
    assert costs.step_s(1) == (0.5, "alike")
    assert costs.step_s(3) == (1.0, "mean")
    costs.trained(2, 30, 5.0)
    assert costs.step_s(2) == (0.5, "measured")
    costs.trained(1, 0, 7.0)
    assert costs.step_s(1) == (0.5, "alike")


def test_starts_and_evaluations_are_apart(plan: SearchPlan) -> None:
    costs = Costs(plan)
    costs.trained(0, 10, 5.0)
    assert (costs.start_s, costs.evaluation_s) == (0.0, 0.0)
    costs.started(4.0)
    costs.started(6.0)
    costs.evaluated(2.0)
    assert (costs.start_s, costs.evaluation_s) == (5.0, 2.0)
    stages = {stage.end: stage for stage in stage_tree(plan).stages}
    assert costs.stage_s(stages[0, 5]) == 2.5  # type: ignore[index]
    assert costs.stage_s(stages[1, 20]) == 15 * 0.5 + 2.0  # type: ignore[index]


def test_a_run_is_estimated_with_its_start(plan: SearchPlan) -> None:
    scheduler = Scheduler(plan)
    scheduler.costs.trained(0, 10, 5.0)
    scheduler.costs.trained(2, 10, 10.0)
    scheduler.costs.started(4.0)
    scheduler.trainer("t0")
    (run,) = scheduler.decide()
    assert run.trajectory == trajectory(0.3, size=64)  # type: ignore[union-attr]
    assert run.estimated_s == 4.0 + 5 * 0.5 + 15 * 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_guess_is_a_time(seconds: float) -> None:
    with pytest.raises(InvalidInput):
        Costs(SearchPlan(), cold_s=seconds)
