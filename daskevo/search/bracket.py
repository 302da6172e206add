"""A bracket: candidates that begin together, of whom the best go on at each rung."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from daskevo.space import Candidate
from daskevo.types import ModelId


class Plan(NamedTuple):
    """What a bracket begins with: so many candidates, compared at these steps."""

    size: int
    steps: tuple[int, ...]


class RungResult(NamedTuple):
    """What came of a candidate at a rung: `rank` is larger for better ones, None if it ended there."""

    number: int
    candidate: Candidate
    name: ModelId
    rank: float | None
    continues: ModelId | None


class Bracket:
    """One bracket of successive halving, as far as it has been told.

    Parameters
    ----------
    plan:
        What it begins with.
    eta:
        One of so many goes on.
    """

    def __init__(self, plan: Plan, eta: int) -> None:
        self.size, self.steps = plan
        self.eta = eta
        self.rungs: list[list[RungResult]] = [[] for _ in self.steps]

    @property
    def is_begun(self) -> bool:
        """Whether all its candidates have been told at the first rung: so many, or fewer where a space had no more."""
        return len(self.rungs[0]) >= self.size or any(self.rungs[1:])

    @property
    def is_over(self) -> bool:
        """Whether there is nobody to go on."""
        return self.is_begun and self.rising() is None

    def promoted(self, rung: int) -> list[RungResult]:
        """Return who goes on from a rung that is complete, best first; of equal ones those asked first.

        They are so many of the candidates that began, whatever became of others, and one at least.
        """
        count = max(1, len(self.rungs[0]) // self.eta ** (rung + 1))
        usable = [result for result in self.rungs[rung] if result.rank is not None]
        return sorted(usable, key=_standing)[:count]

    def rising(self) -> tuple[int, Sequence[RungResult]] | None:
        """Return the rung that isn't complete, and who goes on to it; None if there is none. The first is complete."""
        for rung in range(1, len(self.steps)):
            promoted = self.promoted(rung - 1)
            if len(self.rungs[rung]) < len(promoted):
                return rung, promoted
        return None


def _standing(result: RungResult) -> tuple[float, int]:
    assert result.rank is not None
    return -result.rank, result.number
