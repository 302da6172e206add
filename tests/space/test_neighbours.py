"""Neighbours: against all candidates that answer one shared choice otherwise, on product and conditional spaces."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.space import Builder, Candidate, Choice, ModelSpace, Space, neighbours


def chain(choose: Any) -> None:
    for number in range(choose("layers", (1, 2, 3))):
        if choose(f"kind {number}", ("dense", "none")) == "dense":
            choose(f"units {number}", (8, 16))


def narrow(choose: Any) -> None:
    """What is offered later depends on what was taken, and some don't go together."""
    widest = choose("first", (1, 2, 3))
    if choose("second", tuple(range(1, widest + 1))) == 2 and choose("third", ("a", "b", "c")) == "b":
        raise CandidateRejected("no b")


PRODUCT = Space("product", (Choice("a", (1, 2, None)), Choice("one", ("only",)), Choice("b", (1, 2, 3, 4))))
REJECTING = Space("rejecting", PRODUCT.choices, lambda taken: "alike" if taken["a"] == taken["b"] else None)
CHAINS, NARROW = Builder("chains", chain), Builder("narrow", narrow)


def differences(space: ModelSpace, one: Candidate, other: Candidate) -> list[str]:
    """Choices that both have, which `other` answers otherwise although it could answer them as `one` does."""
    taken, options = space.values(one), space.values(other)
    offered = {choice.name: choice for choice in space.choices_of(other)}
    return [
        name
        for name in taken.keys() & options.keys()
        if taken[name] != options[name] and offered[name].find(taken[name]) is not None
    ]


@pytest.mark.parametrize("space", [PRODUCT, REJECTING, CHAINS, NARROW], ids=lambda space: space.name)
def test_all_that_answer_one_choice_otherwise(space: ModelSpace) -> None:
    every = list(space.enumerate())
    for candidate in every:
        found = list(neighbours(space, candidate))
        assert len(found) == len(set(found))
        assert set(found) == {other for other in every if len(differences(space, candidate, other)) == 1}


@pytest.mark.parametrize("space", [PRODUCT, REJECTING, CHAINS], ids=lambda space: space.name)
def test_a_neighbour_has_the_candidate_as_a_neighbour(space: ModelSpace) -> None:
    for candidate in space.enumerate():
        assert all(candidate in set(neighbours(space, other)) for other in neighbours(space, candidate))


def test_a_mutation_of_a_product_is_a_neighbour() -> None:
    rng = np.random.default_rng(0)
    candidate = REJECTING.sample(rng)
    around = set(neighbours(REJECTING, candidate))
    assert {REJECTING.mutate(candidate, rng) for _ in range(200)} == around


def test_they_are_made_as_they_are_asked_for() -> None:
    made = 0

    def build(choose: Any) -> None:
        nonlocal made
        made += 1
        if choose("long", (False, True)):
            for number in range(40):
                choose(f"c{number}", (0, 1))

    space = Builder("long", build)
    short = space.candidate({"long": False})
    assert len(list(islice(neighbours(space, short), 5))) == 5
    assert made < 10


def test_a_candidate_of_another_space_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput):
        neighbours(PRODUCT, Candidate((0,)))
    with pytest.raises(CandidateRejected, match="alike"):
        neighbours(REJECTING, Candidate((0, 0, 0)))
