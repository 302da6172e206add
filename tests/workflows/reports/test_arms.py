"""Arms: runs that differ by their seed only are one, and several seeds are said as a median with the range."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo_workflows.reports import arms as a
from daskevo_workflows.reports.comparison import comparison
from daskevo_workflows.reports.series import EvaluationRow, RunSeries

FREEZES = "inherit, freeze what has had 300 steps"


def of_arm(run: RunSeries, arm: str, seed: int, **identity: Any) -> RunSeries:
    return replace(run, arm=arm, identity={"seed": seed, "policy": {"transfer": arm != "no transfer"}, **identity})


@pytest.fixture
def six(make_run: Any) -> list[RunSeries]:
    """Three seeds with and without transfer."""
    return [
        of_arm(make_run(30, seed=seed, transfer=arm != "no transfer", label=f"{arm[:2]}-{seed}"), arm, seed)
        for seed in range(3)
        for arm in (FREEZES, "no transfer")
    ]


def test_seeds_are_grouped_and_the_control_arm_is_named(six: list[RunSeries]) -> None:
    arms = a.arms_of(six)
    assert [(arm.label, [run.identity["seed"] for run in arm.runs]) for arm in arms] == [
        ("with transfer", [0, 1, 2]),
        ("no transfer", [0, 1, 2]),
    ]
    assert arms[0].typical.label == "with transfer"
    assert arms[0].typical.runtime_s == sorted(run.runtime_s for run in arms[0].runs)[1]


def test_what_differs_besides_the_seed_makes_another_arm(make_run: Any) -> None:
    base = make_run(10)
    runs = [
        of_arm(base, FREEZES, 0, strategy={"name": "random"}),
        of_arm(base, FREEZES, 0, strategy={"name": "grid"}),
        of_arm(make_run(10, workers=4), FREEZES, 0, strategy={"name": "grid"}),
    ]
    named = [
        replace(run, facts={"strategy": f"name = {run.identity['strategy']['name']}, settings = none"}) for run in runs
    ]
    assert [arm.label for arm in a.arms_of(named)] == [
        f"{FREEZES}, random, 2 trainers",
        f"{FREEZES}, grid, 2 trainers",
        f"{FREEZES}, grid, 4 trainers",
    ]


def test_policies_that_all_inherit_keep_their_words(make_run: Any) -> None:
    words = [FREEZES, "inherit, freeze the prefix", "no transfer"]
    arms = a.arms_of([of_arm(make_run(3), arm, 0, policy=arm) for arm in words])
    assert [arm.label for arm in arms] == words


def test_trainers_are_those_at_the_same_time() -> None:
    def run(*spans: tuple[float, float]) -> RunSeries:
        rows = [
            EvaluationRow(number=i, model_id=f"m{i}", status="finished", started_s=start, ended_s=end)
            for i, (start, end) in enumerate(spans)
        ]
        return RunSeries(label="r", run_id="", objective=None, evaluations=tuple(rows))  # type: ignore[arg-type]

    assert a.trainers(run()) == 0
    assert a.trainers(run((0, 1), (1, 2), (2, 3))) == 1
    assert a.trainers(run((0, 3), (1, 2), (2, 4), (3, 5))) == 2


def test_a_quality_that_some_never_reach(six: list[RunSeries]) -> None:
    arm = a.arms_of(six)[0]
    best = sorted(run.best(1)[0].quality for run in arm.runs)
    one, two = a.times_to(arm, best[2]), a.times_to(arm, best[1])
    assert (one.reached, one.middle, two.reached) == (1, math.inf, 2)
    assert math.isfinite(two.middle)
    assert a.times_to(arm, 2.0) is None


def test_a_median_over_time_begins_with_half_of_the_runs_and_holds_what_ended() -> None:
    curves = [[(1.0, 1.0), (4.0, 5.0)], [(2.0, 3.0)], [(9.0, 100.0)]]
    assert a.over_time(curves, 5.0) == [(2.0, 1.0, 2.0, 3.0), (4.0, 3.0, 4.0, 5.0), (5.0, 3.0, 4.0, 5.0)]
    assert len(a.over_time([[(float(i), 0.0) for i in range(10_000)]], 9999.0, most=100)) <= 101


def test_targets_are_round_and_go_from_easy_to_hard(make_run: Any) -> None:
    for objective in ("max val_auc", "min val_auc"):
        targets = a.targets_of(a.arms_of([make_run(60, objective=objective, failures=0)]))
        assert 1 <= len(targets) <= 5
        assert targets == sorted(targets, reverse=objective.startswith("min"))
        assert all(target == round(target, 3) for target in targets)
    assert a.targets_of(a.arms_of([make_run(0)])) == []


def test_more_arms_than_colours_or_different_objectives(make_run: Any) -> None:
    with pytest.raises(InvalidInput, match="are of 7 kinds"):
        a.arms_of([make_run(1, label=str(number)) for number in range(7)])
    with pytest.raises(InvalidInput, match="different objectives"):
        a.arms_of([make_run(1), make_run(1, objective="min val_loss")])
    with pytest.raises(InvalidInput, match="no run"):
        a.arms_of([])


def test_arms_are_compared_by_median_and_range(six: list[RunSeries]) -> None:
    table = comparison(a.arms_of(six))
    assert table is not None
    assert table.heads == ("", "with transfer", "no transfer", "no transfer / with transfer")
    rows = {row[0]: row[1:] for row in table.rows}
    assert " to " in rows["running time"][0]
    assert float(rows["running time"][2]) > 1
    reached = next(row for name, row in rows.items() if name.startswith("time to no transfer's best, in its worst run"))
    assert "runs" not in reached[1]  # each of its own runs has reached that


def test_arms_of_one_policy_are_named_by_what_differs(make_run: Any) -> None:
    runs = [
        of_arm(
            make_run(5, label=f"run-{epochs}"), "no transfer", 0, trained={"epochs": epochs, "code": "0" * 32 + word}
        )
        for epochs, word in ((4, "a"), (8, "b"))
    ]
    assert [arm.label for arm in a.arms_of(runs)] == ["no transfer, epochs 4", "no transfer, epochs 8"]
    assert [arm.policy for arm in a.arms_of(runs)] == ["no transfer, epochs 4", "no transfer, epochs 8"]
    unsaid = [of_arm(make_run(5, label=f"run-{word}"), "no transfer", 0, code=word * 40) for word in "ab"]
    assert [arm.label for arm in a.arms_of(unsaid)] == ["no transfer (run-a)", "no transfer (run-b)"]
