"""Evolution towards several objectives at once, after NSGA-II, one evaluation at a time.

Deb, Pratap, Agarwal and Meyarivan, "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II", IEEE Transactions on
Evolutionary Computation 6(2), 2002. The paper's algorithm makes a generation, waits for all of it, and keeps the better
half of old and new; here a child is asked for whenever a trainer is free, and with each that ends one leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daskevo.search.offspring import Offspring
from daskevo.search.parent_population import Evolving
from daskevo.search.pareto import crowding, fronts, ranks_of
from daskevo.search.requests import Report, Request, usable
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective


class ParetoMember(NamedTuple):
    """One member of a population; `ranks` has a figure per objective, of which larger is better."""

    number: int
    model_id: ModelId
    candidate: Candidate
    ranks: tuple[float, ...]


class MultiObjectiveEvolution(Evolving[ParetoMember]):
    """Keep the members of the best fronts, those in empty regions first, and make children of them.

    Parameters
    ----------
    population:
        Members kept. Until there are so many, candidates are random.
    beta:
        How much likelier the last choice of a space is to be mutated than the first.
    crossover:
        The probability that a child takes its options from two parents, instead of being a mutation of one.

    Notes
    -----
    Parents win a tournament of two, by front, then by crowding distance, then the younger. When the population is
    full, the last by front and crowding distance leaves, of equal ones the older. For one objective fronts are
    qualities, and this is evolution in which the worst leaves.
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
        return self._members[max(map(int, drawn), key=self._standing.__getitem__)]

    def tell(self, request: Request, report: Report) -> None:
        if report.status != "finished" or not usable(report.quality):
            return
        metrics = {**report.metrics, self._objectives[0].metric: report.quality}
        ranks = ranks_of(self._objectives, metrics)
        if ranks is None:
            # A model without all its figures is on no front.
            self._left.append(report.model_id)
            return
        self._members.append(ParetoMember(report.number, report.model_id, request.candidate, ranks))
        self._stand()
        if len(self._members) > self.size:
            leaver = self._standing.index(min(self._standing))
            self._left.append(self._members.pop(leaver).model_id)
            self._stand()

    def _stand(self) -> None:
        """Rank the members: by front (0, -1, ...), crowding distance, number; the largest is the best."""
        points = [member.ranks for member in self._members]
        standing: dict[int, tuple[int, float, int]] = {}
        for depth, members in enumerate(fronts(points)):
            distances = crowding([points[index] for index in members])
            for index, distance in zip(members, distances, strict=True):
                standing[index] = (-depth, distance, self._members[index].number)
        self._standing = [standing[index] for index in range(len(points))]
