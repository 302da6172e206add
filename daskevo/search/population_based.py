"""Population based training (PBT): members train side by side, and the worst go on from the best ones' models.

Jaderberg et al., "Population Based Training of Neural Networks" (2017, arXiv:1711.09846): exploit by truncation
selection, explore by perturbing or drawing anew (section 4.1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.search.continuation import Continuing, check_count
from daskevo.search.drawing import Seen, generator
from daskevo.search.perturbation import perturbed
from daskevo.search.requests import Request, Stop, View
from daskevo.space import Candidate, ModelSpace, Space
from daskevo.types import JSON, ModelId, Objective


class _Member(NamedTuple):
    """A member as it was last reported: who has the larger `standing` is better, of equal ones who was asked first."""

    name: ModelId
    candidate: Candidate
    rank: float
    number: int
    step: int

    @property
    def standing(self) -> tuple[float, int]:
        return self.rank, -self.number


class _Replaced(NamedTuple):
    """A member that clones another, as it was: it counts until the clone is reported."""

    source: ModelId
    standing: tuple[float, int]


class _Next(NamedTuple):
    """What is to be asked for next: to continue a member's model, or to clone it."""

    member: _Member
    is_clone: bool


class PopulationBasedTraining(Continuing):
    """Train a population, all at the same time, and let the worst continue the models of the best.

    Parameters
    ----------
    every:
        Steps after which a member is looked at.
    most:
        Steps of a whole training, a multiple of `every`.
    population:
        Members. With fewer trainers than members they take turns.
    share:
        Who is among this share of the worst of all members clones one among this share of the best.
    resample:
        The probability that a hyper-parameter of a clone is drawn anew; else it moves to an option beside its own.
    only:
        Names of the choices that a clone may change: what isn't part of the model, so that its snapshot fits; None =
        all.
    rounds:
        How often to begin anew with other candidates; None = until the run's budget or the space ends.

    Notes
    -----
    Nobody waits: a member is compared with the others as they were last reported, and goes on at once. A clone is a
    request that `continues` the better one's model, which is its `parent` too, with a candidate near that one's;
    nobody clones an equal. A member that failed clones one of the best; before anybody has finished, another candidate
    begins in its place. Each part is an evaluation of the run's budget. See ``daskevo.search.continuation`` for what
    a run needs.

    Raises
    ------
    InvalidInput
        If the share of the population is nobody or more than a half, or `most` is no multiple of `every`; when it is
        started, if the space lacks a choice of `only`, or says which of its choices aren't part of the model (its
        `tuned`) and clones would change others, or could change none.
    """

    name = "population based training"

    def __init__(
        self,
        every: int,
        most: int,
        population: int = 20,
        share: float = 0.2,
        resample: float = 0.25,
        only: Collection[str] | None = None,
        rounds: int | None = None,
    ) -> None:
        check_count(population, "population")
        check_count(rounds, "rounds")
        if type(every) is not int or type(most) is not int or not 1 <= every <= most or most % every:
            raise InvalidInput(f"every={every!r}, most={most!r}: use whole numbers from 1, most a multiple of every")
        if not (0 < share <= 0.5 and int(share * population) >= 1):
            raise InvalidInput(f"a share of {share} of {population} members: use at most 0.5, and one member at least")
        if not 0 <= resample <= 1:
            raise InvalidInput(f"resample={resample}: use a probability, 0 to 1")
        if isinstance(only, str):
            raise InvalidInput(f"only={only!r}: give names of choices, such as [{only!r}]")
        self.every = every
        self.most = most
        self.size = population
        self.share = share
        self.resample = resample
        self.only = None if only is None else sorted(only)
        self.rounds = rounds

    @property
    def settings(self) -> JSON:
        return {
            "every": self.every,
            "most": self.most,
            "population": self.size,
            "share": self.share,
            "resample": self.resample,
            "only": self.only,
            "rounds": self.rounds,
        }

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        if self.only is not None and isinstance(space, Space):
            known = {choice.name for choice in space.choices}
            if unknown := sorted(set(self.only) - known):
                raise InvalidInput(
                    f"space {space.name!r} has no choices {unknown!r:.200}; it has {sorted(known)!r:.200}"
                )
        self._check_clones(space)
        self._members: dict[ModelId, _Member] = {}
        self._replaced: list[_Replaced] = []
        # All that there was to continue, in the order in which it was told: requests take it in this order.
        self._next: list[_Next] = []
        self._sources: Counter[ModelId] = Counter()
        self._begun = self._continued = self._ended = self._round = 0
        self._to_begin = self.size

    def _check_clones(self, space: ModelSpace) -> None:
        """See that clones change nothing that is part of the model, as far as the space says what is."""
        tuned: Collection[str] | None = getattr(space, "tuned", None)
        if tuned is None:
            return
        hint = f"give only={sorted(tuned)}, what isn't part of it"
        if not tuned:
            raise InvalidInput(
                f"clones have nothing to change in space {space.name!r}: all of its choices are part of the model"
            )
        changed = self.only
        if changed is None and isinstance(space, Space):
            changed = [choice.name for choice in space.choices if len(choice.options) > 1]
        if changed is None:
            raise InvalidInput(f"clones would change architectures, and go on from a model: {hint}")
        if parts := sorted(set(changed) - set(tuned)):
            raise InvalidInput(f"clones would change {parts!r:.200}, which is part of the model: {hint}")

    def _take(self, request: Request, name: ModelId, rank: float | None) -> None:
        rng = generator(self._seed, 2**62 + request.number)
        before = self._before(request)
        if rank is None:
            self._replace(request, before, rng)
        else:
            assert request.until_step is not None
            self._keep(name)
            member = _Member(name, request.candidate, rank, request.number, request.until_step)
            self._leave_it(before)
            self._members[name] = member
            if member.step >= self.most:
                self._ended += 1
            elif (better := self._better(member, rng)) is not None:
                self._leave_it(member)
                self._replaced.append(_Replaced(better.name, member.standing))
                self._add(_Next(better, True))
            else:
                self._add(_Next(member, False))
        if self._ended == self.size:
            for each in list(self._members.values()):
                self._leave_it(each)
            self._replaced.clear()
            self._ended = 0
            self._round += 1
            self._to_begin += self.size

    def _before(self, request: Request) -> _Member | None:
        """Count a request, and return the member that it was; None for a new one and for clones."""
        if request.continues is None:
            self._begun += 1
            return None
        self._continued += 1
        self._sources[request.continues] -= 1
        self._free(request.continues)
        if request.parent is None:
            return self._members.get(request.continues)
        sources = [replaced.source for replaced in self._replaced]
        if request.continues in sources:
            del self._replaced[sources.index(request.continues)]
        return None

    def _replace(self, request: Request, failed: _Member | None, rng: np.random.Generator) -> None:
        """Have a clone of one of the best take the place of a member that failed, which was worse than all."""
        best = self._best()
        if best:
            source = best[int(rng.integers(len(best)))]
            self._replaced.append(_Replaced(source.name, (-math.inf, -request.number)))
            self._add(_Next(source, True))
        elif self._members:
            self._ended += 1
        else:
            self._to_begin += 1
        self._leave_it(failed)

    def _better(self, member: _Member, rng: np.random.Generator) -> _Member | None:
        """Return whom a member is to clone: any of the best if it is among the worst, whatever else is reported."""
        standings = [*(each.standing for each in self._members.values()), *(each.standing for each in self._replaced)]
        if sum(standing > member.standing for standing in standings) < self.size - int(self.share * self.size):
            return None
        best = [each for each in self._best() if each.rank > member.rank]
        return best[int(rng.integers(len(best)))] if best else None

    def _best(self) -> list[_Member]:
        """Return the best members, those that have steps left to train."""
        best = sorted(self._members.values(), key=lambda each: each.standing, reverse=True)
        return [member for member in best[: int(self.share * self.size)] if member.step < self.most]

    def _add(self, following: _Next) -> None:
        self._next.append(following)
        self._sources[following.member.name] += 1

    def _leave_it(self, member: _Member | None) -> None:
        if member is not None:
            self._members.pop(member.name, None)
            self._free(member.name)

    def _free(self, name: ModelId) -> None:
        """Let a model go that is no member's and that nobody continues."""
        if name not in self._members and self._sources[name] <= 0:
            self._let_go(name)

    def ask(self, view: View) -> list[Request] | Stop:
        fresh = sum(request.continues is None for request in view.pending)
        begun, following = self._begun + fresh, self._continued + len(view.pending) - fresh
        requests: list[Request] = []
        stop: Stop | None = None
        seen = Seen(view.asked)
        while len(requests) < view.wanted:
            if begun < self._to_begin and stop is None and (self.rounds is None or self._round < self.rounds):
                made = self._begin(view, len(requests), seen, self.every)
                begun += 1
                if isinstance(made, Stop):
                    stop = made
                else:
                    requests.append(made)
            elif following < len(self._next):
                requests.append(self._continue(view, len(requests), self._next[following]))
                following += 1
            else:
                break
        if requests or view.pending or view.wanted < 1:
            return requests
        return stop or Stop("done", f"a population of {self.size} was trained to its end, {self._round} times")

    def _continue(self, view: View, offset: int, following: _Next) -> Request:
        member, until_step = following.member, following.member.step + self.every
        if not following.is_clone:
            return self._go_on(view, offset, member.candidate, member.name, until_step)
        rng = generator(self._seed, view.next_number + offset)
        candidate = perturbed(self._space, member.candidate, rng, self.resample, self.only)
        return view.request(
            offset, candidate, parent=member.name, ancestor=None, continues=member.name, until_step=until_step
        )
