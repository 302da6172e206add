"""Make children in evolution: by mutating one parent, or by combining the options of two."""

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
    """Makes children by mutation and crossover.

    Parameters
    ----------
    beta:
        How much more likely the last choice of a space is mutated than the first (see
        :meth:`daskevo.space.ModelSpace.mutate`).
    crossover:
        Probability that a child combines the options of two parents.
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
        """Return a function that makes another child of a parent at each call; `mate` picks a second parent."""
        # Drawn once for all calls; without crossover no random number is used, so such runs stay as they were.
        if not (self.crossover and rng.random() < self.crossover):
            return lambda: space.mutate(parent.candidate, rng, beta=self.beta)
        other = mate()

        def cross() -> Candidate:
            child = space.crossover(parent.candidate, other.candidate, rng)
            # Equal parents give nothing new, and in an old population most are alike.
            is_new = child not in (parent.candidate, other.candidate)
            return child if is_new else space.mutate(child, rng, beta=self.beta)

        return cross
