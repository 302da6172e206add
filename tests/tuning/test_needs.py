"""Which snapshots are needed as trials come and go: what the stage tree would begin with, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daskevo.tuning import (
    Change,
    Configuration,
    Constant,
    Promises,
    SearchPlan,
    State,
    Trajectory,
    begun_with,
    changes_of_kind,
    concatenate,
    needed_snapshots,
    stage_tree,
)
from tests.tuning.drawn import CONFIGURATIONS

ONE = Trajectory("m", Configuration({"lr": Constant(0.1)}))
TWO = Trajectory("m", Configuration({"lr": concatenate(Constant(0.1), (100, Constant(0.2)))}))


@given(
    st.lists(st.tuples(CONFIGURATIONS, st.integers(1, 16)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 16)), max_size=8),
)
def test_needed_is_what_the_stages_begin_with(
    asked: list[tuple[Configuration, int]], stored: list[tuple[int, int]]
) -> None:
    plan = SearchPlan()
    trajectories = [Trajectory("m", configuration) for configuration, _ in asked]
    for number, (trajectory, (_, step)) in enumerate(zip(trajectories, asked, strict=True)):
        plan.request(number, trajectory, step)
    for number, step in stored:
        plan.saved(plan.locate(trajectories[number % len(trajectories)], step), f"{number}-{step}")
    sources = {stage.source for stage in stage_tree(plan).stages if stage.ready and stage.source is not None}
    assert needed_snapshots(plan).keys() == sources
    assert begun_with(plan, Promises()) == set(needed_snapshots(plan).values())


def test_kinds_change_as_trials_come_and_go() -> None:
    plan = SearchPlan()
    plan.request("one", ONE, 300)
    for step in (50, 100, 150):
        plan.saved(plan.locate(ONE, step), f"s{step}")
    kinds = {"s50": "request", "s100": "request", "s150": "cache", "of another study": "request"}
    assert changes_of_kind(plan, kinds) == [  # type: ignore[arg-type]
        Change("s150", "request"),
        Change("s50", "cache"),
        Change("s100", "cache"),
        Change("of another study", "cache"),
    ]
    # A trial that parts at 100 needs that one again.
    plan.request("two", TWO, 200)
    assert set(needed_snapshots(plan).values()) == {"s100", "s150"}
    plan.withdraw("one")
    assert set(needed_snapshots(plan).values()) == {"s100"}
    plan.measured(plan.locate(TWO, 200), {"accuracy": 0.5})
    assert needed_snapshots(plan) == {}
    assert changes_of_kind(plan, {"s50": "cache", "s100": "cache"}) == []


def test_what_somebody_may_go_on_from_is_held() -> None:
    plan = SearchPlan()
    plan.saved(plan.locate(ONE, 50), "s50")
    plan.saved(plan.locate(ONE, 100), "s100")
    paused = plan.locate(TWO, 130)
    assert needed_snapshots(plan, [paused]) == {State(0, 100): "s100"}
    assert needed_snapshots(plan, [plan.locate(ONE, 50)]) == {State(0, 50): "s50"}
    plan.gone(State(0, 100))
    assert needed_snapshots(plan, [paused]) == {State(0, 50): "s50"}
    assert needed_snapshots(plan, [plan.locate(ONE, 30)]) == {}


def test_what_running_work_would_begin_again_with_may_go() -> None:
    plan = SearchPlan()
    plan.request("one", ONE, 300)
    for step in (50, 150):
        plan.saved(plan.locate(ONE, step), f"s{step}")
    running = Promises({0: {300}}, {State(0, 300)})
    assert set(needed_snapshots(plan).values()) == {"s150"}
    assert begun_with(plan, running) == set()
    # A trial that parts before it begins with the other; what is held, with what there is of it.
    plan.request("two", TWO, 200)
    assert begun_with(plan, running) == {"s50"}
    assert begun_with(plan, running, [plan.locate(ONE, 160), plan.locate(ONE, 300)]) == {"s50", "s150"}
