"""The contract of model spaces: every kind of ours keeps it, and broken ones are told so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CandidateRejected
from daskevo.space import (
    Builder,
    Candidate,
    Choice,
    InsertingMutator,
    ModelGraph,
    ModelSpace,
    MutatedGraphs,
    OperatorMutator,
    Size,
    Space,
    layer,
    named,
    of_kind,
)
from daskevo.testing import check_space
from tests.space import bases


def product() -> Space:
    return Space("p", (Choice("a", (1, 2, None)), Choice("b", ([1], [2])), Choice("c", ("x",))))


def conditional() -> Space:
    return Space("q", product().choices, lambda values: "both" if values["a"] == 1 and values["b"] == [2] else None)


def large() -> Space:
    return Space("large", tuple(Choice(f"c{number}", tuple(range(9))) for number in range(9)))


def nested(choose: Any) -> Any:
    kind = choose("kind", ("chain", "branch"))
    for number in range(choose("layers", (1, 2, 3))):
        if kind == "branch" and choose(f"skip {number}", (True, False)):
            continue
        if choose(f"units {number}", (8, 16)) == 16 and kind == "branch":
            raise CandidateRejected("too wide for a branch")


def built() -> Builder:
    return Builder("built", nested)


def base(hidden: int = 1) -> ModelGraph:
    return bases.base(hidden)


INSERT = InsertingMutator(of_kind("Dense") & ~named("out"), [layer("Dense", units=8), layer("ReLU")], name="insert")
REMOVE = OperatorMutator(named("*inserted*"), {"none": None}, name="remove")


def mutated() -> MutatedGraphs:
    return MutatedGraphs(
        "mutated", {"one": base(1), "two": base(2)}, [INSERT, OperatorMutator(of_kind("ReLU"), [None])]
    )


def evolving() -> MutatedGraphs:
    return MutatedGraphs("evolving", base(), evolve=[INSERT, REMOVE])


def bounded() -> MutatedGraphs:
    return MutatedGraphs("bounded", base(), [INSERT], evolve=[INSERT, REMOVE], steps=2)


@pytest.mark.parametrize("make", [product, conditional, large, built, mutated, evolving, bounded])
def test_kept_by_ours(make: Callable[[], ModelSpace]) -> None:
    check_space(make)


TREES = st.recursive(st.integers(1, 3), lambda deeper: st.lists(deeper, min_size=1, max_size=3), max_leaves=6)


@given(TREES, st.integers(0, 1000))
@settings(max_examples=25)
def test_kept_by_any_builder(tree: Any, seed: int) -> None:
    def build(choose: Any) -> None:
        def walk(part: Any, path: str) -> None:
            if isinstance(part, int):
                choose(path, tuple(range(part)))
            else:
                taken = choose(path, tuple(range(len(part))))
                walk(part[taken], f"{path}.{taken}")

        walk(tree, "root")

    check_space(lambda: Builder("any", build), draws=8, seed=seed)


class ForgetsNames(Builder):
    def draw(self, pick: Any) -> Candidate:
        return Candidate(super().draw(pick).values)


class StandsStill(Space):
    def mutate(self, candidate: Candidate, rng: Any, beta: float = 1.0) -> Candidate:
        return candidate


class MiscountsItself(Space):
    @property
    def size(self) -> Size:
        return Size("exact", 7)


class GoesItsOwnWay(Space):
    def crossover(self, one: Candidate, other: Candidate, rng: Any) -> Candidate:
        return self.sample(rng)


class Repairs(Space):
    def repair(self, candidate: Candidate, rng: Any) -> Candidate:
        return self.sample(rng)


@pytest.mark.parametrize("cls", [StandsStill, MiscountsItself, GoesItsOwnWay, Repairs])
def test_broken_ones_are_told_so(cls: type[Space]) -> None:
    with pytest.raises(AssertionError):
        check_space(lambda: cls("broken", product().choices))


def test_other_broken_ones_are_told_so() -> None:
    with pytest.raises(Exception, match="not of space"):
        check_space(lambda: ForgetsNames("broken", nested))
    names = iter("abcdefghijklmnop")
    with pytest.raises(AssertionError, match="made again"):
        check_space(lambda: Space(next(names), product().choices))
