"""Spaces as ConfigSpace's and back: values, what is rejected, neighbours, and what can't be said there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

cs = pytest.importorskip("ConfigSpace", reason="ConfigSpace isn't installed: pip install 'daskevo[configspace]'")
from ConfigSpace.util import get_one_exchange_neighbourhood  # noqa: E402

from daskevo.errors import CandidateRejected, InvalidInput  # noqa: E402
from daskevo.space import (  # noqa: E402
    Builder,
    Choice,
    Size,
    Space,
    candidate_of,
    configuration_of,
    from_configuration_space,
    neighbours,
    to_configuration_space,
    to_vectors,
)

CHOICES = (
    Choice("alike", (1, 1.0, True, "1")),
    Choice("in order", (8, 16, 32)),
    Choice("layer", (None, [16, "relu"], [])),
    Choice("one", (None,)),
    Choice("out of order", (3, 1, 2)),
    Choice("switch", (False, True)),
    Choice("text", ("relu", "tanh")),
)
SPACE = Space("all", CHOICES)


def alike(taken: dict[str, Any]) -> str | None:
    return "alike" if len(set(taken.values())) < len(taken) else None


LETTERS = Space("letters", tuple(Choice(name, ("a", "b", "c", "d")) for name in "xyz"), alike)


def test_there_and_back() -> None:
    found = to_configuration_space(SPACE)
    assert found.name == "all"
    assert isinstance(found["in order"], cs.OrdinalHyperparameter)
    assert isinstance(found["out of order"], cs.CategoricalHyperparameter)
    found.seed(0)
    met = set()
    for configuration in found.sample_configuration(300):
        candidate = candidate_of(SPACE, configuration)
        assert cs.Configuration(found, values=configuration_of(SPACE, candidate)) == configuration
        met |= set(enumerate(candidate.values))
    assert met == {(place, index) for place, choice in enumerate(CHOICES) for index in range(len(choice.options))}
    # What no JSON text had to stand for comes back as the same space.
    plain = Space("plain", [choice for choice in CHOICES if choice.name not in ("alike", "layer", "one")])
    assert from_configuration_space(to_configuration_space(plain)) == plain


def test_it_can_be_written_and_read(tmp_path: Path) -> None:
    for space in (SPACE, LETTERS):
        found = to_configuration_space(space)
        found.to_json(tmp_path / "space.json")
        assert cs.ConfigurationSpace.from_json(tmp_path / "space.json") == found


def test_what_is_rejected_is_forbidden() -> None:
    assert LETTERS.size == Size("exact", 4 * 3 * 2)
    found = to_configuration_space(LETTERS)
    assert len(found.forbidden_clauses) == 64 - 24
    found.seed(1)
    drawn = {candidate_of(LETTERS, configuration) for configuration in found.sample_configuration(400)}
    assert drawn == set(LETTERS.enumerate())
    back = from_configuration_space(found)
    assert back.size == LETTERS.size
    assert set(back.enumerate()) == set(LETTERS.enumerate())
    single = Space("single", CHOICES[1:2], lambda taken: "eight" if taken["in order"] == 8 else None)
    assert to_configuration_space(single)["in order"].default_value == 16


def test_rejected_candidates_that_are_too_many_to_list() -> None:
    many = Space("many", tuple(Choice(f"c{n}", tuple(range(9))) for n in range(4)), alike)
    with pytest.raises(InvalidInput, match=r"rejects 3537 of its 6561 candidates.*without `reject`"):
        to_configuration_space(many)
    endless = Space("endless", tuple(Choice(f"c{n}", tuple(range(9))) for n in range(9)), alike)
    with pytest.raises(InvalidInput, match="unknown number"):
        to_configuration_space(endless)
    with pytest.raises(InvalidInput, match="rejects all"):
        to_configuration_space(Space("closed", CHOICES[:1], lambda taken: "closed"))
    free = to_configuration_space(Space("endless", endless.choices))
    assert free.forbidden_clauses == []
    with pytest.raises(CandidateRejected, match="alike"):
        candidate_of(endless, free.get_default_configuration())


def test_configspace_has_the_same_neighbours_of_categories() -> None:
    found = to_configuration_space(LETTERS)
    for candidate in LETTERS.enumerate():
        configuration = cs.Configuration(found, values=configuration_of(LETTERS, candidate))
        theirs = {candidate_of(LETTERS, each) for each in get_one_exchange_neighbourhood(configuration, seed=0)}
        assert theirs == set(neighbours(LETTERS, candidate))


def test_configspace_has_the_same_vectors() -> None:
    """Of an ordinal its place, which is ours before it is scaled; of a category its index, which is our column."""
    space = Space("two", (Choice("a", (8, 16, 32)), Choice("b", ("x", "y", "z"))))
    found = to_configuration_space(space)
    for candidate in space.enumerate():
        theirs = cs.Configuration(found, values=configuration_of(space, candidate)).get_array()
        (ours,) = to_vectors(space, [candidate])
        assert ours[0] == theirs[0] / 2
        assert np.argmax(ours[1:]) == theirs[1]


def test_a_configuration_space_is_a_space() -> None:
    found = cs.ConfigurationSpace()
    width, pair = cs.Integer("width", (1, 4)), cs.Categorical("pair", [(1, 2), (3, 4)])
    found.add(width, pair, cs.Constant("depth", 3))
    found.add(cs.ForbiddenAndConjunction(cs.ForbiddenEqualsClause(width, 1), cs.ForbiddenEqualsClause(pair, (3, 4))))
    space = from_configuration_space(found, "mine")
    assert {choice.name: choice.options for choice in space.choices} == {
        "depth": (3,),
        "pair": ([1, 2], [3, 4]),
        "width": (1, 2, 3, 4),
    }
    assert space.size == Size("exact", 7)
    with pytest.raises(CandidateRejected, match="forbidden"):
        space.candidate({"depth": 3, "pair": [3, 4], "width": 1})


def test_what_cannot_be_said() -> None:
    real = cs.ConfigurationSpace({"rate": (0.0, 1.0), "switch": [False, True]})
    with pytest.raises(InvalidInput, match="'rate' takes any real number: list the values"):
        from_configuration_space(real)
    real.add(cs.EqualsCondition(real["rate"], real["switch"], True))
    with pytest.raises(InvalidInput, match="'rate' depends on another"):
        from_configuration_space(real)
    own: Any = Builder("own", lambda choose: choose("a", (1, 2)))
    with pytest.raises(InvalidInput, match="no space with the same choices for all"):
        to_configuration_space(own)
    with pytest.raises(InvalidInput, match=r"has no \['alike'"):
        candidate_of(SPACE, {})
    with pytest.raises(InvalidInput, match="'in order' of space 'all' has no 7"):
        candidate_of(Space("all", CHOICES[1:2]), {"in order": 7})


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo.space.configurations.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "ConfigSpace", None)
    with pytest.raises(InvalidInput, match=r"pip install 'daskevo\[configspace\]'"):
        to_configuration_space(SPACE)
    # Values are read and made without it.
    candidate = SPACE.sample(np.random.default_rng(0))
    assert candidate_of(SPACE, configuration_of(SPACE, candidate)) == candidate
