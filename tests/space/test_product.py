"""Model spaces: sizes, draws, mutations that always change something, and records that fit or are refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.space import Candidate, Choice, Size, Space

OPTIONS = st.lists(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2) | st.tuples(st.integers(0, 3), st.none()),
    min_size=1,
    max_size=5,
    unique_by=lambda option: json.dumps(option),
)
SPACES = st.lists(OPTIONS, min_size=1, max_size=6).map(
    lambda options: Space("drawn", tuple(Choice(f"c{n}", tuple(some)) for n, some in enumerate(options)))
)
SEEDS = st.integers(0, 2**32 - 1)


@given(SPACES, SEEDS, st.floats(0.01, 100))
@settings(max_examples=100)
def test_a_mutation_changes_exactly_one_choice(space: Space, seed: int, beta: float) -> None:
    assume(space.size != Size("exact", 1))
    rng = np.random.default_rng(seed)
    candidate = space.sample(rng)
    for _ in range(10):
        child = space.mutate(candidate, rng, beta)
        space.check(child)
        assert sum(a != b for a, b in zip(candidate.values, child.values, strict=True)) == 1
        candidate = child


def test_mutations_spread_from_1_to_beta_over_the_choices_that_can_change() -> None:
    choices = [Choice(f"c{n}", tuple(range(3))) for n in range(5)]
    choices[2] = Choice("fixed", ("only",))
    space = Space("s", tuple(choices))
    rng = np.random.default_rng(7)
    candidate = space.sample(rng)
    draws = 20_000
    places: Counter[int] = Counter()
    options: Counter[int] = Counter()
    for _ in range(draws):
        child = space.mutate(candidate, rng, beta=9.0)
        (place,) = (n for n in range(5) if child.values[n] != candidate.values[n])
        places[place] += 1
        options[child.values[place] - candidate.values[place]] += 1
    # Odds 1, 3, (5, never), 7, 9 of 20; five standard deviations of the share are below 0.018.
    shares = [places[n] / draws for n in range(5)]
    assert shares == pytest.approx([0.05, 0.15, 0.0, 0.35, 0.45], abs=0.018)


def test_the_new_option_is_drawn_evenly_among_the_others() -> None:
    space = Space("s", (Choice("c", tuple(range(5))),))
    rng = np.random.default_rng(7)
    drawn = Counter(space.mutate(Candidate((2,)), rng).values[0] for _ in range(8_000))
    assert drawn[2] == 0
    assert [drawn[n] / 8_000 for n in (0, 1, 3, 4)] == pytest.approx([0.25] * 4, abs=0.025)


def test_a_single_candidate_can_not_mutate() -> None:
    space = Space("s", (Choice("c", ("only",)),))
    with pytest.raises(InvalidInput, match="single candidate"):
        space.mutate(Candidate((0,)), np.random.default_rng(0))


@pytest.mark.parametrize("beta", [0, -1.0, float("nan"), float("inf"), "2"])
def test_beta_must_be_positive(beta: Any) -> None:
    space = Space("s", (Choice("c", (0, 1)),))
    with pytest.raises(InvalidInput, match="beta is"):
        space.mutate(Candidate((0,)), np.random.default_rng(0), beta)


@given(SPACES)
@settings(max_examples=40)
def test_enumerates_each_candidate_once(space: Space) -> None:
    assume((space.size.count or 0) <= 500)
    found = list(space.enumerate())
    assert len(found) == len(set(found)) == space.size.count
    for candidate in found:
        space.check(candidate)


def test_enumerating_refuses_large_spaces_at_once() -> None:
    space = Space("s", tuple(Choice(f"c{n}", tuple(range(10))) for n in range(400)))
    with pytest.raises(InvalidInput, match=r"1\.0e400 candidates"):
        space.enumerate()


def test_sizes_of_the_published_spaces() -> None:
    def space(blocks: int) -> Space:
        variables = tuple(Choice(f"layer {n}", tuple(range(391))) for n in range(3 * blocks))
        merges = tuple(Choice(f"skip {n}", (False, True)) for n in range(6 * blocks))
        return Space("attn", variables + merges)

    assert space(2).size == Size("exact", 391**6 * 2**12)
    assert str(space(2).size) == "1.5e19"
    assert str(space(6).size) == "3.1e57"
    assert str(Space("s", (Choice("c", (1, 2, 3)),)).size) == "3"


@given(SPACES, SEEDS)
@settings(max_examples=60)
def test_samples_repeat_with_their_seed_and_survive_json(space: Space, seed: int) -> None:
    draw = [space.sample(np.random.default_rng(seed)) for _ in range(2)]
    assert draw[0] == draw[1]
    candidate = draw[0]
    assert space.decode(json.loads(json.dumps(candidate.to_json()))) == candidate
    values = space.values(candidate)
    assert list(values) == [choice.name for choice in space.choices]
    assert space.candidate(json.loads(json.dumps(values))) == candidate
    record = json.dumps(space.to_json())
    again = Space.from_json(json.loads(record))
    assert again == space
    assert json.dumps(again.to_json()) == record


def test_samples_are_uniform() -> None:
    space = Space("s", (Choice("a", (0, 1)), Choice("b", (0, 1, 2))))
    rng = np.random.default_rng(3)
    drawn = Counter(space.sample(rng) for _ in range(6_000))
    assert [count / 6_000 for count in drawn.values()] == pytest.approx([1 / 6] * 6, abs=0.025)


def test_samples_over_candidates_are_uniform_although_some_are_rejected() -> None:
    choices = (Choice("a", (0, 1, 2)), Choice("b", (0, 1, 2)))
    space = Space("s", choices, lambda taken: "more" if taken["a"] > taken["b"] else None)
    for over in ("choices", "candidates"):
        rng = np.random.default_rng(3)
        drawn = Counter(space.sample(rng, over) for _ in range(6_000))  # type: ignore[arg-type]
        assert [count / 6_000 for count in drawn.values()] == pytest.approx([1 / 6] * 6, abs=0.025)
    # None of these could be listed.
    large = Space("large", tuple(Choice(f"c{n}", tuple(range(9))) for n in range(20)))
    assert large.sample(np.random.default_rng(0), "candidates") == large.sample(np.random.default_rng(0))


def test_values_are_copies() -> None:
    space = Space("s", (Choice("c", ((1, [2]), None)),))
    space.values(Candidate((0,)))["c"][1].append(3)
    assert space.values(Candidate((0,))) == {"c": [1, [2]]}


def test_options_that_python_holds_equal_stay_apart() -> None:
    choice = Choice("c", (1, True, 1.0, "1"))
    assert [choice.index(option) for option in (1, True, 1.0, "1")] == [0, 1, 2, 3]
    assert len({Space("s", (Choice("c", (option,)),)) for option in (1, True, 1.0)}) == 3


@pytest.mark.parametrize(
    "value",
    [None, {}, "01", [0], [0, 0, 0], [2, 0], [-1, 0], [0, 1.0], [0, True], [[0], 0], [0, None], [0] * 10_001],
)
def test_candidates_of_other_spaces_are_refused(value: Any) -> None:
    space = Space("s", (Choice("a", (0, 1)), Choice("b", (0, 1))))
    assert space.decode([1, 0]) == Candidate((1, 0))
    with pytest.raises(CorruptRecord):
        space.decode(value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": 0}, r"missing \['b'\]"),
        ({"a": 0, "b": 0, "c": 0}, r"unknown \['c'\]"),
        ({"a": 0, "b": 7}, "'b' has no option 7; it has 0, 1"),
        ({"a": 0, "b": np.int64(1)}, "type int64"),
    ],
)
def test_values_that_make_no_candidate_are_named(values: dict[str, Any], message: str) -> None:
    space = Space("s", (Choice("a", (0, 1)), Choice("b", (0, 1))))
    with pytest.raises(InvalidInput, match=message):
        space.candidate(values)


_NESTED: Any = 0
for _ in range(100_000):
    _NESTED = [_NESTED]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("", (1,), "needs a name"),
        ("c", (), "at least one"),
        ("c", "abc", "at least one"),
        ("c", (1, 1), "two options"),
        ("c", ((1, 2), [1, 2]), "two options"),
        ("c", (float("nan"),), "holds nan"),
        ("c", (np.float32(1),), "type float32"),
        ("c", ({1: 2},), "the key 1"),
        ("c", (_NESTED,), "nests deeper"),
    ],
)
def test_bad_choices_are_named(name: str, options: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Choice(name, options)


def test_bad_spaces_are_named() -> None:
    choice = Choice("c", (1, 2))
    for choices, message in (
        ((), "0 choices"),
        ((choice, choice), "two choices named 'c'"),
        ((("c", (1, 2)),), "made of Choice objects"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Space("s", choices)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"name": "s", "choices": []},
        {"name": 3, "choices": [["c", [1]]]},
        {"name": "s", "choices": [["c", 1]]},
        {"name": "s", "choices": [["c", [1, 1]]]},
        {"name": "s", "choices": [["c", [1]]], "more": 1},
        {"name": "s", "choices": [["c", [_NESTED]]]},
    ],
)
def test_records_that_are_no_space_are_refused(record: Any) -> None:
    with pytest.raises(CorruptRecord):
        Space.from_json(record)
