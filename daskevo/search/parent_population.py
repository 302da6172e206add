"""Base class of evolutionary strategies: fill a population at random, then make children of its members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.search.departures import Leaving
from daskevo.search.drawing import Seen, one_by_one, unseen
from daskevo.search.offspring import Offspring, Parent
from daskevo.search.requests import Request, Stop, View
from daskevo.space import ModelSpace
from daskevo.types import ModelId, Objective


class Named(Parent, Protocol):
    """What all kinds of population members have in common."""

    @property
    def model_id(self) -> ModelId: ...


P = TypeVar("P", bound=Named)


class Evolving(Leaving, ABC, Generic[P]):
    """Asks for random candidates until the population is full, then for children.

    Parameters
    ----------
    population:
        Population size. Candidates are random until it is reached.
    offspring:
        Makes children.
    """

    def __init__(self, population: int, offspring: Offspring) -> None:
        if population < 1:
            raise InvalidInput(f"population={population}: use 1 or more members")
        self.size = population
        self.offspring = offspring

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        self._space = space
        self._objectives = tuple(objectives)
        self._seed = seed
        self._members: list[P] = []
        self._left: list[ModelId] = []

    @abstractmethod
    def _parent(self, rng: np.random.Generator) -> P:
        """Pick a parent from the members."""

    def ask(self, view: View) -> list[Request] | Stop:
        def make(offset: int, rng: np.random.Generator, seen: Seen) -> Request | Stop:
            # Pending requests count as members, or many trainers would make far more random candidates than needed.
            is_full = len(self._members) + len(view.pending) + offset >= self.size
            parent = self._parent(rng) if is_full and self._members else None
            propose = (
                partial(self._space.sample, rng)
                if parent is None
                else self.offspring.of(self._space, rng, parent, partial(self._parent, rng))
            )
            candidate = unseen(self._space, propose, seen, rng)
            if isinstance(candidate, Stop):
                return candidate
            return view.request(offset, candidate, parent=None if parent is None else parent.model_id)

        return one_by_one(view, self._seed, make)

    def population(self) -> Sequence[ModelId]:
        return [member.model_id for member in self._members]
