"""Stage trees against a model that writes out which steps are to be trained, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.tuning import (
    Configuration,
    Constant,
    Promises,
    SearchPlan,
    StageTree,
    State,
    TrainingStage,
    Trajectory,
    concatenate,
    stage_tree,
)
from tests.tuning.drawn import CONFIGURATIONS, prefix

TRAJECTORIES = st.lists(st.builds(Trajectory, st.just("m"), CONFIGURATIONS), min_size=1, max_size=6)
PLACES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 14)), max_size=6)


def rate(*pieces: tuple[int, float]) -> Trajectory:
    (_, first), *later = pieces
    sequence = concatenate(Constant(first), *((step, Constant(value)) for step, value in later))
    return Trajectory("m", Configuration({"lr": sequence}))


def spans(tree: StageTree) -> list[tuple[int, int, int]]:
    return [(stage.node, stage.start, stage.stop) for stage in tree.stages]


@given(TRAJECTORIES, PLACES, PLACES, PLACES, PLACES)
@settings(max_examples=150)
def test_what_is_needed_is_trained_once_and_saved_where_it_is_needed(
    trajectories: list[Trajectory],
    requests: list[tuple[int, int]],
    stored: list[tuple[int, int]],
    saves: list[tuple[int, int]],
    evaluations: list[tuple[int, int]],
) -> None:
    plan = SearchPlan()

    def located(places: list[tuple[int, int]]) -> set[State]:
        return {plan.locate(trajectories[which % len(trajectories)], step) for which, step in places}

    for waiter, (which, step) in enumerate(requests):
        plan.request(waiter, trajectories[which % len(trajectories)], step)
    for state in located(stored):
        plan.saved(state, "stored")
    promised = located(saves)
    by_node = {state.node: {other.step for other in promised if other.node == state.node} for state in promised}
    promises = Promises(by_node, located(evaluations))
    tree = stage_tree(plan, promises)

    had = {written(plan, state) for state in located(stored) | promised}
    asked = [state for state in plan.wanted if state not in promises.evaluations]
    needed: set[tuple[object, ...]] = set()
    for state in asked:
        step = state.step
        while step > 0 and written(plan, State(state.node, step)) not in had:
            needed.add(written(plan, State(state.node, step)))
            step -= 1
    trained = Counter(written(plan, State(stage.node, step)) for stage in tree.stages for step in steps(stage))
    assert set(trained) == needed
    assert set(trained.values()) <= {1}

    ends = {stage.end: stage for stage in tree.stages}
    for state in asked:
        assert ends[state].evaluate
    assert all(stage.evaluate == (stage.end in asked) for stage in tree.stages)
    # A step with two continuations is where a stage ends, if it is trained: nobody could go on from it otherwise.
    continued = Counter(name[:-1] for name in needed)
    made = {written(plan, end) for end in ends}
    assert all(name in made for name, times in continued.items() if times > 1 and name in needed)
    check_sources(plan, tree, had)
    begun_with = {stage.source for stage in tree.stages if stage.source in promised and not stage.ready}
    assert tree.awaited == begun_with | (set(plan.wanted) - set(asked))


def written(plan: SearchPlan, state: State) -> tuple[object, ...]:
    return prefix(plan.trajectory(state), state.step)


def steps(stage: TrainingStage) -> Iterator[int]:
    return iter(range(stage.start + 1, stage.stop + 1))


def check_sources(plan: SearchPlan, tree: StageTree, had: set[tuple[object, ...]]) -> None:
    """Every stage begins with what is stored, promised, made by its parent, or with an untrained model."""
    for stage in tree.stages:
        if stage.source is None:
            assert stage.start == 0
            assert stage.parent is None
            assert stage.ready
            continue
        assert stage.source.step == stage.start
        assert written(plan, stage.source) == written(plan, State(stage.node, stage.start))
        if stage.parent is None:
            assert written(plan, stage.source) in had
            assert stage.ready == (stage.source.step in plan.nodes[stage.source.node].snapshots)
        else:
            assert stage.parent < stage.number
            assert tree.stages[stage.parent].end == stage.source
            assert stage.number in tree.stages[stage.parent].children
            assert not stage.ready
    assert sum(len(stage.children) for stage in tree.stages) == sum(stage.parent is not None for stage in tree.stages)


def test_where_the_algorithm_as_printed_fails() -> None:
    """Requests of one node at 150 and 200 and a child from 100 on: no stage begins where another one does."""
    plan = SearchPlan()
    plan.request("a", rate((0, 0.1)), 150)
    plan.request("b", rate((0, 0.1)), 200)
    plan.request("c", rate((0, 0.1), (100, 0.2)), 300)
    assert spans(stage_tree(plan)) == [(0, 0, 100), (0, 100, 150), (1, 100, 300), (0, 150, 200)]
    # A snapshot exactly at a request: it has only to be evaluated.
    plan.saved(State(0, 150), "s150")
    tree = stage_tree(plan)
    assert spans(tree) == [(0, 0, 100), (1, 100, 300), (0, 150, 150), (0, 150, 200)]
    assert [(stage.ready, stage.evaluate) for stage in tree.stages] == [
        (True, False),
        (False, True),
        (True, True),
        (True, True),
    ]
    assert [stage.parent for stage in tree.stages] == [None, 0, None, None]


def test_the_paper_s_figure_3_2() -> None:
    """A fifth trial splits stage A2 of the tree of figure 3.1, and nothing else changes."""
    plan = SearchPlan()
    plan.request(1, rate((0, 0.1), (200, 0.02)), 300)
    plan.request(2, rate((0, 0.1), (100, 0.05), (200, 0.01)), 300)
    plan.request(3, rate((0, 0.1), (100, 0.05), (200, 0.02)), 300)
    plan.request(4, rate((0, 0.1), (100, 0.05)), 300)
    before = {(stage.start, stage.stop) for stage in stage_tree(plan).stages}
    assert before == {(0, 100), (100, 300), (100, 200), (200, 300)}
    plan.request(5, rate((0, 0.1), (150, 0.01)), 300)
    assert stage_tree(plan).steps == 850
    starts = sorted((stage.start, stage.stop) for stage in stage_tree(plan).stages)
    assert (100, 150) in starts
    assert (150, 300) in starts


def test_what_is_stored_beyond_a_gap_spares_the_gap() -> None:
    plan = SearchPlan()
    plan.request("a", rate((0, 0.1)), 50)
    plan.request("b", rate((0, 0.1)), 200)
    plan.saved(plan.locate(rate((0, 0.1)), 150), "s150")
    assert spans(stage_tree(plan)) == [(0, 0, 50), (0, 150, 200)]
    plan.gone(State(0, 150))
    assert spans(stage_tree(plan)) == [(0, 0, 50), (0, 50, 200)]


def test_what_a_child_has_stored_spares_its_parent() -> None:
    plan = SearchPlan()
    plan.request("parent", rate((0, 0.1)), 3)
    plan.request("child", rate((0, 0.1), (5, 0.2)), 20)
    plan.saved(State(1, 10), "s10")
    assert spans(stage_tree(plan)) == [(0, 0, 3), (1, 10, 20)]


def test_what_is_promised_is_waited_for() -> None:
    plan = SearchPlan()
    plan.request("a", rate((0, 0.1)), 100)
    plan.request("b", rate((0, 0.1), (100, 0.2)), 150)
    tree = stage_tree(plan, Promises({0: {100}}, {State(0, 100)}))
    assert spans(tree) == [(1, 100, 150)]
    assert not tree.stages[0].ready
    assert tree.awaited == {State(0, 100)}


def test_nothing_asked_is_no_stage() -> None:
    plan = SearchPlan()
    plan.locate(rate((0, 0.1)), 100)
    assert stage_tree(plan) == StageTree((), frozenset())
