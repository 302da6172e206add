"""Strategies that continue trainings: the contract, exact restoring, wrappers, and who can't run them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.runs import identity
from daskevo.search import (
    AsynchronousHalving,
    Deduplicate,
    Failure,
    Filter,
    Hyperband,
    MedianStopping,
    PopulationBasedTraining,
    Random,
    Repeat,
    Replay,
    Report,
    Request,
    Retry,
    Stop,
    Strategy,
    SuccessiveHalving,
    View,
    model_id,
)
from daskevo.search.continuation import Continuing, continuing, rungs
from daskevo.space import Candidate
from daskevo.testing.strategies import CONDITIONAL, MAX, SPACE, TINY, check_strategy
from daskevo.types import VertexId
from tests.search.snapshots import Trained, growing

MAKERS: list[Callable[[], Strategy]] = [
    lambda: SuccessiveHalving(1, 27),
    lambda: SuccessiveHalving(5, 40, eta=2, candidates=20),
    lambda: Hyperband(1, 27),
    lambda: AsynchronousHalving(1, 9),
    lambda: AsynchronousHalving(3, 24, eta=2, keep=3),
    lambda: MedianStopping(2, 8, least=2),
    lambda: PopulationBasedTraining(2, 8, population=6),
    lambda: PopulationBasedTraining(1, 5, population=4, share=0.5, resample=0.0),
    lambda: Retry(AsynchronousHalving(1, 9), attempts=2),
    lambda: Deduplicate(Hyperband(1, 27)),
    lambda: Filter(PopulationBasedTraining(2, 8, population=6), lambda choices: True, "anything"),
]


@pytest.fixture(params=range(len(MAKERS)))
def make(request: pytest.FixtureRequest) -> Callable[[], Strategy]:
    return MAKERS[request.param]


def test_the_contract(make: Callable[[], Strategy]) -> None:
    check_strategy(make)


@pytest.mark.parametrize("make", [make for make in MAKERS if isinstance(make(), Continuing)])
def test_settings_make_the_same_strategy_again(make: Callable[[], Strategy]) -> None:
    strategy = make()
    again = type(strategy)(**strategy.settings)
    assert (again.name, again.settings) == (strategy.name, strategy.settings)


@settings(max_examples=40, deadline=None)
@given(
    maker=st.sampled_from(MAKERS),
    space=st.sampled_from([SPACE, CONDITIONAL, TINY]),
    seed=st.integers(0, 1000),
    workers=st.integers(1, 5),
    events=st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from([0.1, 0.5, 0.5, 0.9, None]), st.sampled_from(["", "", "", "cut", "dup"])
        ),
        min_size=60,
        max_size=60,
    ),
)
def test_a_run_goes_on_exactly_whatever_comes(
    maker: Callable[[], Strategy],
    space: object,
    seed: int,
    workers: int,
    events: list[tuple[int, float | None, str]],
) -> None:
    """Reports in any order, ties, failures and duplicates, cut anywhere: the same is asked, nobody waits for ever."""
    whole, cut = (Trained(maker(), space, seed=seed) for _ in range(2))
    for place, quality, what in events:
        for run in (whole, cut):
            run.ask(workers - len(run.pending))
            assert run.pending or run.stop, "nothing under way, and nothing to be asked for"
            if not run.pending:
                break
            request = run.pending[place % len(run.pending)]
            if what == "dup" and request.continues is None:
                run.tell(request, 0.9, "duplicate")
            else:
                run.train(request, lambda candidate, step: None if quality is None else quality + step)  # noqa: B023
        if what == "cut":
            cut.go_on_with(maker())
    assert whole.requests == cut.requests
    assert whole.left == cut.left
    assert whole.strategy.population() == cut.strategy.population()
    assert not set(whole.left) & set(whole.strategy.population())


def test_a_small_space_is_trained_to_its_end(make: Callable[[], Strategy]) -> None:
    run = Trained(make(), TINY)
    run.finish(growing, at_once=3)
    assert run.stop is not None
    assert run.stop.reason == "exhausted"
    begun = [request.candidate for request in run.requests if request.continues is None]
    assert len(begun) == len(set(begun))
    # Clones are candidates too.
    assert len(run.asked) == 8


def test_all_failing_goes_on_with_new_candidates(make: Callable[[], Strategy]) -> None:
    run = Trained(make())
    for _ in range(60):
        (request,) = run.ask()
        assert request.continues is None or isinstance(run.strategy, Retry)
        run.train(request, lambda candidate, step: None)
    assert run.strategy.population() == []


def test_a_request_that_continues_is_stored() -> None:
    request = Request(3, model_id("m", 3), Candidate((1, 2)), ancestor=None, continues=model_id("m", 1), until_step=9)
    assert Request.from_json(request.to_json()) == request
    older = {name: value for name, value in request.to_json().items() if name != "continues"}
    assert Request.from_json(older).continues is None


def test_what_continues_another_model_computes_something_else() -> None:
    vertices = [VertexId(bytes(16))]
    one, other, none = (
        Request(number, model_id("m", number), Candidate((1,)), continues=name, until_step=9)
        for number, name in enumerate([model_id("m", 7), model_id("m", 8), None])
    )
    assert len({identity(request, vertices) for request in (one, other, none)}) == 3
    assert identity(none, vertices) == identity(Request(9, model_id("m", 9), Candidate((2,)), until_step=9), vertices)


def test_a_lost_trainer_s_part_is_asked_for_again_and_no_other() -> None:
    run = Trained(Retry(AsynchronousHalving(1, 9)))
    for _ in range(3):
        run.train(run.ask()[0], growing)
    (first,) = run.ask()
    assert first.continues is not None
    run.tell(first, None, "failed", "trainer lost")
    (again, other) = run.ask(2)
    assert (again.candidate, again.continues, again.until_step) == (first.candidate, first.continues, 3)
    assert other.continues is None
    run.train(again, growing)
    assert first.continues in run.left
    assert again.model_id in run.strategy.population()


class Twins(Random):
    """Asks for one candidate twice, to continue two models."""

    def ask(self, view: View) -> list[Request] | Stop:
        twins = [model_id("run", 8), model_id("run", 9)][view.next_number :][: view.wanted]
        return [
            view.request(offset, Candidate((0,) * 5), continues=name, until_step=9) for offset, name in enumerate(twins)
        ]


def test_one_of_two_parts_of_the_same_candidate_is_tried_again_while_the_other_is_under_way() -> None:
    strategy = Retry(Twins())
    strategy.start(SPACE, (MAX,), 0)
    first, other = answered = strategy.ask(View(2, 0, "run", []))
    assert isinstance(answered, list)
    lost = Report(first.number, first.model_id, "failed", failure=Failure("trainer lost", ""))
    strategy.tell(first, lost)
    again = strategy.ask(View(1, 2, "run", [], [other]))
    assert isinstance(again, list)
    assert [(request.number, request.continues) for request in again] == [(2, first.continues)]


def test_a_filter_lets_candidates_go_on_and_refuses_clones_that_fail_its_test() -> None:
    small = Filter(
        PopulationBasedTraining(1, 4, population=5, share=0.4, resample=1.0, rounds=1),
        lambda choices: choices["c0"] < 2,
        "a small c0",
    )
    run = Trained(small, seed=2)
    run.finish(growing)
    assert any(request.parent for request in run.requests)
    assert all(request.candidate.values[0] < 2 for request in run.requests)
    assert sum(request.until_step == 4 for request in run.requests) == 5


def test_repeating_what_continues_is_refused() -> None:
    with pytest.raises(InvalidInput, match="repeat a strategy that trains each candidate in one piece"):
        Repeat(Retry(Hyperband(1, 9)))
    assert continuing(Retry(Random())) is None


def test_a_replay_continues_the_models_of_its_own_run() -> None:
    run = Trained(SuccessiveHalving(1, 9, rounds=1))
    run.finish(growing, at_once=4)
    reports = [report for _, report in run.told]
    again = Trained(Replay(run.requests, reports), seed=9)
    while again.stop is None:
        for request in again.ask(3):
            again.train(request, growing)
    known = {told.model_id: replayed.model_id for (told, _), replayed in zip(run.told, again.requests, strict=True)}
    assert [request.continues and known[request.continues] for request, _ in run.told] == [
        request.continues for request in again.requests
    ]
    assert [request.until_step for request, _ in run.told] == [request.until_step for request in again.requests]
    with pytest.raises(InvalidInput, match=r"continued run-000.*has not trained"):
        Replay(run.requests, reports[9:])


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (SuccessiveHalving, {"first": 1, "most": 80}),
        (SuccessiveHalving, {"first": 0, "most": 9}),
        (SuccessiveHalving, {"first": 9, "most": 3}),
        (SuccessiveHalving, {"first": 1, "most": 9, "eta": 1}),
        (SuccessiveHalving, {"first": 1.0, "most": 9}),
        (SuccessiveHalving, {"first": 1, "most": 9, "candidates": 0}),
        (SuccessiveHalving, {"first": 1, "most": 9, "rounds": 0}),
        (Hyperband, {"first": 2, "most": 81}),
        (AsynchronousHalving, {"first": 1, "most": 9, "candidates": 0}),
        (AsynchronousHalving, {"first": 1, "most": 9, "keep": 0}),
        (MedianStopping, {"every": 2, "most": 5}),
        (MedianStopping, {"every": 0, "most": 5}),
        (MedianStopping, {"every": 1, "most": 5, "least": 0}),
        (PopulationBasedTraining, {"every": 2, "most": 5}),
        (PopulationBasedTraining, {"every": 1, "most": 5, "population": 4}),
        (PopulationBasedTraining, {"every": 1, "most": 5, "share": 0.6}),
        (PopulationBasedTraining, {"every": 1, "most": 5, "resample": 2}),
        (PopulationBasedTraining, {"every": 1, "most": 5, "only": "rate"}),
    ],
)
def test_impossible_settings(kind: type, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        kind(**arguments)


def test_what_may_change_must_be_in_the_space() -> None:
    with pytest.raises(InvalidInput, match=r"no choices .'rate'"):
        PopulationBasedTraining(1, 5, only=["rate", "c0"]).start(SPACE, (MAX,), 0)


def test_the_message_says_which_steps_are_possible() -> None:
    with pytest.raises(InvalidInput, match="at 27 and 81 and not at most=80"):
        rungs(1, 80, 3)
