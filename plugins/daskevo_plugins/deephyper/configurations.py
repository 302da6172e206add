"""Configurations of an HpProblem: drawn, mutated with a forced change, and listed; conditions and clauses are followed.

A configuration has a value for every hyperparameter: inactive ones have the value that DeepHyper gives them, so that
equal configurations are equal.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from ConfigSpace import CategoricalHyperparameter, Configuration, Constant, OrdinalHyperparameter
from deephyper.hpo import HpProblem
from deephyper.hpo.utils import get_inactive_value_of_hyperparameter

from daskevo.space.configurations import plain_value, values_of

_DRAWS = 100


class Configurations:
    """All configurations of a problem.

    Parameters
    ----------
    problem:
        Seeded from `random_state`.
    random_state:
        A `numpy.random.RandomState`, as DeepHyper uses them.
    """

    def __init__(self, problem: HpProblem, random_state: np.random.RandomState) -> None:
        self._problem = problem
        self._space = problem.space
        self._rng = random_state
        self._order = names_in_order(problem)
        # ConfigSpace draws by a generator of its own: seeded from the search's, so that a search can be repeated.
        problem.set_seed(int(random_state.randint(0, np.iinfo(np.int32).max)))

    def drawn(self) -> dict[str, Any] | None:
        """Return a random configuration; None if it isn't allowed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            if self._problem.sampling_fn is not None:
                found = self._problem.sampling_fn(1)[0]
            else:
                found = dict(self._space.sample_configuration())
        return self._settled(found)

    def mutated(self, parent: Mapping[str, Any], beta: float) -> dict[str, Any] | None:
        """Return a configuration with another value at one active hyperparameter; None if it isn't allowed."""
        active = self._active(parent)
        names = [name for name in active if not isinstance(self._space[name], Constant)]
        if not names:
            return None
        odds = dict(zip(self._order, np.linspace(1.0, beta, len(self._order)), strict=True))
        weights = np.array([odds[name] for name in names])
        name = str(self._rng.choice(names, p=weights / weights.sum()))
        value = self._other(name, parent[name])
        return None if value is None else self._settled({**parent, name: value}, active)

    def listed(self, most: int) -> Iterator[dict[str, Any]]:
        """Yield every configuration once; none at all if there are more than `most`, or real numbers."""
        sizes = [hyperparameter.size for hyperparameter in self._space.values()]
        # A real number has infinitely many values.
        if not math.prod(sizes) <= most:
            return
        every = itertools.product(*(values_of(hyperparameter) for hyperparameter in self._space.values()))
        # Configurations that differ only in hyperparameters that are inactive in both are one.
        listed: set[tuple[Any, ...]] = set()
        for values in every:
            found = self._settled(dict(zip(self._space, values, strict=True)))
            if found is not None and tuple(found.values()) not in listed:
                listed.add(tuple(found.values()))
                yield found

    def _active(self, configuration: Mapping[str, Any]) -> frozenset[str]:
        found: dict[str, Any] = {}
        for name in self._space:  # parents of a condition come first
            if self._is_active(name, found):
                found[name] = configuration[name]
        return frozenset(found)

    def _is_active(self, name: str, active: Mapping[str, Any]) -> bool:
        def holds(condition: Any) -> bool:
            try:
                return bool(condition.satisfied_by_value(active))
            except KeyError:  # what it depends on is inactive
                return False

        return all(holds(condition) for condition in self._space.parent_conditions_of[name])

    def _settled(
        self, configuration: Mapping[str, Any], was_active: frozenset[str] | None = None
    ) -> dict[str, Any] | None:
        """Return a whole configuration, or None if it isn't allowed.

        Inactive hyperparameters get the usual value; active ones that were not active in `was_active` are drawn.
        """
        active: dict[str, Any] = {}
        for name in self._space:
            if self._is_active(name, active):
                keeps = was_active is None or name in was_active
                active[name] = configuration[name] if keeps else self._space[name].sample_value(seed=self._rng)
        try:
            # Made only to have ConfigSpace check it.
            Configuration(self._space, values=active)
        except ValueError:  # a forbidden clause
            return None
        full = self._full(active)
        constraint = self._problem.constraint_fn
        if constraint is not None and not bool(np.all(constraint(pd.DataFrame([full])))):
            return None
        return full

    def _full(self, active: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: plain_value(active[name] if name in active else get_inactive_value_of_hyperparameter(hyperparameter))
            for name, hyperparameter in self._space.items()
        }

    def _other(self, name: str, value: Any) -> Any:
        """Return another value of a hyperparameter, or None if it has no other."""
        hyperparameter = self._space[name]
        if isinstance(hyperparameter, (CategoricalHyperparameter, OrdinalHyperparameter)):
            others = [other for other in values_of(hyperparameter) if other != value]
            return others[int(self._rng.randint(len(others)))] if others else None
        for _ in range(_DRAWS):
            other = plain_value(hyperparameter.sample_value(seed=self._rng))
            if other != value:
                return other
        return None


def names_in_order(problem: HpProblem) -> list[str]:
    """Return the hyperparameters as they were added; ConfigSpace sorts them by the alphabet."""
    added = [name for name in problem.skopt_dims if name in problem.space]
    return [*added, *(name for name in problem.space if name not in added)]
