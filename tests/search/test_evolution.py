"""Aged evolution: who is a parent, what a child is, who leaves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.search import AgedEvolution
from daskevo.testing.strategies import MAX, MIN, SPACE, TINY, StrategyRun
from daskevo.types import Objective


def changes(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_random_until_the_population_is_full_then_children_with_one_change() -> None:
    run = StrategyRun(AgedEvolution(population=8, sample=4))
    run.go(60)
    by_id = {request.model_id: request for request in run.requests}
    assert all(request.parent is None for request in run.requests[:8])
    children = run.requests[8:]
    assert all(request.parent is not None for request in children)
    for child in children:
        assert child.parent is not None
        assert child.candidate != by_id[child.parent].candidate
        assert changes(child.candidate.values, by_id[child.parent].candidate.values) == 1


def test_those_under_way_count_towards_filling_the_population() -> None:
    run = StrategyRun(AgedEvolution(population=4, sample=2))
    first = run.ask(3)
    run.tell(first[0], 1.0)
    assert [request.parent for request in run.ask(3)] == [None, first[0].model_id, first[0].model_id]


@pytest.mark.parametrize(("objective", "best"), [(MAX, 9.0), (MIN, 1.0)])
def test_the_best_of_the_sample_is_the_parent(objective: Objective, best: float) -> None:
    """With a sample of everybody, the parent is the best of all, in the objective's direction."""
    run = StrategyRun(AgedEvolution(population=5, sample=5), objectives=objective)
    qualities = {}
    for quality in (3.0, 9.0, 1.0, 5.0, 4.0):
        (request,) = run.ask()
        run.tell(request, quality)
        qualities[request.model_id] = quality
    (child,) = run.ask()
    assert qualities[child.parent] == best


def test_equal_qualities_the_younger_is_the_parent() -> None:
    run = StrategyRun(AgedEvolution(population=4, sample=4))
    run.go(4, lambda candidate: 1.0)
    (child,) = run.ask()
    assert child.parent == run.requests[3].model_id


def test_aged_the_oldest_leaves_even_if_it_is_the_best() -> None:
    run = StrategyRun(AgedEvolution(population=3, sample=1))
    for quality in (9.0, 1.0, 2.0, 3.0):
        (request,) = run.ask()
        run.tell(request, quality)
    assert run.left == [run.requests[0].model_id]


@pytest.mark.parametrize(("objective", "leaver"), [(MAX, 1), (MIN, 0)])
def test_worst_the_worst_leaves(objective: Objective, leaver: int) -> None:
    run = StrategyRun(AgedEvolution(population=3, sample=1, rule="worst"), objectives=objective)
    for quality in (9.0, 1.0, 2.0, 3.0):
        (request,) = run.ask()
        run.tell(request, quality)
    assert run.left == [run.requests[leaver].model_id]


def test_worst_a_bad_newcomer_leaves_at_once_and_of_equals_the_older() -> None:
    run = StrategyRun(AgedEvolution(population=2, sample=1, rule="worst"))
    for quality in (5.0, 5.0, 1.0, 5.0):
        (request,) = run.ask()
        run.tell(request, quality)
    assert run.left == [run.requests[2].model_id, run.requests[0].model_id]


def test_a_high_beta_changes_late_choices() -> None:
    def mean_place(beta: float) -> float:
        run = StrategyRun(AgedEvolution(population=5, sample=2, beta=beta))
        run.go(150)
        by_id = {request.model_id: request.candidate.values for request in run.requests}
        places = [
            next(i for i, (a, b) in enumerate(zip(child.candidate.values, by_id[child.parent], strict=True)) if a != b)
            for child in run.requests[5:]
            if child.parent is not None and changes(child.candidate.values, by_id[child.parent]) == 1
        ]
        return sum(places) / len(places)

    assert mean_place(20.0) > mean_place(1.0) + 0.3


@settings(max_examples=30, deadline=None)
@given(
    qualities=st.lists(
        st.one_of(st.floats(0, 1), st.sampled_from([math.nan, math.inf, -math.inf])), min_size=20, max_size=60
    ),
    rule=st.sampled_from(["aged", "worst"]),
    workers=st.integers(1, 5),
    order=st.randoms(use_true_random=False),
)
def test_only_finished_models_are_parents_whatever_the_order(qualities, rule, workers, order) -> None:  # type: ignore[no-untyped-def]
    run = StrategyRun(AgedEvolution(population=5, sample=2, rule=rule))
    good: set[str] = set()
    for quality in qualities:
        for request in run.ask(workers - len(run.pending)):
            assert request.parent is None or request.parent in good
        request = order.choice(run.pending)
        run.tell(request, quality)
        if math.isfinite(quality):
            good.add(request.model_id)
    assert len(run.strategy.population()) == min(5, len(good))
    assert set(run.left) == good - set(run.strategy.population())


def test_mutation_walks_through_a_small_space_to_its_end() -> None:
    run = StrategyRun(AgedEvolution(population=2, sample=1), TINY)
    run.go(20)
    assert len(run.requests) == TINY.size.count


def test_finds_better_candidates_than_random_ones() -> None:
    late: list[int] = []
    for seed in range(4):
        run = StrategyRun(AgedEvolution(population=10, sample=4), seed=seed)
        run.go(150)
        late += [sum(request.candidate.values) for request in run.requests[-30:]]
    # Random ones have 7.5, and a standard deviation of 0.23 in so many.
    assert sum(late) / len(late) > 9
    assert SPACE.size.count == 1024
