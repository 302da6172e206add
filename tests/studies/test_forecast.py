"""Seconds of a forecast: steps at the pace of their nodes, starts and scorings as they were measured."""

from __future__ import annotations

import pytest

from daskevo.tuning import Configuration, Constant, Costs, SearchPlan, Trajectory, concatenate
from daskevo_workflows.studies.forecast import forecast


def rate(*pieces: tuple[int, float]) -> Trajectory:
    (_, first), *later = pieces
    sequence = concatenate(Constant(first), *((step, Constant(value)) for step, value in later))
    return Trajectory("m", Configuration({"learning_rate": sequence}))


TRIALS = [(rate((0, 0.1)), 10), (rate((0, 0.1), (4, 0.2)), 10), (rate((0, 0.1)), 8)]
"""Of 28 steps, 16 differ: 4, then 4 and 2, then 6."""


def test_starts_and_scorings_are_part_of_it() -> None:
    plan = SearchPlan()
    costs = Costs(plan)
    assert forecast(TRIALS, plan, costs).total_s is None
    for number, (trajectory, step) in enumerate(TRIALS):
        plan.request(number, trajectory, step)
    costs.trained(0, 4, 2.0)
    before = forecast(TRIALS, plan, costs)
    assert (before.total_steps, before.steps_to_train) == (28, 16)
    assert (before.total_s, before.seconds_to_train) == (14.0, 8.0)
    costs.started(3.0)
    costs.evaluated(0.25)
    found = forecast(TRIALS, plan, costs)
    # Three trials by themselves; shared, two paths, and a scoring of each trial all the same.
    assert found.total_s == pytest.approx(14.0 + 3 * (3.0 + 0.25))
    assert found.seconds_to_train == pytest.approx(8.0 + 2 * 3.0 + 3 * 0.25)
    plan.measured(plan.locate(*TRIALS[0]), {"loss": 1.0})
    plan.saved(plan.locate(*TRIALS[0]), "s10")
    later = forecast(TRIALS, plan, costs)
    # Whoever has 8 steps has lost them; the other trial begins anew.
    assert later.steps_to_train == 14
    assert later.seconds_to_train == pytest.approx(7.0 + 2 * 3.0 + 2 * 0.25)
