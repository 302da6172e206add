"""Asynchronous halving: against the paper's algorithm written out, nobody waits, exact steps, ties, failures."""

from __future__ import annotations

import random

import pytest

from daskevo.search import AsynchronousHalving, Request
from daskevo.space import Candidate
from tests.search.snapshots import Trained, growing, value

STEPS = (1, 3, 9)


def algorithm_2(run: Trained) -> tuple[str, int] | None:
    """Li et al. 2020, `get_job`: the model to continue and until which step; None for a new candidate."""
    for rung in (1, 0):
        there = [(request, report) for request, report in run.told if request.until_step == STEPS[rung]]
        finished = [(report.quality, -request.number, report.model_id) for request, report in there if report.quality]
        top = sorted(finished, reverse=True)[: len(there) // 3]
        gone_on = {request.continues for request in run.requests}
        for *_, name in top:
            if name not in gone_on:
                return name, STEPS[rung + 1]
    return None


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("fails", [0.0, 0.2])
def test_it_asks_as_the_paper_s_algorithm(workers: int, fails: float) -> None:
    rng = random.Random(f"{workers} {fails}")
    run = Trained(AsynchronousHalving(1, 9, keep=None), seed=workers)

    def quality(candidate: Candidate, step: int) -> float | None:
        return None if rng.random() < fails else growing(candidate, step) + 1

    promotions = 0
    for _ in range(200):
        while len(run.pending) < workers:
            expected = algorithm_2(run)
            (request,) = run.ask()
            assert (request.continues and (request.continues, request.until_step)) == expected
            promotions += expected is not None
        run.train(rng.choice(run.pending), quality)
    assert promotions > 50


def test_several_at_once_are_those_asked_one_by_one() -> None:
    """With the same reports, an answer of many is many answers of one."""
    run, other = (Trained(AsynchronousHalving(1, 9)) for _ in range(2))
    for each in (run, other):
        for request in each.ask(9):
            each.train(request, growing)
    many = run.ask(6)
    assert many == [other.ask()[0] for _ in range(6)]
    assert [request.until_step for request in many] == [3, 3, 3, 1, 1, 1]
    assert [value(request.candidate) for request in many[:3]] == sorted(
        (value(request.candidate) for request in run.requests[:9]), reverse=True
    )[:3]


def test_a_straggler_keeps_nobody_waiting() -> None:
    run = Trained(AsynchronousHalving(1, 9))
    straggler = run.ask(4)[0]
    for _ in range(100):
        assert len(run.pending) == 4
        run.train(next(request for request in run.pending if request is not straggler), growing)
        run.ask()
    assert any(request.until_step == 9 for request in run.requests)


def halved(order: list[float], most: int = 9) -> Trained:
    """A run of so many candidates, one at a time, of these qualities in the order of being asked."""
    run = Trained(AsynchronousHalving(1, most, candidates=len(order)))
    by_candidate: dict[Candidate, float] = {}

    def quality(candidate: Candidate, step: int) -> float:
        return by_candidate.setdefault(candidate, order[len(by_candidate)] if candidate not in by_candidate else 0.0)

    run.finish(quality)
    assert run.stop is not None
    assert run.stop.reason == "done"
    return run


def test_steps_where_the_best_come_first_are_those_of_halving() -> None:
    """27 candidates, the best first: as many rise as in successive halving, and each once."""
    run = halved([float(-number) for number in range(27)], most=27)
    assert [sum(request.until_step == step for request in run.requests) for step in (1, 3, 9, 27)] == [27, 9, 3, 1]
    assert run.trained == 27 + 9 * 2 + 3 * 6 + 18 == 27 * (3 + 3 * 2) // 3
    assert run.anew == 27 * 4


def test_where_each_is_better_than_those_before_almost_all_rise() -> None:
    """What not waiting costs at worst: from the third on, each newcomer is the best of its rung."""
    run = halved([float(number) for number in range(27)])
    assert sum(request.until_step == 3 for request in run.requests) == 25


def test_ties_rise_in_the_order_in_which_they_were_asked() -> None:
    run = Trained(AsynchronousHalving(1, 9))
    nine = run.ask(9)
    for request in nine[::-1]:
        run.train(request, lambda candidate, step: 1.0)
    assert [request.candidate for request in run.ask(3)] == [request.candidate for request in nine[:3]]


def test_who_failed_counts_in_its_rung() -> None:
    run = Trained(AsynchronousHalving(1, 9))
    nine = run.ask(9)
    for request in nine[:7]:
        run.train(request, lambda candidate, step: None)
    run.tell(nine[7], 5.0, "duplicate")
    run.train(nine[8], growing)
    assert [request.candidate for request in run.ask(2) if request.continues] == [nine[8].candidate]


def test_so_many_candidates_begin_and_all_under_way_are_waited_for() -> None:
    run = Trained(AsynchronousHalving(1, 9, candidates=4))
    four = run.ask(9)
    assert len(four) == 4
    for request in four:
        assert run.ask(9) == []
        assert run.stop is None
        run.train(request, growing)
        if len(run.told) == 3:
            (risen,) = run.ask(9)
            assert risen.until_step == 3
    run.train(next(request for request in run.pending if request.continues), growing)
    run.ask()
    # The fourth may be the best of all, and go on too.
    while run.pending:
        run.train(run.pending[0], growing)
        run.ask()
    assert run.stop is not None
    assert "all of 4 candidates have begun" in run.stop.message


def test_waiting_models_are_bounded_and_the_worst_leave() -> None:
    """Each candidate is worse than those before: the three best that wait stay."""
    run = Trained(AsynchronousHalving(1, 9, keep=3))
    order: dict[Candidate, int] = {}

    def falling(candidate: Candidate, step: int) -> float:
        return -float(order.setdefault(candidate, len(order)))

    for _ in range(80):
        run.train(run.ask()[0], falling)
        assert len(run.strategy.population()) <= 2 * 3 + 2
    first: list[Request] = [request for request in run.requests if request.until_step == 1]
    assert first[-1].model_id in run.left
    rising = [request for request in run.requests if request.until_step == 3]
    assert len(rising) >= 4
    for request in rising:
        begun = sum(each.until_step == 1 for each in run.requests[: request.number])
        assert order[request.candidate] < begun // 3
