"""Spaces said by a function: conditional choices, mutations that keep what still applies, records that fit or not."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.errors import CandidateRejected, CorruptRecord, InvalidInput
from daskevo.space import Builder, Candidate, Choice, Size, Space

SEEDS = st.integers(0, 2**32 - 1)


def chain(choose: Any) -> list[Any]:
    """3 + 9 + 27 chains, each with a last choice that only the long ones have."""
    made = [choose(f"units {number}", (8, 16, 32)) for number in range(choose("layers", (1, 2, 3)))]
    if len(made) == 3:
        made.append(choose("activation", ("relu", "tanh")))
    return made


CHAINS = Builder("chains", chain)


def test_counts_and_enumerates_every_candidate_once() -> None:
    found = list(CHAINS.enumerate())
    assert CHAINS.size == Size("exact", 3 + 9 + 2 * 27)
    assert len(found) == len(set(found)) == CHAINS.size.count
    assert len({json.dumps(CHAINS.build(candidate)) for candidate in found}) == len(found)


def test_a_large_one_knows_a_lower_bound() -> None:
    space = Builder("large", lambda choose: [choose(f"c{n}", (0, 1)) for n in range(40)])
    assert space.size.kind == "at least"
    assert space.size.count is not None
    assert space.size.count >= 200
    with pytest.raises(InvalidInput, match="more than the 50 candidates"):
        list(space.enumerate(50))
    assert Builder("said", chain, size=Size("exact", 7)).size == Size("exact", 7)


def test_one_that_rejects_all_is_counted_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(choose: Any) -> None:
        for number in range(40):
            choose(f"c{number}", (0, 1))
        raise CandidateRejected("never")

    monkeypatch.setattr("daskevo.space.builder.TRIED", 50)
    assert Builder("none", reject).size == Size("at least", 0)
    assert Builder("none", reject).find(20) is None
    assert CHAINS.find(1) == next(iter(CHAINS.enumerate()))
    assert Builder("few", chain).size == Size("at least", 50)


@given(SEEDS, st.floats(0.1, 10))
def test_mutations_change_one_choice_and_keep_what_still_applies(seed: int, beta: float) -> None:
    rng = np.random.default_rng(seed)
    candidate = CHAINS.sample(rng)
    for _ in range(5):
        child = CHAINS.mutate(candidate, rng, beta)
        one, other = CHAINS.values(candidate), CHAINS.values(child)
        changed = [name for name in one.keys() & other.keys() if one[name] != other[name]]
        assert len(changed) == 1
        assert one.keys() == other.keys() or changed == ["layers"]
        candidate = child


@given(SEEDS)
def test_crossovers_take_what_a_parent_has(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = CHAINS.sample(rng), CHAINS.sample(rng)
    known = [CHAINS.values(one), CHAINS.values(other)]
    for name, option in CHAINS.values(CHAINS.crossover(one, other, rng)).items():
        assert option in [values[name] for values in known if name in values]


@given(SEEDS)
def test_candidates_survive_json_and_name_their_choices(seed: int) -> None:
    candidate = CHAINS.sample(np.random.default_rng(seed))
    assert CHAINS.decode(json.loads(json.dumps(candidate.to_json()))) == candidate
    assert CHAINS.candidate(CHAINS.values(candidate)) == candidate
    assert Builder("chains", chain).values(candidate) == CHAINS.values(candidate)


def test_samples_are_uniform_over_the_options_of_each_choice() -> None:
    rng = np.random.default_rng(5)
    drawn = Counter(len(CHAINS.sample(rng).values) for _ in range(3_000))
    assert [drawn[length] / 3_000 for length in (2, 3, 5)] == pytest.approx([1 / 3] * 3, abs=0.045)


@pytest.mark.parametrize(
    "value",
    [
        [0],
        [["layers", 0]],
        [["layers", 0], ["units 0", 3]],
        [["layers", 0], ["units 1", 0]],
        [["layers", 0], ["units 0", 0], ["units 1", 0]],
        [["layers", 0], ["units 0"]],
        [["layers", -1], ["units 0", 0]],
        [["", 0]],
    ],
)
def test_candidates_of_another_space_are_refused(value: Any) -> None:
    with pytest.raises(CorruptRecord):
        CHAINS.decode(value)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda choose: choose("c", ()), "at least one"),
        (lambda choose: choose("c", "abc"), "at least one"),
        (lambda choose: [choose("c", (1, 2)), choose("c", (1, 2))], "asks for choice 'c' twice"),
        (lambda choose: choose("c", (object(),)), "JSON can't carry"),
        (lambda choose: choose["c"], "gives? a space, too"),
    ],
)
def test_a_builder_that_asks_what_can_not_be_asked(build: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Builder("odd", build).sample(np.random.default_rng(0))


def narrow(choose: Any) -> None:
    if choose("kernel", (1, 3, 5, 7)) > choose("input", (1, 3)):
        raise CandidateRejected("the kernel is larger than its input")


def test_rejected_candidates_are_drawn_again_and_never_counted() -> None:
    space = Builder("narrow", narrow)
    rng = np.random.default_rng(0)
    assert space.size == Size("exact", 3)
    candidates = {space.sample(rng) for _ in range(100)}
    assert candidates == set(space.enumerate())
    assert all(space.mutate(candidate, rng) in candidates - {candidate} for candidate in candidates)
    with pytest.raises(CandidateRejected, match="the kernel is larger"):
        space.candidate({"kernel": 7, "input": 1})
    assert space.repair(Candidate((3, 1), ("kernel", "input")), rng) in candidates


def test_a_space_that_rejects_all_says_why() -> None:
    def build(choose: Any) -> None:
        choose("c", (1, 2))
        raise CandidateRejected("it is Sunday")

    space = Builder("closed", build)
    assert space.size == Size("exact", 0)
    with pytest.raises(CandidateRejected, match=r"100 candidates in a row.*it is Sunday") as caught:
        space.sample(np.random.default_rng(0))
    assert caught.value.reason == "it is Sunday"


def test_the_same_condition_on_a_product() -> None:
    def reject(values: dict[str, Any]) -> str | None:
        return "the kernel is larger than its input" if values["kernel"] > values["input"] else None

    space = Space("narrow", (Choice("kernel", (1, 3, 5, 7)), Choice("input", (1, 3))), reject)
    rng = np.random.default_rng(0)
    assert space.size == Size("exact", 3) == Size("exact", len(list(space.enumerate())))
    assert {space.sample(rng) for _ in range(100)} == set(space.enumerate())
    with pytest.raises(CandidateRejected, match="the kernel is larger"):
        space.check(Candidate((3, 0)))
    wide = Space("wide", tuple(Choice(f"c{n}", tuple(range(10))) for n in range(9)), lambda values: None)
    assert str(wide.size) == "at most 1.0e9"


def test_a_changed_builder_is_another_space() -> None:
    def other(choose: Any) -> list[Any]:
        return [choose(f"units {number}", (8, 16, 32)) for number in range(choose("layers", (1, 2, 4)))]

    assert Builder("chains", chain) == CHAINS
    assert Builder("chains", other) != CHAINS
    assert Builder("chain", chain) != CHAINS


def test_what_is_drawn_runs_in_the_given_context_and_what_is_built_does_not() -> None:
    inside = 0
    seen: list[int] = []

    @contextmanager
    def around() -> Any:
        nonlocal inside
        inside += 1
        yield
        inside -= 1

    def build(choose: Any) -> int:
        seen.append(inside)
        return int(choose("c", (1, 2)))

    space = Builder("shaped", build, around=around)
    candidate = space.sample(np.random.default_rng(0))
    assert seen == [1]
    assert space.build(candidate) in (1, 2)
    assert seen == [1, 0]


def test_draws_uniform_over_candidates_count_all_alike() -> None:
    """66 candidates, 3 of them with one layer: a third of the draws over choices, a 22nd of those over candidates."""
    rng = np.random.default_rng(7)
    draws = 20_000
    drawn = Counter(CHAINS.sample(rng, "candidates") for _ in range(draws))
    assert set(drawn) == set(CHAINS.enumerate())
    # Five standard deviations of a share of 1 / 66.
    assert [drawn[each] / draws for each in CHAINS.enumerate()] == pytest.approx([1 / 66] * 66, abs=0.0044)


def test_rejected_candidates_are_no_part_of_uniform_draws() -> None:
    space = Builder("narrow", narrow)
    rng = np.random.default_rng(7)
    drawn = Counter(space.sample(rng, "candidates") for _ in range(6_000))
    assert len(drawn) == 3
    assert [count / 6_000 for count in drawn.values()] == pytest.approx([1 / 3] * 3, abs=0.031)


def test_where_draws_cannot_be_uniform_over_candidates_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo.space.model_space.LISTED", 300)

    def build(choose: Any) -> None:
        for number in range(choose("layers", (1, 20))):
            choose(f"c{number}", (0, 1))

    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match=r"can't be uniform over its candidates.*300 candidates at most"):
        Builder("large", build).sample(rng, "candidates")
    with pytest.raises(InvalidInput, match="use 'choices' or 'candidates'"):
        CHAINS.sample(rng, "models")  # type: ignore[arg-type]

    def closed(choose: Any) -> None:
        raise CandidateRejected("closed")

    with pytest.raises(CandidateRejected, match="rejected 100 candidates in a row; the last because closed"):
        Builder("closed", closed).sample(rng, "candidates")
