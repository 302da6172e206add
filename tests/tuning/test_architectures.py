"""Spaces of architectures as spaces of configurations: the contract of spaces, and what is one trajectory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo.space import (
    Builder,
    Candidate,
    Choice,
    InsertingMutator,
    ModelSpace,
    MutatedGraphs,
    Space,
    layer,
    of_kind,
)
from daskevo.testing import check_space
from daskevo.tuning import Constant, GridSpace, MultiStep, Trajectory, architectures, grid
from daskevo.tuning.architectures import ARCHITECTURE
from tests.space.bases import base

BATCHES = {"batch_size": Constant(16)}


def layers() -> Space:
    return Space("layers", (Choice("units", (8, 16, 32)), Choice("activation", ("relu", "tanh", None))))


def valid() -> Space:
    return Space("valid", layers().choices, lambda values: "too wide" if values["units"] == 32 else None)


def chains() -> Builder:
    def build(choose):  # type: ignore[no-untyped-def]
        return [choose(f"units {number}", (8, 16)) for number in range(choose("layers", (1, 2)))]

    return Builder("chains", build)


def growing() -> MutatedGraphs:
    insert = InsertingMutator(of_kind("Dense"), [layer("Dense", units=4), layer("ReLU")], name="insert")
    return MutatedGraphs("growing", base(1), evolve=[insert], steps=3)


def rates() -> GridSpace:
    return grid(
        learning_rate=[Constant(0.1), MultiStep(0.1, (4,), 0.5), MultiStep(0.1, (2,), 0.5)],
        batch_size=[Constant(16), Constant(32)],
        dropout=[0.0, 0.5],
        where=lambda values: values["dropout"] == 0 or values["batch_size"] == Constant(16),
        unit="epoch",
    )


SPACES: list[Callable[[], ModelSpace]] = [layers, valid, chains, growing]


@pytest.mark.parametrize("make", SPACES)
def test_they_keep_the_contract_of_spaces(make: Callable[[], ModelSpace]) -> None:
    check_space(lambda: architectures(make(), BATCHES), draws=6)
    check_space(lambda: architectures(make(), rates()), draws=6)


@pytest.mark.parametrize("make", SPACES)
def test_candidates_are_those_of_the_space(make: Callable[[], ModelSpace]) -> None:
    plain, space = make(), architectures(make(), BATCHES)
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(10):
        candidate = plain.sample(one)
        assert space.sample(other) == candidate
        assert space.mutate(candidate, other, 2.0) == plain.mutate(candidate, one, 2.0)
        assert space.values(candidate) == plain.values(candidate)
        assert space.configuration(candidate).constants == {ARCHITECTURE: plain.values(candidate)}
    assert space.size == plain.size
    assert space.to_json() != architectures(make(), {"batch_size": Constant(32)}).to_json()


def test_a_grid_goes_with_each_architecture() -> None:
    space = architectures(chains(), rates())
    every = list(space.enumerate())
    assert str(space.size) == str(len(every)) == str(len(set(every))) == str(6 * 9)
    assert space.tuned == {"learning_rate", "batch_size"}
    found = space.configuration(every[-1])
    assert found.constants == {ARCHITECTURE: {"layers": 2, "units 0": 16, "units 1": 16}, "dropout": 0.0}
    assert found.at(3) == {"learning_rate": 0.05, "batch_size": 32.0}
    assert found.unit == "epoch"
    with pytest.raises(InvalidInput):
        list(space.enumerate(50))


def test_both_parts_are_mutated() -> None:
    space = architectures(layers(), rates())
    rng = np.random.default_rng(0)
    candidate = space.sample(rng)
    architecture, point = space.split(candidate)
    parts = [space.split(space.mutate(candidate, rng)) for _ in range(100)]
    assert all((part[0] == architecture) != (part[1] == point) for part in parts)
    # Two choices of the one, three of the other.
    assert 25 <= sum(part[1] == point for part in parts) <= 55


def test_the_same_architecture_is_the_same_trajectory() -> None:
    space = architectures(layers(), rates())
    by_key: dict[str, set[str]] = {}
    for candidate in space.enumerate():
        configuration = space.configuration(candidate)
        key = Trajectory("layers-7", configuration).key(2)
        by_key.setdefault(key, set()).add(str((configuration.constants, configuration.at(0), configuration.at(1))))
    assert all(len(states) == 1 for states in by_key.values())
    assert len(by_key) == 9 * 3  # of each, what begins at a batch size and a dropout rate


@pytest.mark.parametrize(
    "make",
    [
        lambda: architectures(rates(), BATCHES),
        lambda: architectures("layers", BATCHES),  # type: ignore[arg-type]
        lambda: architectures(layers(), [Constant(0.1)]),  # type: ignore[arg-type]
        lambda: architectures(layers(), grid(units=[8, 16], learning_rate=[Constant(0.1)])),
        lambda: architectures(layers(), grid(**{ARCHITECTURE: [1], "learning_rate": [Constant(0.1)]})),
        lambda: architectures(chains(), grid(layers=[8], learning_rate=[Constant(0.1)])).sample(
            np.random.default_rng(0)
        ),
        lambda: architectures(layers(), rates()).configuration(Candidate((0,))),
        lambda: architectures(chains(), rates()).configuration(Candidate((0, 0, 0, 0, 0), tuple("abcde"))),
    ],
)
def test_what_can_t_be_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        make()
