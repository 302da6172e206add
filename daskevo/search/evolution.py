"""Aged (regularised) evolution, asynchronous, with a forced change in every child.

Paper 000, section 5, and Real et al., "Regularized Evolution for Image Classifier Architecture Search". The population
is filled with random candidates; then the best of a random sample is mutated and evaluated, and the oldest leaves.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.search.offspring import Offspring
from daskevo.search.parent_population import Evolving
from daskevo.search.requests import Report, Request
from daskevo.space import Candidate
from daskevo.types import JSON, ModelId


class Member(NamedTuple):
    """One member of a population: the number of its request, its model, its candidate and its quality."""

    number: int
    model_id: ModelId
    candidate: Candidate
    quality: float


class AgedEvolution(Evolving[Member]):
    """Mutate the best of a random sample of the population.

    Parameters
    ----------
    population:
        Population size. Candidates are random until it is reached.
    sample:
        Members drawn without replacement, of which the best becomes the parent.
    beta:
        How much more likely the last choice of a space is mutated than the first, linear in between (1 = all equally).
        A larger beta mutates late layers, so shared prefixes stay long (paper 000, section 5).
    rule:
        Which member leaves a full population: ``aged``, the oldest; ``worst``, the one of the lowest quality (as in the
        paper's text), ties going to the older. :class:`NonAgedEvolution` is the latter.
    crossover:
        Probability that a child combines the options of two parents, each the best of its own sample, instead of
        mutating one.

    Notes
    -----
    Only finished evaluations with a finite quality enter the population, so failures displace no member. Neither do
    duplicates (candidates trained like an earlier one), which would replace trained models with nothing new. A child
    never equals a candidate that the run has already asked for.
    """

    name = "aged evolution"

    def __init__(
        self,
        population: int = 50,
        sample: int = 5,
        beta: float = 1.0,
        rule: Literal["aged", "worst"] = "aged",
        crossover: float = 0.0,
    ) -> None:
        if population < 1 or not 1 <= sample <= population:
            raise InvalidInput(f"a sample of {sample} from a population of {population}: use 1 <= sample <= population")
        if rule not in ("aged", "worst"):
            raise InvalidInput(f"rule={rule!r}: use 'aged' or 'worst'")
        super().__init__(population, Offspring(beta, crossover))
        self.sample = sample
        self.rule = rule

    @property
    def settings(self) -> JSON:
        return {"population": self.size, "sample": self.sample, "rule": self.rule, **self.offspring.settings}

    def _parent(self, rng: np.random.Generator) -> Member:
        drawn = rng.choice(len(self._members), size=min(self.sample, len(self._members)), replace=False)
        best: Member = max((self._members[index] for index in drawn), key=self._standing)
        return best

    def _standing(self, member: Member) -> tuple[float, int]:
        return self._objectives[0].rank(member.quality), member.number

    def tell(self, request: Request, report: Report) -> None:
        if (quality := report.own_quality) is None:
            return
        self._members.append(Member(report.number, report.model_id, request.candidate, quality))
        if len(self._members) > self.size:
            # Members are in the order of their reports, so the first is the oldest.
            leaver = 0
            if self.rule == "worst":
                leaver = min(range(len(self._members)), key=lambda index: self._standing(self._members[index]))
            self._left.append(self._members.pop(leaver).model_id)


class NonAgedEvolution(AgedEvolution):
    """Evolution without ageing: the worst member of a full population leaves (parameters as of AgedEvolution)."""

    name = "non-aged evolution"

    def __init__(self, population: int = 50, sample: int = 5, beta: float = 1.0, crossover: float = 0.0) -> None:
        super().__init__(population, sample, beta, "worst", crossover)

    @property
    def settings(self) -> JSON:
        return {name: value for name, value in super().settings.items() if name != "rule"}
