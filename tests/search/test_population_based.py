"""Population based training: who clones whom, clones near the best, exact steps, failures, a known optimum by steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from daskevo.search import PopulationBasedTraining, Request
from daskevo.search.perturbation import perturbed
from daskevo.space import Candidate, Choice, Space
from daskevo.testing.strategies import CONDITIONAL, SPACE
from tests.search.snapshots import Trained, growing, value

RATES = Space("rates", (Choice("rate", tuple(range(10))), Choice("units", (8, 16, 32))))


def swept(run: Trained) -> list[Request]:
    """Train all that there is to train, the best first: when the worst end, all others have come as far."""
    asked = run.ask(20)
    for request in sorted(asked, key=lambda request: -value(request.candidate)):
        run.train(request, lambda candidate, step: 10_000.0 * step + value(candidate))
    return asked


def test_the_worst_clone_the_best_and_the_others_go_on() -> None:
    run = Trained(PopulationBasedTraining(2, 20, population=10, share=0.2), seed=3)
    first = run.ask(20)
    assert [request.until_step for request in first] == [2] * 10
    ranked = sorted(first, key=lambda request: value(request.candidate))
    # The best are known when the worst come.
    for request in reversed(ranked):
        run.train(request, growing)
    second = run.ask(20)
    assert len(second) == 10
    clones = {request.number: request for request in second if request.parent is not None}
    assert len(clones) == 2
    for clone in clones.values():
        assert clone.parent == clone.continues
        assert clone.continues in {request.model_id for request in ranked[-2:]}
    assert {request.model_id for request in ranked[:2]} <= set(run.left)
    assert {request.continues for request in second if request.parent is None} == {
        request.model_id for request in ranked[2:]
    }
    assert {request.until_step for request in second} == {4}


def test_steps_are_those_of_the_population() -> None:
    """Whoever is cloned has come as far: as many steps as members times steps, each part once."""
    run = Trained(PopulationBasedTraining(3, 12, population=8, share=0.25, rounds=2))
    for _ in range(8):
        assert len(swept(run)) == 8
    assert run.ask(20) == []
    assert run.stop is not None
    assert run.stop.reason == "done"
    assert run.trained == 2 * 8 * 12
    assert run.anew == 2 * 8 * (3 + 6 + 9 + 12)
    assert run.strategy.population() == []
    assert sum(request.parent is not None for request in run.requests) >= 4
    assert len(run.left) == 2 * 8 * 4


def test_models_that_are_cloned_stay_until_the_clone_is_there() -> None:
    run = Trained(PopulationBasedTraining(1, 9, population=5, share=0.4), seed=1)
    for _ in range(300):
        run.ask(3 - len(run.pending))
        # `Trained.ask` holds that what is continued is there; here the youngest ends first.
        run.train(run.pending[-1], growing)
        assert {request.continues for request in run.pending if request.continues} <= set(run.strategy.population())
        assert len(run.strategy.population()) <= 2 * 5 + 1


def test_nobody_clones_an_equal() -> None:
    run = Trained(PopulationBasedTraining(1, 4, population=5, rounds=1))
    run.finish(lambda candidate, step: 1.0, at_once=5)
    assert all(request.parent is None for request in run.requests)
    assert run.trained == 20


def test_a_straggler_keeps_nobody_waiting() -> None:
    run = Trained(PopulationBasedTraining(1, 6, population=5), seed=4)
    straggler = run.ask(5)[0]
    for _ in range(10):
        run.train(next(request for request in run.pending if request is not straggler), growing)
        assert len(run.ask()) == 1


def test_who_failed_clones_one_of_the_best() -> None:
    run = Trained(PopulationBasedTraining(1, 4, population=5), seed=5)
    five = run.ask(5)
    for request in five[:4]:
        run.train(request, growing)
    best = max(five[:4], key=lambda request: value(request.candidate))
    run.train(five[4], lambda candidate, step: None)
    following = run.ask(10)
    assert len(following) == 5
    assert (following[-1].continues, following[-1].parent) == (best.model_id, best.model_id)
    # A member that fails later is no member any more.
    own = following[0]
    run.train(own, lambda candidate, step: None)
    (clone,) = run.ask()
    assert clone.parent is not None
    for request in list(run.pending):
        run.train(request, growing)
    assert own.continues in run.left


def fixed(figure: float) -> Callable[[Candidate, int], float]:
    return lambda candidate, step: figure


def test_a_member_counts_as_it_was_until_its_clone_is_reported() -> None:
    """Of five, who has four better ones clones: a member that is replaced is one of these, for as long as it takes."""
    for reported in (False, True):
        run = Trained(PopulationBasedTraining(1, 9, population=5))
        five = run.ask(5)
        for figure, request in zip((5.0, 4.0, 3.0, 2.0, 1.0), five, strict=True):
            run.train(request, fixed(figure))
        following = run.ask(5)
        assert [request.parent for request in following] == [None] * 4 + [five[0].model_id]
        if reported:
            # The clone is worse than all, and cloned again: what it was before counts no more.
            run.train(following[4], fixed(0.1))
        run.train(following[3], fixed(0.5))
        assert [request.parent is None for request in run.ask(5)] == ([False, True] if reported else [False])


def test_a_round_ends_when_the_last_member_fails_in_its_last_steps() -> None:
    run = Trained(PopulationBasedTraining(1, 2, population=5))
    for request in run.ask(5):
        run.train(request, growing)
    *most, last = run.ask(5)
    for request in most:
        run.train(request, lambda candidate, step: 2000.0 + value(candidate))
    run.train(last, lambda candidate, step: None)
    assert [(request.continues, request.until_step) for request in run.ask(9)] == [(None, 1)] * 5


def test_before_anybody_has_finished_another_candidate_begins_for_one_that_failed() -> None:
    run = Trained(PopulationBasedTraining(1, 4, population=5, rounds=1))
    five = run.ask(5)
    run.train(five[0], lambda candidate, step: None)
    (sixth,) = run.ask(5)
    assert sixth.continues is None
    run.finish(growing, at_once=5)
    assert sum(request.until_step == 4 for request in run.requests) == 5


def test_a_rate_that_must_fall_is_followed() -> None:
    """The best rate falls with the steps, 9 to 0: whoever keeps one rate gains little, a population follows it."""

    def gain(rate: int, step: int) -> float:
        return 10.0 - abs(rate - (9 - step / 10))

    def play(run: Trained) -> float:
        reached: dict[str, float] = {}
        while run.stop is None:
            for request in run.ask(10 - len(run.pending)):
                assert request.until_step is not None
                before = 0.0 if request.continues is None else reached[request.continues]
                rate = request.candidate.values[0]
                after = before + sum(gain(rate, step) for step in range(request.until_step - 5, request.until_step))
                reached[request.model_id] = after
                run.train(request, lambda candidate, step, after=after: after)  # type: ignore[misc]
        return max(reached.values())

    alone = max(sum(gain(rate, step) for step in range(90)) for rate in range(10))
    found = [
        play(Trained(PopulationBasedTraining(5, 90, population=10, rounds=1), RATES, seed=seed)) for seed in range(5)
    ]
    assert min(found) > alone


def test_only_what_may_change_does() -> None:
    rng = np.random.default_rng(0)
    one = Candidate((5, 1))
    near = [perturbed(RATES, one, rng, resample=0.0) for _ in range(50)]
    assert {candidate.values[0] for candidate in near} == {4, 6}
    assert {candidate.values[1] for candidate in near} == {0, 2}
    assert {perturbed(RATES, one, rng, only=["rate"]).values[1] for _ in range(50)} == {1}
    assert {perturbed(RATES, one, rng, resample=1.0).values[0] for _ in range(200)} == set(range(10))
    assert one not in [perturbed(RATES, one, rng, only=["units"]) for _ in range(100)]
    ends = [perturbed(RATES, Candidate((0, 2)), rng, resample=0.0).values for _ in range(20)]
    assert set(ends) == {(1, 1)}


def test_conditional_candidates_are_perturbed_to_valid_ones() -> None:
    rng = np.random.default_rng(1)
    candidate = CONDITIONAL.sample(rng)
    for _ in range(100):
        candidate = perturbed(CONDITIONAL, candidate, rng)
        CONDITIONAL.check(candidate)


def test_where_all_near_ones_are_rejected_the_candidate_stays() -> None:
    space = Space("one", (Choice("a", (0, 1)),), lambda values: "no" if values["a"] else None)
    assert perturbed(space, Candidate((0,)), np.random.default_rng(0), resample=0.0) == Candidate((0,))


@pytest.mark.parametrize("space", [SPACE, CONDITIONAL], ids=["all alike", "conditional"])
def test_clones_are_candidates_of_the_space(space: object) -> None:
    run = Trained(PopulationBasedTraining(1, 6, population=6, rounds=2), space, seed=6)
    run.finish(lambda candidate, step: float(sum(candidate.values)), at_once=3)
    clones = [request for request in run.requests if request.parent is not None]
    assert clones
    for request in clones:
        run.space.check(request.candidate)
