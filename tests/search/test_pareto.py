"""Fronts and crowding distances, against what their definitions say word by word."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.search.pareto import crowding, front, fronts

Point = tuple[float, ...]


def points(figures: st.SearchStrategy[float]) -> st.SearchStrategy[list[Point]]:
    return st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[figures] * n), max_size=12))


few = points(st.integers(0, 4).map(float))
any_finite = points(st.floats(allow_nan=False, allow_infinity=False))


def dominates(one: Point, other: Point) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and one != other


@given(st.one_of(few, any_finite))
def test_fronts_are_what_is_left_when_those_before_are_taken_away(given_points: list[Point]) -> None:
    left = set(range(len(given_points)))
    expected = []
    while left:
        free = sorted(i for i in left if not any(dominates(given_points[j], given_points[i]) for j in left))
        expected.append(free)
        left -= set(free)
    assert fronts(given_points) == expected
    assert front(given_points) == (expected[0] if expected else [])


@given(few)
def test_crowding_is_the_sum_of_the_neighbours_distances(given_points: list[Point]) -> None:
    expected = [0.0] * len(given_points)
    for objective in range(len(given_points[0]) if given_points else 0):
        order = sorted((point[objective], index) for index, point in enumerate(given_points))
        values = [value for value, _ in order]
        for place, (_, index) in enumerate(order):
            if place in (0, len(order) - 1):
                expected[index] = math.inf
            elif values[-1] > values[0]:
                expected[index] += (values[place + 1] - values[place - 1]) / (values[-1] - values[0])
    assert crowding(given_points) == pytest.approx(expected)


@given(any_finite)
def test_crowding_is_never_negative_nor_nan(given_points: list[Point]) -> None:
    assert all(distance >= 0 for distance in crowding(given_points))


def test_the_example_of_three_fronts() -> None:
    """Two objectives to be maximised; distances by hand."""
    assert fronts([(1, 5), (3, 3), (5, 1), (1, 3), (2, 2), (0, 0)]) == [[0, 1, 2], [3, 4], [5]]
    assert crowding([(0, 10), (2, 5), (3, 4), (10, 0)]) == pytest.approx([math.inf, 0.3 + 0.6, 0.8 + 0.5, math.inf])


def test_nothing_and_a_single_point() -> None:
    assert (fronts([]), crowding([]), front([])) == ([], [], [])
    assert (fronts([(1.0,)]), crowding([(1.0, 2.0)])) == ([[0]], [math.inf])
