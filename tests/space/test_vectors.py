"""Candidates as rows of numbers: the columns, there and back, rows that are of no candidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.space import Builder, Candidate, Choice, Space, from_vectors, to_vectors

CHOICES = (
    Choice("numbers in order", (1, 2.5, 8, 9)),
    Choice("numbers out of order", (3, 1, 2)),
    Choice("two", ("relu", None)),
    Choice("one", (7,)),
    Choice("texts", ("a", "b", "c")),
)
SPACE = Space("all", CHOICES)
REJECTING = Space("some", CHOICES[:2], lambda taken: "too much" if sum(taken.values()) > 11 else None)  # type: ignore[arg-type,type-var]


def test_the_columns_are_those_that_are_documented() -> None:
    rows = to_vectors(SPACE, [Candidate((2, 0, 1, 0, 2)), Candidate((0, 1, 0, 0, 1))])
    assert rows.dtype == np.float64
    assert rows.tolist() == [
        [2 / 3, 1, 0, 0, 1, 0, 0, 1],
        [0, 0, 1, 0, 0, 0, 1, 0],
    ]


def test_all_candidates_there_and_back_each_with_a_row_of_its_own() -> None:
    for space in (SPACE, REJECTING):
        every = list(space.enumerate())
        rows = to_vectors(space, every)
        assert len(np.unique(rows, axis=0)) == len(every)
        assert rows.min() == 0
        assert rows.max() == 1
        assert from_vectors(space, rows) == every


@given(st.lists(st.floats(-2, 3), min_size=8, max_size=8))
def test_a_row_of_any_numbers_is_the_nearest_candidate(row: list[float]) -> None:
    (found,) = from_vectors(SPACE, [row])
    every = list(SPACE.enumerate())
    # One-hot columns: the nearest corner is the one of the largest number.
    distances = ((to_vectors(SPACE, every) - np.array(row)) ** 2).sum(axis=1)
    assert distances[every.index(found)] <= distances.min() + 1e-9


def test_none_has_no_rows() -> None:
    assert to_vectors(SPACE, []).shape == (0, 8)
    assert from_vectors(SPACE, np.empty((0, 8))) == []
    assert to_vectors(Space("one", (CHOICES[3],)), [Candidate((0,))]).shape == (1, 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([0.0] * 8, r"shape \(n, 8\)"),
        ([[0.0] * 7], r"shape \(n, 8\)"),
        ([[0.0] * 7 + [np.nan]], "hold nan"),
        ([[0.0] * 7 + [-np.inf]], "hold -inf"),
        ([["a"] * 8], "are numbers"),
        ([[0.0] * 8, [0.0]], "are numbers"),
    ],
)
def test_what_are_no_rows_of_the_space(rows: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        from_vectors(SPACE, rows)


def test_what_the_space_rejects_is_rejected_with_its_row() -> None:
    fine, rejected = Candidate((3, 1)), Candidate((3, 0))
    with pytest.raises(CandidateRejected, match="too much"):
        to_vectors(REJECTING, [fine, rejected])
    rows = to_vectors(Space("free", CHOICES[:2]), [fine, rejected])
    with pytest.raises(CandidateRejected, match=r"row 1: .*too much") as caught:
        from_vectors(REJECTING, rows)
    assert caught.value.reason == "too much"
    assert from_vectors(REJECTING, rows[:1]) == [fine]


def test_a_conditional_space_has_no_columns() -> None:
    space = Builder("own", lambda choose: choose("a", (1, 2)))
    with pytest.raises(InvalidInput, match="no columns in common"):
        to_vectors(space, [])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no columns in common"):
        from_vectors(space, [])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        to_vectors(SPACE, [Candidate((0,))])
