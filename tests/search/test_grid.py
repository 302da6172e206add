"""The grid: order, refusal of what is too large."""

from __future__ import annotations

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import Grid
from daskevo.space import UNBOUNDED, Builder, Choice, Space
from daskevo.testing.strategies import CONDITIONAL, MAX, TINY, StrategyRun


def test_in_the_spaces_own_order() -> None:
    run = StrategyRun(Grid(), CONDITIONAL)
    run.go(100)
    assert [request.candidate for request in run.requests] == list(CONDITIONAL.enumerate())
    assert run.stop is not None
    assert "84" in run.stop.message


def test_shuffled_by_the_seed() -> None:
    orders = []
    for seed in (0, 0, 1):
        run = StrategyRun(Grid("shuffled"), CONDITIONAL, seed=seed)
        run.go(100)
        orders.append([request.candidate for request in run.requests])
    assert orders[0] == orders[1] != orders[2]
    assert set(orders[0]) == set(orders[2]) == set(CONDITIONAL.enumerate())
    assert orders[0] != list(CONDITIONAL.enumerate())


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (Space("large", [Choice(f"c{n}", tuple(range(100))) for n in range(5)]), "1.0e10"),
        (Builder("open", lambda choose: choose("a", (1, 2)), size=UNBOUNDED), "unbounded"),
    ],
)
def test_what_is_too_large_is_refused(space: Space, size: str) -> None:
    with pytest.raises(InvalidInput, match=size):
        Grid().start(space, (MAX,), 0)


def test_the_limit_is_a_setting() -> None:
    Grid(most=8).start(TINY, (MAX,), 0)
    with pytest.raises(InvalidInput, match="7 candidates at most"):
        Grid(most=7).start(TINY, (MAX,), 0)
