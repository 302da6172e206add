"""Population based training (PBT): members train in parallel, and the worst continue from models of the best.

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
    """A member as of its last report; the larger `standing` is better, ties go to the earlier request."""

    name: ModelId
    candidate: Candidate
    rank: float
    number: int
    step: int

    @property
    def standing(self) -> tuple[float, int]:
        return self.rank, -self.number


class _Replaced(NamedTuple):
    """The last standing of a member that now clones another; it counts until the clone is reported."""

    source: ModelId
    standing: tuple[float, int]


class _Next(NamedTuple):
    """The next thing to ask for: continue a member's model, or clone it."""

    member: _Member
    is_clone: bool


class PopulationBasedTraining(Continuing):
    """Train a population in parallel, and let the worst members continue the models of the best.

    Parameters
    ----------
    every:
        Steps between two comparisons of a member with the others.
    most:
        Steps of a full training, a multiple of `every`.
    population:
        Number of members. If there are fewer trainers, members take turns.
    share:
        A member in this worst share of all members clones one of the same share of the best.
    resample:
        Probability that a hyper-parameter of a clone is drawn again; otherwise it moves to a neighbouring option.
    only:
        Names of the choices that a clone may change: those that are not part of the model, so that the snapshot fits;
        None = all.
    rounds:
        Number of times to start over with new candidates; None = until the run's budget or the space is exhausted.

    Notes
    -----
    Members don't wait for each other: each is compared with the last reports of the others, and continues at once. A
    clone is a request that `continues` the better member's model, which is also its `parent`, with a candidate near
    that member's; equally good members are not cloned. A member that failed clones one of the best; if no member has
    finished yet, a new candidate takes its place. Each part of a training is an evaluation of the run's budget. See
    ``daskevo.search.continuation`` for what a run needs.

    Raises
    ------
    InvalidInput
        If `share` gives no member or more than half, or `most` is not a multiple of `every`. On `start`: if the space
        lacks a choice of `only`; or if it says which choices are not part of the model (its `tuned`), and clones would
        change others or could change none.
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
        # A string is a collection, too: of its letters.
        if isinstance(only, str):
            raise InvalidInput(f"only={only!r}: give names of choices, such as [{only!r}]")
        self.every = every
        self.most = most
        self.size = population
        self.share = share
        self.resample = resample
        # Sorted, since the order of the names means nothing and settings must be equal to resume.
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
        # Everything to continue, in the order of reports. Requests take it in this order, so resuming repeats them.
        self._next: list[_Next] = []
        self._sources: Counter[ModelId] = Counter()
        self._begun = self._continued = self._ended = self._round = 0
        self._to_begin = self.size

    def _check_clones(self, space: ModelSpace) -> None:
        """Check that clones change nothing that is part of the model, as far as the space can tell."""
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
        # Numbers above 2**62 are no request's: choices made on a report must not repeat the draws of a request.
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
        # All members are trained to the end: the next round starts with new candidates.
        if self._ended == self.size:
            for each in list(self._members.values()):
                self._leave_it(each)
            self._replaced.clear()
            self._ended = 0
            self._round += 1
            self._to_begin += self.size

    def _before(self, request: Request) -> _Member | None:
        """Count a reported request; return the member whose part it was, or None for a new candidate or a clone."""
        if request.continues is None:
            self._begun += 1
            return None
        self._continued += 1
        self._sources[request.continues] -= 1
        self._free(request.continues)
        if request.parent is None:
            return self._members.get(request.continues)
        # A report does not say which of several clones of one model it is of: the first that was made stops counting.
        sources = [replaced.source for replaced in self._replaced]
        if request.continues in sources:
            del self._replaced[sources.index(request.continues)]
        return None

    def _replace(self, request: Request, failed: _Member | None, rng: np.random.Generator) -> None:
        """Let a clone of one of the best replace a failed member, which counts as the worst."""
        best = self._best()
        if best:
            source = best[int(rng.integers(len(best)))]
            self._replaced.append(_Replaced(source.name, (-math.inf, -request.number)))
            self._add(_Next(source, True))
        # There are members, but the best have no steps left to clone from: this place has ended.
        elif self._members:
            self._ended += 1
        else:
            self._to_begin += 1
        self._leave_it(failed)

    def _better(self, member: _Member, rng: np.random.Generator) -> _Member | None:
        """Return a member to clone: a random one of the best if this one is among the worst; otherwise None."""
        standings = [*(each.standing for each in self._members.values()), *(each.standing for each in self._replaced)]
        # Members without a report don't count, so none is replaced before enough others are known to be better.
        if sum(standing > member.standing for standing in standings) < self.size - int(self.share * self.size):
            return None
        # Strictly better: a clone of an equal one would only lose the member's own training.
        best = [each for each in self._best() if each.rank > member.rank]
        return best[int(rng.integers(len(best)))] if best else None

    def _best(self) -> list[_Member]:
        """Return the best members that have steps left to train."""
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
        """Release a model that no member has and no request is to continue."""
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
