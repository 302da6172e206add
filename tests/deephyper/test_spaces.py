"""Spaces to problems of DeepHyper and back."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")

import ConfigSpace as cs
from deephyper.hpo import HpProblem

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.space import Builder, Choice, Space
from daskevo_plugins.deephyper import options_of, space_of, to_hp_problem

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

CHOICES = (
    Choice("in order", (8, 16, 32)),
    Choice("not in order", (3, 1, 2)),
    Choice("text", ("relu", "tanh")),
    Choice("switch", (False, True)),
    Choice("layer", (None, [16, "relu"], [16, "tanh"], [])),
    Choice("alike", (1, 1.0, True, "1")),
    Choice("one", (None,)),
    Choice("real", (0.1, 0.5)),
)


def test_there_and_back() -> None:
    space = Space("all", CHOICES)
    problem = to_hp_problem(space)
    assert isinstance(problem.space["in order"], cs.OrdinalHyperparameter)
    assert isinstance(problem.space["not in order"], cs.CategoricalHyperparameter)
    problem.set_seed(0)
    met = set()
    for configuration in problem.sample(300):
        options = options_of(space, configuration)
        candidate = space.candidate(options)
        assert space.values(candidate) == options
        met |= set(enumerate(candidate.values))
    assert met == {(place, index) for place, choice in enumerate(CHOICES) for index in range(len(choice.options))}


def test_reject_is_the_constraint() -> None:
    space = Space("some", CHOICES[:2], lambda options: "too much" if sum(options.values()) > 18 else None)
    problem = to_hp_problem(space)
    assert all(sum(configuration.values()) <= 18 for configuration in problem.sample(50))
    assert problem.check_configuration({"in order": 8, "not in order": 2}, raise_if_not_valid=False)
    assert not problem.check_configuration({"in order": 32, "not in order": 2}, raise_if_not_valid=False)
    with pytest.raises(CandidateRejected, match="too much"):
        options_of(space, {"in order": 32, "not in order": 1})


def test_a_problem_is_a_space() -> None:
    problem = HpProblem()
    width = problem.add_hyperparameter((1, 4), "width")
    activation = problem.add_hyperparameter(["relu", "tanh"], "activation")
    problem.add_hyperparameter([0.1, 0.2], "rate")
    problem.add_hyperparameter(3, "depth")
    problem.add_forbidden_clause(
        cs.ForbiddenAndConjunction(cs.ForbiddenEqualsClause(width, 1), cs.ForbiddenEqualsClause(activation, "tanh"))
    )
    problem.set_constraint_fn(lambda frame: frame["width"] != 4)
    space = space_of(problem, "mine")
    assert [choice.options for choice in space.choices] == [(1, 2, 3, 4), ("relu", "tanh"), (0.1, 0.2), (3,)]
    assert str(space.size) == str((4 * 2 - 1 - 2) * 2)
    assert {type(value) for value in space.values(space.sample(np.random.default_rng(0))).values()} == {int, str, float}
    assert space_of(to_hp_problem(Space("mine", CHOICES[:4])), "mine") == Space("mine", CHOICES[:4])
    assert space_of(problem.space).size == space_of(problem.space, "deephyper").size


def test_what_a_space_cannot_say() -> None:
    real = HpProblem()
    real.add((0.0, 1.0), "rate")
    with pytest.raises(InvalidInput, match="'rate' takes any real number: list the values"):
        space_of(real)
    switch = real.add_hyperparameter([False, True], "switch")
    real.add_condition(cs.EqualsCondition(real["rate"], switch, True))
    with pytest.raises(InvalidInput, match="'rate' depends on another"):
        space_of(real)
    with pytest.raises(InvalidInput, match="no space with the same choices for all"):
        to_hp_problem(Builder("own", lambda choose: choose("a", (1, 2))))
    space = Space("all", CHOICES)
    with pytest.raises(InvalidInput, match="has no"):
        options_of(space, {})
    with pytest.raises(InvalidInput, match="'in order' of space 'all' has no 7"):
        options_of(space, {choice.name: 7 for choice in CHOICES})
