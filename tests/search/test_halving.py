"""Successive halving and Hyperband: the published numbers, exact steps, the best found, ties, failures."""

from __future__ import annotations

from collections import Counter

import pytest

from daskevo.search import Hyperband, SuccessiveHalving
from daskevo.space import Candidate
from daskevo.testing.strategies import SPACE
from tests.search.snapshots import Trained, growing, value

TABLE = {
    4: [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
    3: [(27, 3), (9, 9), (3, 27), (1, 81)],
    2: [(9, 9), (3, 27), (1, 81)],
    1: [(6, 27), (2, 81)],
    0: [(5, 81)],
}
"""Li et al., table 1, R = 81 and eta = 3: candidates and steps at the rungs of each bracket."""


def counted(run: Trained) -> Counter[tuple[bool, int | None]]:
    return Counter((request.continues is None, request.until_step) for request in run.requests)


def test_hyperband_s_published_table() -> None:
    run = Trained(Hyperband(1, 81, rounds=1))
    run.finish(growing, at_once=10)
    asked = [(request.continues is None, request.until_step) for request in run.requests]
    expected = [
        (rung == 0, step)
        for bracket in TABLE.values()
        for rung, (count, step) in enumerate(bracket)
        for _ in range(count)
    ]
    assert asked == expected
    assert run.stop is not None
    assert run.stop.reason == "done"


def test_hyperband_in_units_of_its_first_rung() -> None:
    run = Trained(Hyperband(40, 360, rounds=2))
    run.finish(growing)
    # R = 9: brackets of (9, 1), (3, 3) and (3, 9), twice.
    assert counted(run) == {
        (True, 40): 18,
        (False, 120): 6,
        (False, 360): 2 * (1 + 1),
        (True, 120): 6,
        (True, 360): 6,
    }


@pytest.mark.parametrize(("first", "eta", "rungs"), [(1, 3, 4), (5, 2, 3), (2, 4, 2), (7, 3, 0)])
def test_steps_are_those_of_the_closed_form(first: int, eta: int, rungs: int) -> None:
    count = eta**rungs
    run = Trained(SuccessiveHalving(first, first * count, eta, rounds=1))
    run.finish(growing, at_once=7)
    assert run.anew == count * first * (1 + rungs)
    assert run.trained * eta == count * first * (eta + rungs * (eta - 1))
    assert len(run.requests) == sum(eta**rung for rung in range(rungs + 1))


def test_the_best_that_began_is_trained_to_the_end() -> None:
    for seed in range(5):
        run = Trained(SuccessiveHalving(1, 27, rounds=1), seed=seed)
        run.finish(growing, at_once=4)
        begun = [request.candidate for request in run.requests if request.continues is None]
        assert [request.candidate for request in run.requests if request.until_step == 27] == [max(begun, key=value)]
        middle = {request.candidate for request in run.requests if request.until_step == 9}
        assert middle == set(sorted(begun, key=value)[-3:])


def test_hyperband_finds_those_that_start_slowly() -> None:
    """Until step 9 the best look worst: halving from step 1 on drops them, a later bracket doesn't."""

    def slow(candidate: Candidate, step: int) -> float:
        return value(candidate) if step >= 9 else -value(candidate)

    def best(run: Trained) -> float:
        run.finish(slow)
        return max(value(request.candidate) for request in run.requests if request.until_step == 27)

    for seed in range(5):
        halving, hyperband = (Trained(make(1, 27, rounds=1), seed=seed) for make in (SuccessiveHalving, Hyperband))
        assert best(halving) < 300
        late = [
            request for request in hyperband.requests if request.continues is None and request.until_step in (9, 27)
        ]
        assert best(hyperband) >= max((value(request.candidate) for request in late), default=0)
        assert best(hyperband) > 600


def test_a_rung_waits_for_all_of_it_and_for_no_more() -> None:
    run = Trained(SuccessiveHalving(1, 9))
    nine = run.ask(20)
    assert len(nine) == 9
    for request in nine[:-1]:
        run.train(request, growing)
        assert run.ask(5) == []
    run.train(nine[-1], growing)
    three = run.ask(2) + run.ask(5)
    assert len(three) == 3
    for request in three[::-1]:
        assert run.ask(5) == []
        run.train(request, growing)
    (last,) = run.ask(5)
    assert last.until_step == 9
    assert run.ask(5) == []
    run.train(last, growing)
    assert len(run.ask(20)) == 9


def test_of_equal_ones_those_asked_first_go_on_whoever_ended_first() -> None:
    run = Trained(SuccessiveHalving(1, 9))
    nine = run.ask(9)
    for request in nine[::-1]:
        run.train(request, lambda candidate, step: 1.0)
    assert [request.candidate for request in run.ask(9)] == [request.candidate for request in nine[:3]]


@pytest.mark.parametrize(("failing", "rise"), [(6, 3), (7, 2), (8, 1)])
def test_who_failed_counts_and_doesn_t_go_on(failing: int, rise: int) -> None:
    run = Trained(SuccessiveHalving(1, 9))
    nine = run.ask(9)
    for place, request in enumerate(nine):
        run.train(request, lambda candidate, step, fails=place < failing: None if fails else growing(candidate, step))
    risen = run.ask(9)
    assert {request.candidate for request in risen} <= {request.candidate for request in nine[failing:]}
    assert len(risen) == rise
    # All of the next rung fail: the bracket is over, and another begins.
    for request in risen:
        run.train(request, lambda candidate, step: None)
    assert [request.until_step for request in run.ask(20)] == [1] * 9


def test_a_duplicate_counts_and_doesn_t_go_on() -> None:
    run = Trained(SuccessiveHalving(1, 9))
    first, *others = run.ask(9)
    for request in others:
        run.train(request, growing)
    run.tell(first, 1e9, "duplicate")
    assert first.candidate not in {request.candidate for request in run.ask(9)}


def test_models_leave_when_they_are_not_to_be_continued() -> None:
    run = Trained(SuccessiveHalving(1, 9))
    nine = run.ask(9)
    for request in nine:
        run.train(request, growing)
    assert set(run.strategy.population()) == {request.model_id for request in nine}
    three = run.ask(9)
    run.train(three[0], growing)
    waiting = {request.continues for request in three[1:]}
    assert set(run.strategy.population()) == {three[0].model_id, *waiting}
    for request in three[1:]:
        run.train(request, growing)
    (last,) = run.ask(9)
    run.train(last, growing)
    assert run.strategy.population() == []
    assert len(run.left) == 13


def test_at_least_one_reaches_the_last_rung() -> None:
    run = Trained(SuccessiveHalving(1, 27, candidates=5, rounds=1), SPACE)
    run.finish(growing)
    assert [request.until_step for request in run.requests] == [1, 1, 1, 1, 1, 3, 9, 27]


def test_those_that_failed_keep_no_places_empty_further_up() -> None:
    """27 begin, 5 of them finish: all 5 go on, then 3 as of 27, though only 5 were there."""
    run = Trained(SuccessiveHalving(1, 27))
    for place, request in enumerate(run.ask(27)):
        run.train(request, lambda candidate, step, fails=place < 22: None if fails else growing(candidate, step))
    sizes = []
    while len(sizes) < 3:
        risen = run.ask(27)
        sizes.append(len(risen))
        for request in risen:
            run.train(request, growing)
    assert sizes == [5, 3, 1]
