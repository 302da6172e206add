"""Strategies around strategies: redrawing, filtering, trying again, repeating."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import (
    AgedEvolution,
    Deduplicate,
    Filter,
    Grid,
    Random,
    Repeat,
    Request,
    Retry,
    Stop,
    Strategy,
    View,
)
from daskevo.search.drawing import generator
from daskevo.testing.strategies import CONDITIONAL, MIN, SPACE, TINY, StrategyRun, check_strategy


class Repetitive(Random):
    """Draws without looking at what was asked."""

    name = "repetitive"

    def ask(self, view: View) -> list[Request] | Stop:
        return [
            view.request(offset, self._space.sample(generator(self._seed, view.next_number + offset)))
            for offset in range(view.wanted)
        ]


def few(choices: dict[str, Any]) -> bool:
    return bool(sum(map(int, choices.values())) <= 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Deduplicate(Repetitive()),
        lambda: Repeat(AgedEvolution(population=6, sample=3), times=2),
        lambda: Repeat(Retry(Filter(Deduplicate(Repetitive(keep=4)), lambda choices: True, "anything")), times=2),
        lambda: Retry(Repeat(Random(keep=4), times=2)),
    ],
    ids=["deduplicate", "repeat", "all of them", "retry around repeat"],
)
def test_the_contract(make: Callable[[], Strategy]) -> None:
    check_strategy(make)


def test_names_and_settings_are_nested() -> None:
    strategy = Retry(Filter(Random(keep=7), few, "few"), attempts=2)
    assert strategy.name == "retry(filter(random))"
    filtered = strategy.settings["strategy"]
    assert strategy.settings["attempts"] == 2
    assert (filtered["name"], filtered["settings"]["what"]) == ("filter(random)", "few")
    assert filtered["settings"]["strategy"] == {"name": "random", "settings": {"keep": 7}}


def test_a_filter_whose_test_has_changed_is_another() -> None:
    here = Filter(Random(), few, "few")
    assert here.settings == Filter(Random(), few, "few").settings
    assert here.settings != Filter(Random(), lambda choices: len(choices) < 5, "few").settings


def test_what_repeats_itself_is_asked_once_and_ends() -> None:
    run = StrategyRun(Deduplicate(Repetitive()), TINY)
    run.go(30)
    assert len(run.requests) == len(run.asked) == TINY.size.count
    assert run.stop is not None
    assert run.stop.message == "200 candidates in a row that strategy 'repetitive' asked for: nothing new was found"
    assert [request.number for request in run.requests] == list(range(8))


@pytest.mark.parametrize(
    "within", [Random, pytest.param(Repetitive, marks=pytest.mark.long), Grid, lambda: AgedEvolution(6, 3)]
)
def test_only_what_passes_is_asked_for_and_all_of_it(within: Callable[[], Strategy]) -> None:
    """35 + 35 of 1024 candidates have a sum of at most 4; fewer draws would miss some."""
    run = StrategyRun(Filter(within(), few, "a sum of at most 4", draws=2_000), SPACE)
    run.go(150)
    passing = {candidate for candidate in SPACE.enumerate() if sum(candidate.values) <= 4}
    assert run.asked <= passing
    assert run.asked == passing or (within is Repetitive and len(run.asked) > 0.9 * len(passing))
    assert run.stop is not None
    assert "'a sum of at most 4', which rejected" in run.stop.message


def test_nothing_passes() -> None:
    run = StrategyRun(Filter(AgedEvolution(), lambda choices: False, "the impossible"), SPACE)
    run.go(1)
    assert run.stop is not None
    assert run.stop.message.endswith("'the impossible', which rejected 1024")


@pytest.mark.long
def test_a_filter_sees_options_by_name() -> None:
    run = StrategyRun(Filter(Random(), lambda choices: choices["layers"] == 2, "two layers"), CONDITIONAL)
    run.go(100)
    assert {CONDITIONAL.values(candidate)["layers"] for candidate in run.asked} == {2}
    assert len(run.asked) == 16


def test_a_filter_that_raises_says_for_what() -> None:
    run = StrategyRun(Filter(Random(), lambda choices: choices["depth"] < 3, "not deep"), TINY)
    with pytest.raises(InvalidInput, match=r"'not deep' raised KeyError: 'depth' for the choices \{'c0'"):
        run.ask()


def test_the_budget_of_a_filter_is_not_asked_batch_by_batch() -> None:
    """Three at once are those that one after the other would be, if nothing is heard in between."""
    at_once, apart = (StrategyRun(Filter(AgedEvolution(6, 3), few, "few")) for _ in range(2))
    at_once.ask(3)
    for _ in range(3):
        apart.ask(1)
    assert at_once.requests == apart.requests


def test_a_lost_trainer_is_tried_again_until_it_is_enough() -> None:
    run = StrategyRun(Retry(AgedEvolution(6, 3), attempts=3))
    (first,) = run.ask()
    run.tell(first, None, "failed", "trainer lost")
    (second,) = run.ask()
    assert (second.candidate, second.number, second.model_id) == (first.candidate, 1, "run-00001")
    run.tell(second, None, "failed", "trainer lost")
    third, other = run.ask(2)
    assert third.candidate == first.candidate != other.candidate
    run.tell(third, None, "failed", "trainer lost")
    assert run.ask()[0].candidate != first.candidate
    assert run.strategy.population() == []


def test_what_finishes_at_the_second_try_is_told() -> None:
    run = StrategyRun(Retry(AgedEvolution(6, 3)))
    (first,) = run.ask()
    run.tell(first, None, "failed", "no room")
    (second,) = run.ask()
    run.tell(second, 1.0)
    assert list(run.strategy.population()) == [second.model_id]


def test_a_failure_of_the_candidate_is_not_tried_again() -> None:
    run = StrategyRun(Retry(Random()))
    (first,) = run.ask()
    run.tell(first, None, "failed", "build")
    assert run.ask()[0].candidate != first.candidate


def test_a_resumed_run_tries_again_what_was_to_be_tried() -> None:
    run = StrategyRun(Retry(Random()))
    first, second = run.ask(2)
    run.tell(first, None, "failed", "trainer lost")
    run.go_on_with(Retry(Random()))
    (again,) = run.ask()
    assert again.candidate == first.candidate
    run.go_on_with(Retry(Random()))
    assert run.ask()[0].candidate not in (first.candidate, second.candidate)


def test_an_exhausted_space_waits_for_what_may_be_tried_again() -> None:
    run = StrategyRun(Retry(Random()), TINY)
    requests = run.ask(8)
    assert run.ask() == []
    assert run.stop is None
    run.tell(requests[0], None, "failed", "trainer lost")
    (again,) = run.ask()
    assert again.candidate == requests[0].candidate
    for request in list(run.pending):
        run.tell(request, 1.0)
    assert run.ask() == []
    assert run.stop is not None


def test_the_mean_of_the_repeats_is_told_and_the_best_of_them_stays() -> None:
    told: list[Any] = []

    class Listening(Random):
        def tell(self, request: Any, report: Any) -> None:
            told.append(report)
            super().tell(request, report)

    run = StrategyRun(Repeat(Listening(), times=3))
    requests = run.ask(4)
    assert [request.repeat for request in requests] == [0, 1, 2, 0]
    assert len({request.candidate for request in requests[:3]}) == 1
    assert not any(request.transfer for request in requests)
    run.tell(requests[2], 4.0, size=1.0)
    run.tell(requests[0], 2.0, size=3.0)
    assert set(run.strategy.population()) == {requests[0].model_id, requests[2].model_id}
    assert not told
    run.tell(requests[1], 3.0, size=2.0)
    (report,) = told
    assert (report.quality, report.metrics) == (3.0, {"q": 3.0, "size": 2.0})
    assert (report.model_id, report.number) == (requests[2].model_id, 0)
    assert run.left == [requests[0].model_id, requests[1].model_id]


def test_to_minimise_the_least_of_the_repeats_stays() -> None:
    run = StrategyRun(Repeat(Random(), times=2), objectives=MIN)
    requests = run.ask(2)
    run.tell(requests[0], 1.0)
    run.tell(requests[1], 2.0)
    assert run.left == [requests[1].model_id]


def test_failed_repeats_don_t_count_and_all_failing_is_a_failure() -> None:
    run = StrategyRun(Repeat(Random(), times=2))
    one, two, three, four = run.ask(4)
    run.tell(one, None, "failed")
    run.tell(two, 5.0)
    assert list(run.strategy.population()) == [two.model_id]
    run.tell(three, None, "failed")
    run.tell(four, None, "failed")
    assert list(run.strategy.population()) == [two.model_id]
    assert run.left == []


def test_repeats_are_asked_for_one_by_one_too() -> None:
    run = StrategyRun(Repeat(Random(), times=2))
    run.go(4)
    assert [request.repeat for request in run.requests] == [0, 1, 0, 1]
    assert len(run.asked) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(Random(), 0),
        lambda: Repeat(Random(), 0),
        lambda: Deduplicate(Random(), 0),
        lambda: Filter(Random(), few, ""),
        lambda: Filter(Random(), "few", "few"),
        lambda: Deduplicate(object()),
        lambda: Filter(Retry(Random()), few, "few"),
        lambda: Deduplicate(Filter(Repeat(Random()), few, "few")),
    ],
)
def test_impossible_wrappers(make: Callable[[], Strategy]) -> None:
    with pytest.raises(InvalidInput):
        make()
