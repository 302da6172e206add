"""Strategies that continue trainings, as studies: exact steps, by themselves and with equal steps trained once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from daskevo.search import (
    AsynchronousHalving,
    Hyperband,
    MedianStopping,
    PopulationBasedTraining,
    Strategy,
    SuccessiveHalving,
)
from daskevo.space import Choose
from daskevo.testing.strategies import MIN
from daskevo.tuning import (
    Constant,
    Machine,
    MultiStep,
    Outcome,
    StepSequence,
    Trajectory,
    conditional,
    count_steps,
    grid,
    simulate,
)
from tests.search.snapshots import Trained
from tests.tuning.asking import Asking
from tests.tuning.studies import loss, paper_grid
from tests.tuning.test_simulation import trained

LOSSES = Machine(metrics=loss)
CONSTANTS = grid(
    learning_rate=[Constant(0.1 / 2**power) for power in range(10)],
    momentum=[Constant(0.9), Constant(0.95), Constant(0.99)],
    unit="epoch",
)


def both(make: Callable[[], Strategy], at_once: int = 4) -> tuple[Outcome, Outcome, Asking]:
    """Simulate a strategy with equal steps trained once, and each trial by itself; return the latter's study too."""
    study = Asking(make(), paper_grid(), at_once)
    shared = simulate(Asking(make(), paper_grid(), at_once), 4, LOSSES)
    return shared, simulate(study, 4, LOSSES, shared=False), study


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        # 48 candidates, rungs at 1, 4 and 16 epochs.
        (lambda: SuccessiveHalving(1, 16, 4, candidates=48, rounds=1), 48 + 12 * 3 + 3 * 12),
        (lambda: Hyperband(1, 9, rounds=1), (9 + 3 * 2 + 6) + (3 * 3 + 6) + 3 * 9),
        (lambda: MedianStopping(4, 16, least=48), 48 * 16),
    ],
    ids=["halving", "hyperband", "median"],
)
def test_each_trial_goes_on_from_where_it_is(make: Callable[[], Strategy], steps: int) -> None:
    shared, alone, study = both(make)
    assert alone.trained_steps == alone.total_steps == study.continued_steps == steps
    assert set(trained(shared).values()) == {1}
    assert shared.trained_steps < alone.trained_steps


def test_all_at_once_are_shared_as_the_merge_rate_says() -> None:
    """With a whole rung asked for at once, what is trained are the unique steps of the trials' last ends."""
    make = lambda: SuccessiveHalving(4, 64, 4, candidates=48, rounds=1)  # noqa: E731
    shared, alone, study = both(make, at_once=48)
    ends: dict[str, tuple[Trajectory, int]] = {}
    for request in study.requests:
        name, configuration, step = study.lines[request.model_id].trial
        ends[name] = Trajectory("m", configuration), step
    total, unique = count_steps(ends.values())
    assert (alone.trained_steps, shared.trained_steps) == (total, unique)
    assert total / unique > 2
    # The same candidates went on, and ended with the same figures.
    assert {place[1:]: metrics for place, (metrics, _) in shared.answers.items()} == {
        place[1:]: metrics for place, (metrics, _) in alone.answers.items()
    }


def test_asynchronous_halving_continues_what_it_promotes() -> None:
    shared, alone, study = both(lambda: AsynchronousHalving(1, 16, 4, candidates=48))
    assert alone.trained_steps == alone.total_steps == study.continued_steps
    risen = sum(request.continues is not None for request in study.requests)
    assert 12 <= risen < 40
    assert set(trained(shared).values()) == {1}
    assert shared.trained_steps < alone.trained_steps


def test_clones_share_what_their_source_has_trained() -> None:
    """By itself a clone trains all of its source's steps again; in the tree it goes on from the snapshot."""

    def make() -> Strategy:
        return PopulationBasedTraining(2, 16, population=8, share=0.25, rounds=1)

    study = Asking(make(), CONSTANTS, 8)
    shared = simulate(study, 8, LOSSES)
    clones = [request for request in study.requests if request.parent is not None]
    assert len(clones) >= 5
    assert all(request.until_step == 16 for request in study.requests[-3:])
    assert set(trained(shared).values()) == {1}
    # Clones that stayed as they were are their source: those steps are the same.
    assert study.continued_steps - 2 * len(clones) <= shared.trained_steps <= study.continued_steps
    alone = simulate(Asking(make(), CONSTANTS, 8), 8, LOSSES, shared=False)
    assert alone.trained_steps == alone.total_steps > shared.trained_steps


def decaying(choose: Choose) -> dict[str, StepSequence]:
    rate = choose("rate", (0.1, 0.2, 0.4, 0.8))
    if choose("decays", (False, True)):
        return {"learning_rate": MultiStep(rate, (choose("milestone", (2, 4, 6)),), choose("factor", (0.1, 0.5)))}
    return {"learning_rate": Constant(rate)}


@pytest.mark.parametrize(
    "strategy",
    [
        SuccessiveHalving(1, 9),
        Hyperband(1, 9),
        AsynchronousHalving(1, 9),
        MedianStopping(3, 9, least=2),
        PopulationBasedTraining(3, 9, population=5),
    ],
    ids=lambda strategy: str(strategy.name),
)
def test_conditional_spaces_of_configurations_are_searched_to_their_end(strategy: Strategy) -> None:
    """28 configurations; the loss is lower for higher rates, at every step."""
    space = conditional(decaying)
    run = Trained(strategy, space, objectives=MIN)
    run.finish(lambda candidate, step: -space.configuration(candidate).at(0)["learning_rate"] - step, at_once=3)
    assert run.stop is not None
    assert run.stop.reason == "exhausted"
    assert len(run.asked) == 28
    complete = [request.candidate for request in run.requests if request.until_step == 9]
    assert max(space.configuration(candidate).at(0)["learning_rate"] for candidate in complete) == 0.8
