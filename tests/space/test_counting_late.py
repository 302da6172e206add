"""Candidates that have to be built to be counted are counted when somebody needs to know, and no further than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo.search import AgedEvolution, Grid, Random, Report, Request, Stop, View
from daskevo.search.drawing import is_spent
from daskevo.space import Builder, Choose
from daskevo.tuning import Constant, architectures, grid
from daskevo.types import ModelId, Objective


def counting(options: int) -> tuple[Builder, Callable[[], int]]:
    """Return a space of so many candidates, and what says how often one was built."""
    built: list[int] = []

    def build(choose: Choose) -> Any:
        built.append(1)
        return choose("layers", range(1, options + 1))

    return Builder("chains", build), lambda: len(built)


def requests(strategy: Any, space: Any, count: int) -> list[Request]:
    strategy.start(space, [Objective.parse("max q")], 0)
    found: list[Request] = []
    for number in range(count):
        answer = strategy.ask(View(1, number, "run", {one.candidate for one in found}, []))
        if isinstance(answer, Stop):
            break
        found += answer
        strategy.tell(answer[0], Report(number, ModelId(f"m{number}"), "finished", quality=0.5))
    return found


@pytest.mark.parametrize("strategy", [Random(), AgedEvolution(4, 2), Grid()])
def test_no_candidate_is_built_to_count_them_before_the_first_is_asked_for(strategy: Any) -> None:
    space, built = counting(1_000)
    assert len(requests(strategy, space, 10)) == 10
    assert built() < 100
    assert str(space.size) == "at least 201"


@pytest.mark.parametrize("strategy", [Random(), AgedEvolution(4, 2), Grid()])
def test_a_small_space_is_spent_all_the_same(strategy: Any) -> None:
    space, built = counting(12)
    found = requests(strategy, space, 50)
    assert {request.candidate for request in found} == set(space.enumerate())
    assert len(found) == 12
    assert built() < 12 * 100
    assert str(space.size) == "12"


def test_counting_goes_no_further_than_it_is_asked_to() -> None:
    space, built = counting(50)
    assert str(space.size_until(3)) == "at least 4"
    assert built() == 4
    assert str(space.size_until(2)) == "at least 4"
    assert built() == 4
    assert str(space.size_until(48)) == "at least 49"
    assert str(space.size_until(49)) == "50"
    assert str(space.size_until(1_000_000)) == "50"
    assert built() == 50


def test_architectures_with_a_grid_count_as_late() -> None:
    space, built = counting(50)
    pairs = architectures(space, grid(batch_size=[Constant(8), Constant(16)]))
    before = built()
    assert not is_spent(pairs, {pairs.sample(np.random.default_rng(0))})
    assert built() - before < 5
    assert str(pairs.size) == "100"


def test_a_grid_with_a_small_limit_refuses_at_once_what_is_larger() -> None:
    space, built = counting(50)
    with pytest.raises(InvalidInput, match="at least 11, and a grid takes 10 candidates"):
        Grid(most=10).start(space, [Objective.parse("max q")], 0)
    assert built() == 11
