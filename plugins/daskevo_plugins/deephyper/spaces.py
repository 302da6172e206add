"""Spaces of daskevo as problems of DeepHyper, and the other way, where all candidates have the same choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from ConfigSpace import ConfigurationSpace
from deephyper.hpo import HpProblem

from daskevo.errors import InvalidInput
from daskevo.space import Space, candidate_of, from_configuration_space
from daskevo.space.configurations import configured, hyperparameter_of
from daskevo.space.product import check_static
from daskevo.types import JSON
from daskevo_plugins.deephyper.configurations import names_in_order

NO_CONDITIONS = "DeepHyper's conditions can't say it; search it with daskevo_workflows.nas"


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
    >>> from daskevo.space import Choice
    >>> space = Space("tiny", (Choice("units", (16, 32)), Choice("activation", ("relu", None))))
    >>> problem = to_hp_problem(space)
    >>> problem.space["units"].sequence
    (16, 32)
    >>> options_of(space, {"units": 32, "activation": "null"})
    {'units': 32, 'activation': None}
    """
    check_static(space, NO_CONDITIONS)
    problem = HpProblem()
    for choice in space.choices:
        problem.add(hyperparameter_of(choice))
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
    check_static(space, NO_CONDITIONS)
    return space.values(candidate_of(space, parameters))


def space_of(problem: HpProblem | ConfigurationSpace, name: str = "deephyper") -> Space:
    """Return a problem of DeepHyper's, or a ConfigurationSpace, as a space.

    Forbidden clauses and the problem's constraint become the space's `reject`.

    Raises
    ------
    InvalidInput
        If a hyperparameter is a real number, or depends on another: then say the space in a
        :class:`daskevo.space.Builder`, or search with :class:`daskevo_plugins.deephyper.AgedEvolution`.
    """
    if isinstance(problem, HpProblem):
        found, names, constraint = problem.space, names_in_order(problem), problem.constraint_fn
    else:
        found, names, constraint = problem, list(problem), None
    try:
        space = from_configuration_space(found, name)
    except InvalidInput as error:
        raise InvalidInput(f"{error.message}; or search with daskevo_plugins.deephyper.AgedEvolution") from error
    by_name = {choice.name: choice for choice in space.choices}

    def reject(options: dict[str, JSON]) -> str | None:
        if space.reject is not None and (reason := space.reject(options)) is not None:
            return reason
        if constraint is not None and not bool(constraint(pd.DataFrame([options])).all()):
            return "the problem's constraint forbids it"
        return None

    choices = [by_name[each] for each in names]
    return Space(name, choices, reject if space.reject is not None or constraint is not None else None)


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
            choice.name: choice.options[configured(choice).index(parameters[choice.name])]
            for choice in self._space.choices
        }
        return self._space.reject(taken) is None
