"""Aged (regularised) evolution, asynchronous, with a forced change in every child.

Paper 000, section 5, and Real et al., "Regularized Evolution for Image Classifier Architecture Search": fill a
population with random candidates; then mutate the best of a random sample, evaluate, append; the oldest leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.search.drawing import generator, generator_state, restore_generator, unseen
from daskevo.search.requests import Report, Request, Stop, View, usable
from daskevo.space import Candidate, Space
from daskevo.types import JSON, ModelId, Objective


class Member(NamedTuple):
    """One member of a population: the number of its request, its model, its candidate and its quality."""

    number: int
    model_id: ModelId
    candidate: Candidate
    quality: float


class AgedEvolution:
    """Mutate the best of a random sample of the population.

    Parameters
    ----------
    population:
        Members kept. Until there are so many, candidates are random.
    sample:
        Members drawn, without replacement, to pick a parent from.
    beta:
        How much likelier the last choice of a space is to be mutated than the first, linear in between (1 = all
        alike). A higher beta mutates late layers, so common prefixes stay long (paper 000, section 5).
    rule:
        Who leaves a full population: ``aged``, the oldest; ``worst``, the one of the lowest quality (the paper's
        text), of equal ones the older.

    Notes
    -----
    Only finished evaluations with a finite quality enter the population: failures push nobody out. Neither do
    duplicates (candidates with the same graph as an earlier one), which would replace trained models with nothing new.
    A child never equals a candidate that the run has already asked for.
    """

    name = "aged evolution"

    def __init__(
        self,
        population: int = 50,
        sample: int = 5,
        beta: float = 1.0,
        rule: Literal["aged", "worst"] = "aged",
    ) -> None:
        if population < 1 or not 1 <= sample <= population:
            raise InvalidInput(f"a sample of {sample} from a population of {population}: use 1 <= sample <= population")
        if not beta > 0:
            raise InvalidInput(f"beta={beta}: use a number above 0 (1 mutates all choices alike)")
        if rule not in ("aged", "worst"):
            raise InvalidInput(f"rule={rule!r}: use 'aged' or 'worst'")
        self.size = population
        self.sample = sample
        self.beta = float(beta)
        self.rule = rule

    @property
    def settings(self) -> JSON:
        return {"population": self.size, "sample": self.sample, "beta": self.beta, "rule": self.rule}

    def start(self, space: Space, objective: Objective, seed: int) -> None:
        self._space = space
        self._objective = objective
        self._rng = generator(seed)
        self._members: list[Member] = []
        self._pending: dict[int, Candidate] = {}
        self._left: list[ModelId] = []

    def ask(self, view: View) -> list[Request] | Stop:
        requests: list[Request] = []
        seen = set(view.asked)
        for offset in range(view.wanted):
            # Random candidates fill the population first; those under way count, so that workers don't overfill it.
            parent = self._parent() if len(self._members) + len(self._pending) >= self.size else None
            candidate = unseen(self._space, self._proposal(parent), seen, self._rng)
            if isinstance(candidate, Stop):
                return requests or candidate
            seen.add(candidate)
            request = view.request(offset, candidate, parent=None if parent is None else parent.model_id)
            self._pending[request.number] = candidate
            requests.append(request)
        return requests

    def _parent(self) -> Member | None:
        if not self._members:
            return None
        drawn = self._rng.choice(len(self._members), size=min(self.sample, len(self._members)), replace=False)
        best: Member = max((self._members[index] for index in drawn), key=self._standing)
        return best

    def _proposal(self, parent: Member | None) -> Callable[[], Candidate]:
        if parent is None:
            return lambda: self._space.sample(self._rng)
        return lambda: self._space.mutate(parent.candidate, self._rng, beta=self.beta)

    def _standing(self, member: Member) -> tuple[float, int]:
        return self._objective.rank(member.quality), member.number

    def tell(self, report: Report) -> None:
        candidate = self._pending.pop(report.number, None)
        if candidate is None or report.status != "finished" or not usable(report.quality):
            return
        assert report.quality is not None
        self._members.append(Member(report.number, report.model_id, candidate, float(report.quality)))
        if len(self._members) > self.size:
            leaver = 0
            if self.rule == "worst":
                leaver = min(range(len(self._members)), key=lambda index: self._standing(self._members[index]))
            self._left.append(self._members.pop(leaver).model_id)

    def leave(self) -> list[ModelId]:
        left, self._left = self._left, []
        return left

    def population(self) -> Sequence[ModelId]:
        return [member.model_id for member in self._members]

    def state(self) -> JSON:
        return {
            "rng": generator_state(self._rng),
            "members": [[m.number, m.model_id, m.candidate.to_json(), m.quality] for m in self._members],
            "pending": [[number, candidate.to_json()] for number, candidate in self._pending.items()],
            "left": list(self._left),
        }

    def restore(self, state: JSON) -> None:
        try:
            self._members = [
                Member(int(number), ModelId(str(name)), self._space.decode(candidate), float(quality))
                for number, name, candidate, quality in state["members"]
            ]
            self._pending = {int(number): self._space.decode(candidate) for number, candidate in state["pending"]}
            self._left = [ModelId(str(name)) for name in state["left"]]
            restore_generator(self._rng, state["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"expected the state of an aged evolution, found {state!r:.200}") from error
