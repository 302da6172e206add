"""The best of a run, and the front of several objectives, against a recount of everything."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.runs.leaders import Leaders, Moves
from daskevo.search import Report
from daskevo.types import ModelId, Objective

BOTH = Objective.parse_all(["max q", "min size"])


def report(number: int, quality: float | None, **fields: object) -> Report:
    metrics = {} if quality is None else {"q": quality}
    values = {"status": "finished", "quality": quality, "metrics": metrics} | fields
    return Report(number, ModelId(f"m{number}"), **values)  # type: ignore[arg-type]


def sized(number: int, quality: float, size: float) -> Report:
    return report(number, quality, metrics={"q": quality, "size": size})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=25), st.integers(1, 4))
def test_the_front_is_what_nobody_dominates(figures: list[tuple[int, int]], keep: int) -> None:
    leaders = Leaders(BOTH, keep)
    held: set[int] = set()
    given_up: set[int] = set()
    for number, (quality, size) in enumerate(figures):
        moves = leaders.add(sized(number, quality, size))
        assert not set(moves.entered) & (held | given_up), "what was let go may have been retired"
        held = (held | set(moves.entered)) - set(moves.dropped)
        given_up |= set(moves.dropped)
        assert held == set(leaders.kept)
    front = {
        i
        for i, (q, s) in enumerate(figures)
        if not any(other != (q, s) and other[0] >= q and other[1] <= s for other in figures)
    }
    assert set(leaders.front()) == front
    assert held <= front
    assert len(held) <= keep
    assert held == front or len(front) > keep or len(given_up) > 0
    assert leaders.front() == sorted(front, key=lambda i: (-figures[i][0], i))


def test_of_a_large_front_the_ends_stay_and_the_crowded_go() -> None:
    leaders = Leaders(BOTH, 3)
    for number, (quality, size) in enumerate([(0, 0), (10, 10), (5, 5)]):
        leaders.add(sized(number, quality, size))
    assert leaders.add(sized(3, 9, 9)) == Moves()  # crowded by (10, 10)
    assert leaders.add(sized(4, 11, 11)) == Moves((4,), (1,))
    assert leaders.kept == [4, 2, 0]
    assert leaders.front() == [4, 1, 3, 2, 0]


def test_equal_figures_are_both_on_the_front() -> None:
    leaders = Leaders(BOTH, 5)
    leaders.add(sized(0, 1, 1))
    leaders.add(sized(1, 1, 1))
    assert leaders.front() == leaders.kept == [0, 1]


@pytest.mark.parametrize("direction", ["max", "min"])
def test_one_objective_is_a_list_of_the_best(direction: str) -> None:
    """Whatever is no finite number is none of them, first or last; of equal ones the earlier leads."""
    leaders = Leaders(Objective.parse_all(f"{direction} q"), 2)
    for number, quality in enumerate([math.nan, 0.5, 0.7, math.inf, -math.inf, None, 0.7, 0.6]):
        leaders.add(report(number, quality))
    assert leaders.best() == ([2, 6, 7, 1] if direction == "max" else [1, 7, 2, 6])
    assert leaders.kept == leaders.best(2)
    assert leaders.front() == ([2, 6] if direction == "max" else [1])


def test_of_a_candidate_that_is_trained_in_parts_the_best_part_leads() -> None:
    leaders = Leaders(BOTH[:1], 2)
    leaders.add(report(0, 0.5))
    leaders.add(report(1, 0.4))
    assert leaders.add(report(2, 0.6), continues=0) == Moves((2,), (0,))
    assert leaders.add(report(3, 0.55), continues=2) == Moves()
    assert leaders.best() == leaders.kept == [2, 1]
    assert leaders.add(report(4, 0.7), continues=3) == Moves((4,), (2,))
    leaders.add(report(5, 0.4), continues=1)
    assert leaders.best() == [4, 1]
    # Also where two go on from the same part.
    leaders.add(report(6, 0.8), continues=0)
    leaders.add(report(7, 0.75), continues=2)
    assert leaders.best() == [6, 1]


def test_nothing_finite_is_no_front() -> None:
    for objectives in (BOTH, BOTH[:1]):
        leaders = Leaders(objectives, 2)
        leaders.add(report(0, math.nan))
        leaders.add(report(1, 0.5, status="failed"))
        assert leaders.front() == leaders.kept == leaders.best() == []
    leaders = Leaders(BOTH, 2)
    assert leaders.add(sized(0, 1.0, math.nan)) == Moves()
    assert leaders.add(report(1, 1.0)) == Moves()
    assert leaders.front() == []
