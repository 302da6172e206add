"""The search plan against a model that writes every trial out, step by step; what is known is answered at once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.tuning import (
    Configuration,
    Constant,
    Exponential,
    MultiStep,
    SearchPlan,
    State,
    Trajectory,
    concatenate,
    count_steps,
)
from tests.tuning.drawn import CONFIGURATIONS, prefix

TRIALS = st.lists(
    st.tuples(st.builds(Trajectory, st.sampled_from(["one", "one", "two"]), CONFIGURATIONS), st.integers(1, 14)),
    min_size=1,
    max_size=10,
)


def rate(*pieces: tuple[int, float]) -> Trajectory:
    """A trajectory of a learning rate that changes at given steps."""
    (_, first), *later = pieces
    sequence = concatenate(Constant(first), *((step, Constant(value)) for step, value in later))
    return Trajectory("m", Configuration({"lr": sequence}))


@given(TRIALS)
@settings(max_examples=50)
def test_equal_beginnings_have_one_state(trials: list[tuple[Trajectory, int]]) -> None:
    plan = SearchPlan()
    for trajectory, step in trials:
        plan.locate(trajectory, step)
    names: dict[object, State] = {}
    for trajectory, until in trials:
        for step in range(1, until + 1):
            state = plan.locate(trajectory, step)
            assert names.setdefault(prefix(trajectory, step), state) == state == plan.find(trajectory, step)
            assert prefix(plan.trajectory(state), step) == prefix(trajectory, step)
            assert plan.key(state) == trajectory.key(step)
    assert len(set(names.values())) == len(names)
    # What it has does not depend on the order in which it was asked for, though its nodes do.
    for node in plan.nodes:
        assert node.parent is None or plan.nodes[node.parent].start < node.start


@given(TRIALS)
@settings(max_examples=60)
def test_the_tree_only_grows(trials: list[tuple[Trajectory, int]]) -> None:
    plan = SearchPlan()
    before: list[tuple[object, ...]] = []
    for trajectory, step in trials:
        plan.locate(trajectory, step)
        now = [(node.trajectory, node.parent, node.start, node.depth) for node in plan.nodes]
        assert now[: len(before)] == before
        before = now


@given(TRIALS)
@settings(max_examples=50)
def test_unique_steps_are_those_of_all_prefixes(trials: list[tuple[Trajectory, int]]) -> None:
    unique = {prefix(trajectory, step) for trajectory, until in trials for step in range(1, until + 1)}
    counted = count_steps(trials)
    assert counted == (sum(until for _, until in trials), len(unique))
    assert counted == count_steps(reversed(trials))


def test_a_node_is_trained_to_where_its_last_child_begins() -> None:
    assert count_steps([(rate((0, 0.1)), 5), (rate((0, 0.1), (10, 0.2)), 20)]) == (25, 20)


def test_a_trial_that_parts_in_the_middle_of_a_node_leaves_it_as_it_is() -> None:
    plan = SearchPlan()
    assert plan.request("a", rate((0, 0.1), (200, 0.01)), 300).state == (0, 300)
    assert plan.request("b", rate((0, 0.1), (150, 0.02)), 300).state == (1, 300)
    assert plan.request("c", rate((0, 0.1)), 150).state == (0, 150)
    assert [(node.parent, node.start) for node in plan.nodes] == [(None, 0), (0, 150)]
    # Until it parts it is its parent's.
    assert plan.locate(rate((0, 0.1), (150, 0.02)), 150) == (0, 150)
    assert list(plan.path(State(1, 300))) == [(1, 300), (0, 150)]


def test_what_is_known_is_answered_at_once() -> None:
    plan = SearchPlan()
    assert plan.request("a", rate((0, 0.1)), 10) == (State(0, 10), None, None)
    assert plan.request("b", rate((0, 0.1), (20, 0.2)), 10) == (State(0, 10), None, None)
    assert plan.waiters(State(0, 10)) == ("a", "b")
    assert plan.measured(State(0, 10), {"loss": 0.5}) == ("a", "b")
    assert plan.wanted == ()
    assert plan.request("a", rate((0, 0.1), (10, 0.3)), 10).metrics == {"loss": 0.5}
    assert plan.request("c", rate((0, 0.1)), 9).metrics is None
    assert plan.request("d", rate((0, 0.1)), 11).metrics is None


def test_who_goes_waits_no_longer() -> None:
    plan = SearchPlan()
    plan.request("a", rate((0, 0.1)), 10)
    plan.request("b", rate((0, 0.1)), 10)
    with pytest.raises(InvalidInput, match="'a' waits"):
        plan.request("a", rate((0, 0.1)), 20)
    assert plan.withdraw("a") == State(0, 10)
    assert plan.withdraw("a") is None
    assert plan.wanted == (State(0, 10),)
    assert plan.measured(State(0, 10), {}) == ("b",)
    plan.request("a", rate((0, 0.1)), 20)
    assert plan.withdraw("a") == State(0, 20)
    assert plan.wanted == ()


def test_a_failure_is_everybodys_who_comes_after_it() -> None:
    plan = SearchPlan()
    before, at, after = (plan.request(step, rate((0, 0.1)), step).state for step in (5, 10, 15))
    plan.request("child before", rate((0, 0.1), (7, 0.2)), 30)
    plan.request("child after", rate((0, 0.1), (12, 0.2)), 30)
    waited = plan.failed(at, "not finite")
    assert waited == {10: at, 15: after, "child after": State(2, 30)}
    assert plan.wanted == (before, State(1, 30))
    assert plan.request("later", rate((0, 0.1), (11, 0.3)), 12).failure == "not finite"
    assert plan.request("again", rate((0, 0.1)), 10).failure == "not finite"
    assert plan.request("earlier", rate((0, 0.1)), 9).failure is None


def test_a_failure_of_the_moment_is_forgotten() -> None:
    plan = SearchPlan()
    state = plan.request("a", rate((0, 0.1)), 10).state
    assert plan.failed(state, "lost", lasting=False) == {"a": state}
    assert plan.request("a", rate((0, 0.1)), 10).failure is None


def test_a_plan_made_again_of_what_is_stored_has_the_same_states() -> None:
    """Whatever the order: requests from the run's record, snapshots and metrics from the repository."""
    trials = [(rate((0, 0.1), (step, 0.2)), until) for step, until in [(5, 9), (7, 9), (5, 20), (7, 8)]]
    kept = [(rate((0, 0.1)), 5, "s5"), (rate((0, 0.1), (5, 0.2)), 9, "s9")]
    seen = set()
    for order in itertools.permutations(range(4)):
        plan = SearchPlan()
        for number in order:
            plan.request(number, *trials[number])
        for trajectory, step, name in kept:
            plan.saved(plan.locate(trajectory, step), name)
        places = [(State(node.number, step), name) for node in plan.nodes for step, name in node.snapshots.items()]
        found = {(plan.key(state), name) for state, name in places}
        seen.add(frozenset([*found, *(plan.key(state) for state in plan.wanted)]))
    assert len(seen) == 1


