"""How evolution makes a child: a mutation of one parent, or the options of two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON


class Parent(Protocol):
    """A member of a population."""

    @property
    def candidate(self) -> Candidate: ...


class Offspring:
    """Makes children.

    Parameters
    ----------
    beta:
        How much likelier the last choice of a space is to be mutated than the first (see
        :meth:`daskevo.space.ModelSpace.mutate`).
    crossover:
        The probability that a child takes its options from two parents.
    """

    def __init__(self, beta: float = 1.0, crossover: float = 0.0) -> None:
        if not (math.isfinite(beta) and beta > 0):
            raise InvalidInput(f"beta={beta}: use a number above 0 (1 mutates all choices alike)")
        if not 0 <= crossover <= 1:
            raise InvalidInput(f"crossover={crossover}: use a probability from 0 to 1")
        self.beta = float(beta)
        self.crossover = float(crossover)

    @property
    def settings(self) -> dict[str, JSON]:
        return {"beta": self.beta, "crossover": self.crossover}

    def of(
        self, space: ModelSpace, rng: np.random.Generator, parent: Parent, mate: Callable[[], Parent]
    ) -> Callable[[], Candidate]:
        """Return what makes children of a parent, another one with each call; `mate` picks the second parent."""
        # Drawn once for all calls, and not at all without crossover.
        if not (self.crossover and rng.random() < self.crossover):
            return lambda: space.mutate(parent.candidate, rng, beta=self.beta)
        other = mate()

        def cross() -> Candidate:
            child = space.crossover(parent.candidate, other.candidate, rng)
            # Of two alike there is nothing new to be had, and in an old population most are.
            is_new = child not in (parent.candidate, other.candidate)
            return child if is_new else space.mutate(child, rng, beta=self.beta)

        return cross
