"""Every strategy: numbering, no repetition, exhaustion, exact restoring, failures that never matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.search import (
    AgedEvolution,
    AsynchronousHalving,
    Deduplicate,
    Filter,
    Grid,
    MultiObjectiveEvolution,
    NonAgedEvolution,
    Random,
    Reinforce,
    Report,
    Request,
    Retry,
    Stop,
    Strategy,
    View,
    usable,
)
from daskevo.search.wrapper import Wrapper
from daskevo.space import Builder, Choice, Choose, Space
from daskevo.testing.strategies import TINY, StrategyRun, check_strategy
from daskevo.types import ModelId

MAKERS: list[Callable[[], Strategy]] = [
    lambda: Random(keep=4),
    lambda: Random(keep=4, over="candidates"),
    lambda: AgedEvolution(population=6, sample=3),
    lambda: NonAgedEvolution(population=6, sample=3, beta=4.0, crossover=0.5),
    lambda: Grid(order="shuffled", keep=4),
    lambda: MultiObjectiveEvolution(population=6),
    lambda: Reinforce(context=True, keep=4),
    lambda: Deduplicate(AgedEvolution(population=6, sample=3)),
    lambda: Filter(NonAgedEvolution(population=6, sample=3), lambda choices: True, "anything"),
    lambda: Retry(AgedEvolution(population=6, sample=3), attempts=2),
]


@pytest.fixture(params=range(len(MAKERS)))
def make(request: pytest.FixtureRequest) -> Callable[[], Strategy]:
    return MAKERS[request.param]


def test_the_contract(make: Callable[[], Strategy]) -> None:
    check_strategy(make)


class Remembering(Random):
    """Breaks the contract: what it asks depends on how often it was asked."""

    def ask(self, view: View) -> list[Request] | Stop:
        self._seed += 1
        return super().ask(view)


class Unending(Random):
    """Breaks the contract: asks for the last candidate again where there is no other."""

    def ask(self, view: View) -> list[Request] | Stop:
        answer = super().ask(view)
        return [view.request(0, next(iter(view.asked)))] if isinstance(answer, Stop) else answer


class Upwards(AgedEvolution):
    """Breaks the contract: takes larger figures for better ones."""

    def _standing(self, member: Any) -> tuple[float, int]:
        return member.quality, member.number


class Careless(AgedEvolution):
    """Breaks the contract: takes failures for results."""

    def tell(self, request: Request, report: Report) -> None:
        super().tell(
            request, replace(report, status="finished", quality=report.quality if usable(report.quality) else 0.0)
        )


class Forgetting(AsynchronousHalving):
    """Breaks the contract: lets go of what it continues."""

    def population(self) -> list[ModelId]:
        return []


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda: Forgetting(1, 9), "must be kept"),
        (Remembering, "go on exactly"),
        (Careless, "must not enter"),
        (Unending, "must stop"),
        (lambda: Upwards(population=5, sample=3), "to minimise"),
        (object, "Protocol"),
    ],
)
def test_the_contract_can_be_broken(broken: Callable[[], Strategy], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_strategy(broken)


def test_same_seed_same_requests(make: Callable[[], Strategy]) -> None:
    runs = [StrategyRun(make(), seed=3), StrategyRun(make(), seed=3), StrategyRun(make(), seed=4)]
    for run in runs:
        run.go(40)
    assert runs[0].requests == runs[1].requests
    assert runs[0].requests != runs[2].requests


def test_a_strategy_started_again_remembers_nothing(make: Callable[[], Strategy]) -> None:
    strategy = make()
    first = StrategyRun(strategy, seed=1)
    first.go(20)
    second = StrategyRun(strategy, seed=1)
    second.go(20)
    assert first.requests == second.requests


def test_no_candidate_is_asked_twice_and_an_exhausted_space_stops(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make(), TINY)
    run.go(30)
    assert len(run.requests) == TINY.size.count == len(run.asked)
    assert run.stop is not None
    assert run.stop.reason == "exhausted"
    assert "8" in run.stop.message


@pytest.mark.parametrize("make", [Random, AgedEvolution])
def test_a_space_that_rejects_all_says_why(make: Callable[[], Strategy]) -> None:
    def build(choose: Choose) -> None:
        choose("units", (8, 16))
        raise CandidateRejected("kernel beyond input")

    run = StrategyRun(make(), Builder("none", build))
    run.go(2)
    assert run.stop is not None
    assert "0 of its 0 candidates" in run.stop.message
    assert "kernel beyond input" in run.stop.message
    with pytest.raises(CandidateRejected, match="kernel beyond input"):
        StrategyRun(Random(over="candidates"), Builder("none", build))


def test_conditional_spaces_are_walked_to_their_end(make: Callable[[], Strategy]) -> None:
    def build(choose: Choose) -> None:
        for number in range(choose("layers", (1, 2))):
            if choose(f"kind {number}", ("dense", "none")) == "dense":
                choose(f"units {number}", (8, 16, 32))

    run = StrategyRun(make(), Builder("few", build))
    run.go(30)
    assert len(run.requests) == len(run.asked) == 4 + 4**2


def test_where_most_mutations_are_invalid_it_ends_with_all_that_there_are(make: Callable[[], Strategy]) -> None:
    """8 valid candidates of 256, each with a single one a mutation apart."""

    def reject(choices: dict[str, Any]) -> str | None:
        return None if choices["a"] == choices["b"] == choices["c"] and choices["d"] < 2 else "not alike"

    space = Space("sparse", (*(Choice(name, (0, 1, 2, 3)) for name in "abcd"),), reject)
    run = StrategyRun(make(), space)
    for _ in range(24):
        for request in run.ask(2):
            run.tell(request, 1.0)
    assert len(run.requests) == len(run.asked) == 8
    assert run.stop is not None
    assert run.stop.reason == "exhausted"


@settings(max_examples=25, deadline=None)
@given(
    maker=st.sampled_from(MAKERS),
    seed=st.integers(0, 1000),
    cut=st.integers(0, 30),
    workers=st.integers(1, 4),
    qualities=st.lists(st.sampled_from([0.1, 0.5, 0.9, math.nan, math.inf, None]), min_size=30, max_size=30),
)
def test_restoring_is_exact(
    maker: Callable[[], Strategy], seed: int, cut: int, workers: int, qualities: list[float | None]
) -> None:
    """Cut a run anywhere, go on with another one that was told the same: it asks as the run that was not cut."""
    whole, cut_run = StrategyRun(maker(), seed=seed), StrategyRun(maker(), seed=seed)
    for step, quality in enumerate(qualities):
        for run in (whole, cut_run):
            run.ask(workers - len(run.pending))
            usable = quality is not None and math.isfinite(quality)
            run.tell(run.pending[0], quality, "finished" if usable else "failed")
        if step == cut:
            cut_run.go_on_with(maker())
    assert whole.requests == cut_run.requests
    assert whole.left == cut_run.left
    assert whole.strategy.population() == cut_run.strategy.population()


@pytest.mark.parametrize("quality", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("status", ["finished", "failed"])
def test_unusable_qualities_never_enter_and_push_nobody_out(
    make: Callable[[], Strategy], quality: float | None, status: Literal["finished", "failed"]
) -> None:
    run = StrategyRun(make())
    run.go(3)
    before = run.strategy.population()
    for request in run.ask(10):
        run.tell(request, quality, status)
    assert run.strategy.population() == before
    assert run.left == []


def test_duplicates_do_not_enter_the_population(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make())
    run.go(3)
    before = run.strategy.population()
    (request,) = run.ask()
    run.tell(request, 99.0, "duplicate")
    assert run.strategy.population() == before


def test_all_failing_goes_on_with_random_candidates(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make())
    for _ in range(30):
        (request,) = run.ask()
        assert request.parent is None
        run.tell(request, None, "failed")


def test_population_keeps_its_size_and_everyone_else_leaves_once(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make())
    run.go(60)
    finished = [request.model_id for request in run.requests]
    assert sorted([*run.strategy.population(), *run.left]) == sorted(finished)


def test_settings_are_what_they_are_made_with() -> None:
    evolution = {"population": 7, "sample": 2, "beta": 3.0, "crossover": 0.5}
    assert AgedEvolution(7, 2, 3, "worst", 0.5).settings == {**evolution, "rule": "worst"}
    assert Random(None).settings == {"keep": None}  # as runs were recorded with before there was `over`
    assert Random(None, "candidates").settings == {"keep": None, "over": "candidates"}


@pytest.mark.parametrize("make", [make for make in MAKERS if not isinstance(make(), Wrapper)])
def test_settings_make_the_same_strategy_again(make: Callable[[], Strategy]) -> None:
    strategy = make()
    again = type(strategy)(**strategy.settings)
    assert (again.name, again.settings) == (strategy.name, strategy.settings)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (AgedEvolution, {"population": 0}),
        (AgedEvolution, {"sample": 0}),
        (AgedEvolution, {"population": 3, "sample": 4}),
        (AgedEvolution, {"beta": 0}),
        (AgedEvolution, {"beta": math.nan}),
        (AgedEvolution, {"rule": "best"}),
        (AgedEvolution, {"crossover": 1.5}),
        (NonAgedEvolution, {"crossover": math.nan}),
        (Random, {"keep": 0}),
        (Random, {"over": "models"}),
        (Grid, {"order": "up"}),
        (Grid, {"most": 0}),
        (MultiObjectiveEvolution, {"population": 0}),
        (Reinforce, {"learning_rate": 0}),
        (Reinforce, {"learning_rate": math.inf}),
        (Reinforce, {"entropy": -1}),
        (Reinforce, {"memory": 1}),
    ],
)
def test_impossible_settings(kind: type, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        kind(**arguments)


def test_random_over_candidates_draws_long_ones_as_often_as_there_are() -> None:
    """Of 3 + 9 candidates those with one layer: a half of the draws over choices, a quarter over candidates."""

    def build(choose: Choose) -> None:
        for number in range(choose("layers", (1, 2))):
            choose(f"units {number}", (8, 16, 32))

    def first(over: Any) -> int:
        runs = [StrategyRun(Random(over=over), Builder("chains", build), seed=seed) for seed in range(400)]
        return sum(len(run.ask()[0].candidate.values) == 2 for run in runs)

    assert 165 < first("choices") < 235
    assert 70 < first("candidates") < 130


def test_random_over_candidates_is_refused_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo.space.model_space.LISTED", 300)
    large = Builder("large", lambda choose: [choose(f"c{n}", (0, 1)) for n in range(20)])
    with pytest.raises(InvalidInput, match="can't be uniform over its candidates"):
        StrategyRun(Random(over="candidates"), large)


def test_random_keeps_all_if_asked() -> None:
    run = StrategyRun(Random(keep=None))
    run.go(70)
    assert run.left == []


def test_random_draws_are_uniform() -> None:
    run = StrategyRun(Random())
    run.go(400)
    counts = np.bincount([request.candidate.values[0] for request in run.requests], minlength=4)
    assert counts.min() > 60