@pytest.mark.parametrize("step", [0, -1, 2.5, True])
def test_a_request_for_no_step_is_refused(step: object) -> None:
    with pytest.raises(InvalidInput):
        SearchPlan().request("a", rate((0, 0.1)), step)  # type: ignore[arg-type]


def test_values_that_are_no_numbers_are_refused_when_they_are_asked_for() -> None:
    plan = SearchPlan()
    grown = Trajectory("m", Configuration({"lr": Exponential(1.0, 2.0)}))
    alike = Trajectory("m", Configuration({"lr": concatenate(Exponential(1.0, 2.0), (1000, Constant(1.0)))}))
    plan.request("a", grown, 1000)
    plan.request("b", alike, 2000)
    with pytest.raises(InvalidInput, match="at step 1024"):
        plan.request("c", grown, 1025)
    with pytest.raises(InvalidInput, match="at step 1024"):
        SearchPlan().request("c", grown, 1025)
    assert plan.request("c", grown, 1024).state == (0, 1024)
    child = Trajectory("m", Configuration({"lr": concatenate(Exponential(1.0, 2.0), (500, Exponential(1.0, 4.0)))}))
    with pytest.raises(InvalidInput, match="at step 1012"):
        plan.request("d", child, 1100)
    # It is equal to the first node's trajectory further than anything was asked of that.
    later = Trajectory("m", Configuration({"lr": concatenate(Exponential(1.0, 2.0), (1100, Constant(1.0)))}))
    with pytest.raises(InvalidInput, match="at step 1024"):
        plan.request("e", later, 1200)
    assert len(plan.nodes) == 2


def test_nodes_may_lie_deep_below_one_another() -> None:
    """Each trial parts from the one before a step later."""
    plan = SearchPlan()
    depth = 100
    for number in range(depth):
        signs = MultiStep(1.0, tuple(range(1, number + 1)), -1.0)
        plan.request(number, Trajectory("m", Configuration({"lr": signs})), depth + 1)
    assert len(plan.nodes) == depth
    assert plan.nodes[-1].depth == depth - 1
    assert len(list(plan.path(plan.wanted[-1]))) == depth
