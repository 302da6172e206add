"""Multi-objective evolution after NSGA-II, with one evaluation at a time instead of generations.

Deb, Pratap, Agarwal and Meyarivan, "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II", IEEE Transactions on
Evolutionary Computation 6(2), 2002. The paper's algorithm evaluates a whole generation and keeps the better half of old
and new. Here a child is asked for whenever a trainer is free, and one member leaves for each that is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daskevo.search.offspring import Offspring
from daskevo.search.parent_population import Evolving
from daskevo.search.pareto import crowding, fronts, ranks_of
from daskevo.search.requests import Report, Request
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective


class ParetoMember(NamedTuple):
    """One member of a population; `ranks` has one value per objective, larger is better."""

    number: int
    model_id: ModelId
    candidate: Candidate
    ranks: tuple[float, ...]


class MultiObjectiveEvolution(Evolving[ParetoMember]):
    """Keep the members of the best fronts, preferring uncrowded regions, and make children of them.

    Parameters
    ----------
    population:
        Population size. Candidates are random until it is reached.
    beta:
        How much more likely the last choice of a space is mutated than the first.
    crossover:
        Probability that a child combines the options of two parents instead of mutating one.

    Notes
    -----
    Parents are the winners of a tournament of two: by front, then crowding distance, then the younger. When the
    population is full, the last by front and crowding distance leaves, ties going to the older. With one objective each
    front is one quality, and the worst member leaves.
    """

    name = "multi-objective evolution"

    def __init__(self, population: int = 50, beta: float = 1.0, crossover: float = 0.5) -> None:
        super().__init__(population, Offspring(beta, crossover))

    @property
    def settings(self) -> JSON:
        return {"population": self.size, **self.offspring.settings}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._standing: list[tuple[int, float, int]] = []

    def _parent(self, rng: np.random.Generator) -> ParetoMember:
        drawn = rng.choice(len(self._members), size=min(2, len(self._members)), replace=False)
        # Standings are tuples (front, crowding distance, number), so that `max` decides the tournament.
        return self._members[max(map(int, drawn), key=self._standing.__getitem__)]

    def tell(self, request: Request, report: Report) -> None:
        if (quality := report.own_quality) is None:
            return
        ranks = ranks_of(self._objectives, {**report.metrics, self._objectives[0].metric: quality})
        if ranks is None:
            # A model that lacks a value is on no front.
            self._left.append(report.model_id)
            return
        self._members.append(ParetoMember(report.number, report.model_id, request.candidate, ranks))
        self._stand()
        if len(self._members) > self.size:
            # Ranked with the newcomer: it may be the one that leaves.
            leaver = self._standing.index(min(self._standing))
            self._left.append(self._members.pop(leaver).model_id)
            self._stand()

    def _stand(self) -> None:
        """Rank the members by front (0, -1, ...), crowding distance, number; the largest is the best."""
        points = [member.ranks for member in self._members]
        standing: dict[int, tuple[int, float, int]] = {}
        for depth, members in enumerate(fronts(points)):
            distances = crowding([points[index] for index in members])
            for index, distance in zip(members, distances, strict=True):
                standing[index] = (-depth, distance, self._members[index].number)
        self._standing = [standing[index] for index in range(len(points))]
