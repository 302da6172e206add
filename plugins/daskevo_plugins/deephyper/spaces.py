"""Spaces of daskevo as problems of DeepHyper, and the other way, where all candidates have the same choices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, Constant, OrdinalHyperparameter
from deephyper.hpo import HpProblem

from daskevo.errors import InvalidInput
from daskevo.space import Choice, Space
from daskevo.types import JSON
from daskevo_plugins.deephyper.configurations import names_in_order, values_of


def to_hp_problem(space: Space) -> HpProblem:
    """Return a space as a problem of DeepHyper's.

    Numbers in order become an ordinal hyperparameter, so that neighbours inform each other, texts and booleans a
    categorical one; other options (None, lists, several types) stand as their JSON text, which `options_of` reads. The
    space's `reject` becomes the problem's constraint, which DeepHyper's CBO and our AgedEvolution follow; its
    RandomSearch and RegularizedEvolution don't look at it.

    Raises
    ------
    InvalidInput
        If the space's choices depend on each other (a `Builder`).

    Examples
    --------
    >>> space = Space("tiny", (Choice("units", (16, 32)), Choice("activation", ("relu", None))))
    >>> problem = to_hp_problem(space)
    >>> problem.space["units"].sequence
    (16, 32)
    >>> options_of(space, {"units": 32, "activation": "null"})
    {'units': 32, 'activation': None}
    """
    _check_static(space)
    problem = HpProblem()
    for choice in space.choices:
        problem.add(_hyperparameter(choice))
    if space.reject is not None:
        problem.set_constraint_fn(_Constraint(space))
    return problem


def options_of(space: Space, parameters: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the options that a configuration of `to_hp_problem(space)` takes, by choice.

    Raises
    ------
    InvalidInput
        If a choice is missing or doesn't have the option.
    CandidateRejected
        If the space rejects it.
    """
    _check_static(space)
    names = [choice.name for choice in space.choices]
    if missing := [name for name in names if name not in parameters]:
        raise InvalidInput(f"a configuration of space {space.name!r} has no {missing[:10]!r:.200}")
    options: dict[str, JSON] = {}
    for choice in space.choices:
        known = _values(choice)
        # Looked up, not read: what comes back from a table may be another kind of number.
        index = known.index(parameters[choice.name]) if parameters[choice.name] in known else None
        if index is None:
            raise InvalidInput(f"choice {choice.name!r} of space {space.name!r} has no {parameters[choice.name]!r:.80}")
        options[choice.name] = choice.options[index]
    return space.values(space.candidate(options))


def space_of(problem: HpProblem | ConfigurationSpace, name: str = "deephyper") -> Space:
    """Return a problem of DeepHyper's, or a ConfigurationSpace, as a space.

    Forbidden clauses and the problem's constraint become the space's `reject`.

    Raises
    ------
    InvalidInput
        If a hyperparameter is a real number, or depends on another: then say the space in a
        :class:`daskevo.space.Builder`, or search with :class:`daskevo_plugins.deephyper.AgedEvolution`.
    """
    found = problem.space if isinstance(problem, HpProblem) else problem
    if found.conditions:
        child = found.conditions[0].child.name
        raise InvalidInput(
            f"hyperparameter {child!r} depends on another, and all candidates of a Space have the same choices: say it "
            "in a daskevo.space.Builder, or search with daskevo_plugins.deephyper.AgedEvolution"
        )
    names = names_in_order(problem) if isinstance(problem, HpProblem) else list(found)
    choices = [Choice(name, tuple(values_of(found[name]))) for name in names]
    constraint = problem.constraint_fn if isinstance(problem, HpProblem) else None

    def reject(options: dict[str, JSON]) -> str | None:
        for clause in found.forbidden_clauses:
            if clause.is_forbidden_value(options):
                return f"forbidden: {clause}"
        if constraint is not None and not bool(constraint(pd.DataFrame([options])).all()):
            return "the problem's constraint forbids it"
        return None

    return Space(name, choices, reject if found.forbidden_clauses or constraint is not None else None)


class _Constraint:
    """A space's `reject`, as DeepHyper asks: of a table of configurations, or of one."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def __call__(self, asked: Any) -> Any:
        if isinstance(asked, Mapping):
            return self._accepts(asked)
        accepted = [self._accepts(row) for row in asked.to_dict(orient="records")]
        return pd.Series(accepted, index=asked.index, dtype=bool)

    def _accepts(self, parameters: Mapping[str, Any]) -> bool:
        assert self._space.reject is not None
        taken = {
            choice.name: choice.options[_values(choice).index(parameters[choice.name])]
            for choice in self._space.choices
        }
        return self._space.reject(taken) is None


def _hyperparameter(choice: Choice) -> Any:
    values = _values(choice)
    if len(values) == 1:
        return Constant(choice.name, values[0])
    if _are_numbers(choice.options) and list(choice.options) == sorted(choice.options):
        return OrdinalHyperparameter(choice.name, values)
    return CategoricalHyperparameter(choice.name, values)


def _values(choice: Choice) -> list[Any]:
    """Return what stands for each option of a choice in ConfigSpace: itself, or its JSON text."""
    options = list(choice.options)
    if all(isinstance(option, str) for option in options) or _are_numbers(options):
        return options
    if len(options) > 1 and all(isinstance(option, bool) for option in options):
        return options
    return [json.dumps(option, sort_keys=True) for option in options]


def _are_numbers(options: Any) -> bool:
    kinds = {type(option) for option in options}
    return kinds in ({int}, {float})


def _check_static(space: Any) -> None:
    if not isinstance(space, Space):
        raise InvalidInput(
            f"{type(space).__name__} {getattr(space, 'name', '')!r:.80} is no space with the same choices for all: "
            "DeepHyper's conditions can't say it; search it with daskevo_workflows.nas"
        )
