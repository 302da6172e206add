"""Strategies on functions whose optimum is known: found sooner than by random draws, over 20 fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from daskevo.search import AgedEvolution, MultiObjectiveEvolution, NonAgedEvolution, Random, Reinforce, Strategy
from daskevo.space import Candidate, Choice, Space
from daskevo.testing.strategies import MAX, StrategyRun
from daskevo.types import Objective

SEPARABLE = Space("separable", tuple(Choice(f"c{number}", (0, 1, 2, 3, 4)) for number in range(5)))
BEST = (3, 0, 4, 1, 2)
ASKED = 200
SEEDS = range(20)


def quality(candidate: Candidate) -> float:
    """The sum of each choice's own share: 0 at the optimum, one of 3125 candidates."""
    return -float(sum((value - best) ** 2 for value, best in zip(candidate.values, BEST, strict=True)))


def found(make: Callable[[], Strategy]) -> int:
    """In how many of the seeds' runs the optimum was asked for."""
    count = 0
    for seed in SEEDS:
        run = StrategyRun(make(), SEPARABLE, seed=seed)
        run.go(ASKED, quality)
        count += Candidate(BEST) in run.asked
    return count


@cache
def found_by_chance() -> int:
    return found(Random)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AgedEvolution(population=20, sample=5),
        lambda: Reinforce(context=True),
        *(
            pytest.param(make, marks=pytest.mark.long)
            for make in (
                lambda: AgedEvolution(population=20, sample=5, crossover=0.5),
                lambda: NonAgedEvolution(population=20, sample=5),
                lambda: MultiObjectiveEvolution(population=20),
                Reinforce,
            )
        ),
    ],
    ids=["aged", "reinforce, context", "aged, crossover", "non-aged", "multi-objective", "reinforce"],
)
def test_the_optimum_is_found_more_often_than_by_chance(make: Callable[[], Strategy]) -> None:
    assert found_by_chance() <= 4
    assert found(make) >= 10


@pytest.mark.long
def test_the_whole_front_of_two_objectives_is_found() -> None:
    """Max the sum, min the number of values that aren't 0: the front has one point for each number of 4s, 0 to 5."""
    objectives = (MAX, Objective.parse("min used"))
    fronts = []
    for seed in SEEDS:
        run = StrategyRun(MultiObjectiveEvolution(population=20), SEPARABLE, objectives, seed)
        for _ in range(ASKED):
            (request,) = run.ask()
            values = request.candidate.values
            run.tell(request, float(sum(values)), used=float(sum(value != 0 for value in values)))
        told = {report.model_id: (report.metrics["q"], report.metrics["used"]) for _, report in run.told}
        fronts.append({told[name] for name in run.strategy.population()} & {(4.0 * n, float(n)) for n in range(6)})
    assert sum(len(front) == 6 for front in fronts) >= 15
    assert min(map(len, fronts)) >= 5


@pytest.mark.long
def test_a_policy_with_context_learns_which_options_go_together() -> None:
    """Two choices must be equal, a third has no effect: by itself, no option of theirs is better than another."""
    space = Space(
        "pairs", (*(Choice(name, tuple(range(5))) for name in ("one", "other")), Choice("idle", tuple(range(40))))
    )

    def equal(candidate: Candidate) -> float:
        return float(candidate.values[0] == candidate.values[1])

    def share(context: bool) -> float:
        late: list[float] = []
        for seed in SEEDS:
            run = StrategyRun(Reinforce(context=context), space, seed=seed)
            run.go(150, equal)
            late += [equal(request.candidate) for request in run.requests[-50:]]
        return sum(late) / len(late)

    assert share(True) > 0.5  # by chance 0.2
