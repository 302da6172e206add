"""A bracket of successive halving: candidates that start together; at each rung the best continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from daskevo.space import Candidate
from daskevo.types import ModelId


class Plan(NamedTuple):
    """The start of a bracket: number of candidates, and the steps at which they are compared."""

    size: int
    steps: tuple[int, ...]


class RungResult(NamedTuple):
    """A candidate's result at a rung; a larger `rank` is better, None means that it failed there."""

    number: int
    candidate: Candidate
    name: ModelId
    rank: float | None
    continues: ModelId | None


class Bracket:
    """One bracket of successive halving, with the reports so far.

    Parameters
    ----------
    plan:
        Number of candidates and steps of the rungs.
    eta:
        One in `eta` candidates is promoted.
    """

    def __init__(self, plan: Plan, eta: int) -> None:
        self.size, self.steps = plan
        self.eta = eta
        self.rungs: list[list[RungResult]] = [[] for _ in self.steps]

    @property
    def is_begun(self) -> bool:
        """Whether all its candidates have been reported at the first rung (fewer, if the space had no more)."""
        return len(self.rungs[0]) >= self.size or any(self.rungs[1:])

    @property
    def is_over(self) -> bool:
        """Whether no candidate is left to continue."""
        return self.is_begun and self.rising() is None

    def promoted(self, rung: int) -> list[RungResult]:
        """Return the candidates promoted from a complete rung, best first, ties by order of asking.

        Their number depends only on how many candidates started, and is at least one; failures don't reduce it.
        """
        count = max(1, len(self.rungs[0]) // self.eta ** (rung + 1))
        usable = [result for result in self.rungs[rung] if result.rank is not None]
        return sorted(usable, key=_standing)[:count]

    def rising(self) -> tuple[int, Sequence[RungResult]] | None:
        """Return the rung to fill next and the candidates promoted to it, or None; the first rung must be complete."""
        for rung in range(1, len(self.steps)):
            promoted = self.promoted(rung - 1)
            if len(self.rungs[rung]) < len(promoted):
                return rung, promoted
        return None


def _standing(result: RungResult) -> tuple[float, int]:
    assert result.rank is not None
    return -result.rank, result.number
