"""Track the best reports of a run: by quality, or with several objectives the non-dominated front.

Pure. It also decides which of them stay in the repository.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

from daskevo.search import Report
from daskevo.search.pareto import crowding, front, ranks_of
from daskevo.types import Objective


class Moves(NamedTuple):
    """Changes of the kept reports, by number: newly kept, and no longer kept."""

    entered: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


class Leaders:
    """Finished reports, ordered by quality; of a candidate that is trained in parts, the best part.

    Parameters
    ----------
    objectives:
        What counts as better. With one, the best are kept. With several, the front is kept; if it has more than
        `keep` members, those with the largest crowding distance, extremes first. A report that was dropped is not
        kept again.
    keep:
        Number of reports kept, at most.
    """

    def __init__(self, objectives: Sequence[Objective], keep: int) -> None:
        self._objectives = tuple(objectives)
        self._keep = keep
        self._ranks: dict[int, tuple[float, ...]] = {}
        self._ordered: list[tuple[float, int]] = []
        self._best_part: dict[int, int] = {}
        """Number of a report -> that of a better part of the same candidate, or its own if there is none."""
        self._front: list[int] = []
        self.kept: list[int] = []
        """Numbers of the reports whose models are kept, best first by the first objective."""

    def add(self, report: Report, continues: int | None = None) -> Moves:
        """Add a report; one without a finite value for each objective is never among the best.

        Parameters
        ----------
        continues:
            Number of the report of the same candidate whose training this one goes on with.
        """
        ranks = ranks_of(self._objectives, {**report.metrics, self._objectives[0].metric: report.own_quality})
        if ranks is None:
            return Moves()
        self._ranks[report.number] = ranks
        self._put_in_order(report.number, None if continues is None else self._best_part_of(continues))
        before = self.kept
        if len(self._objectives) == 1:
            self.kept = self.best(self._keep)
        else:
            self.kept = self._kept_of_the_front(report.number)
        return Moves(
            tuple(number for number in self.kept if number not in before),
            tuple(number for number in before if number not in self.kept),
        )

    def _best_part_of(self, number: int) -> int | None:
        while (better := self._best_part.get(number)) not in (None, number):
            number = better
        return better

    def _put_in_order(self, number: int, earlier: int | None) -> None:
        """Put a report in the place of the best earlier part of its candidate, if it is better."""
        # Ties go to the earlier report, so that the order is unique.
        place = -self._ranks[number][0], number
        if earlier is not None:
            other = -self._ranks[earlier][0], earlier
            if other < place:
                self._best_part[number] = earlier
                return
            self._ordered.remove(other)
            self._best_part[earlier] = number
        self._best_part[number] = number
        insort(self._ordered, place)

    def _kept_of_the_front(self, newcomer: int) -> list[int]:
        self._front = self._undominated([*self._front, newcomer])
        kept = [number for number in [*self.kept, newcomer] if number in self._front]
        if len(kept) > self._keep:
            distances = crowding([self._ranks[number] for number in kept])
            # Among equally crowded ones drop the latest.
            kept.remove(min(zip(distances, (-number for number in kept), kept, strict=True))[2])
        return self._sorted(kept)

    def _undominated(self, numbers: Sequence[int]) -> list[int]:
        return [numbers[index] for index in front([self._ranks[number] for number in numbers])]

    def _sorted(self, numbers: Sequence[int]) -> list[int]:
        return sorted(numbers, key=lambda number: (-self._ranks[number][0], number))

    def best(self, k: int | None = None) -> list[int]:
        """Return the numbers of the best by the first objective, best first."""
        return [number for _, number in self._ordered[:k]]

    def front(self) -> list[int]:
        """Return the numbers of those that no other dominates, best first by the first objective."""
        if len(self._objectives) > 1:
            return self._sorted(self._front)
        return [number for number in self.best() if self._ranks[number] == self._ranks[self._ordered[0][1]]]
