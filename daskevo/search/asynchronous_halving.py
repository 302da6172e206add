"""Asynchronous successive halving (ASHA): a candidate among the best of its rung so far continues at once.

Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), algorithm 2.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from daskevo.search.continuation import Continuing, check_count, continued, rungs
from daskevo.search.drawing import Seen
from daskevo.search.requests import Request, Stop, View
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective


class _Place(NamedTuple):
    """A candidate that finished a rung; they sort with the best first, ties by order of asking."""

    negated_rank: float
    number: int
    candidate: Candidate
    name: ModelId


class _Rung:
    """The reports of one rung so far.

    Attributes
    ----------
    count:
        Number of candidates reported for it.
    places:
        The candidates that finished it, best first.
    waiting:
        Those of them that may still be promoted: their continuation has not been reported; best first.
    """

    def __init__(self) -> None:
        self.count = 0
        self.places: list[_Place] = []
        self.waiting: list[_Place] = []

    def promotable(self, eta: int, under_way: set[ModelId]) -> _Place | None:
        """Return the best candidate that may be promoted: in the top 1/`eta` of the rung, and not running now."""
        for place in self.waiting:
            # `waiting` is in the same order, so those behind this one are not in the top either.
            if bisect_left(self.places, place) >= self.count // eta:
                return None
            if place.name not in under_way:
                return place
        return None


class AsynchronousHalving(Continuing):
    """Successive halving without waiting: no trainer is idle because others are slow.

    Parameters
    ----------
    first, most:
        Steps of the first and of the last rung; their ratio is a power of `eta` (paper: r and R).
    eta:
        One in `eta` candidates is promoted.
    candidates:
        Number of candidates that start; None = until the run's budget or the space is exhausted.
    keep:
        Number of models, the best, kept at each rung for promotion; a model that is dropped can't be promoted any more.
        None keeps all, and the repository grows with the run.

    Notes
    -----
    At each request the best candidate that is in the top 1/`eta` of its rung and has not been promoted continues, the
    highest rung first; if there is none, a new candidate starts. So some are promoted that would not be if the whole
    rung were known. A failed candidate counts as the worst of its rung. Each rung is an evaluation of the run's budget.
    See ``daskevo.search.continuation`` for what a run needs.

    Raises
    ------
    InvalidInput
        If there is no rung at `most`.
    """

    name = "asynchronous halving"

    def __init__(
        self, first: int, most: int, eta: int = 3, candidates: int | None = None, keep: int | None = 50
    ) -> None:
        self.steps = rungs(first, most, eta)
        self.most = most
        check_count(candidates, "candidates")
        check_count(keep, "keep")
        self.eta = eta
        self.candidates = candidates
        self.keep = keep

    @property
    def settings(self) -> JSON:
        return {
            "first": self.steps[0],
            "most": self.steps[-1],
            "eta": self.eta,
            "candidates": self.candidates,
            "keep": self.keep,
        }

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._rungs = [_Rung() for _ in self.steps]

    def _take(self, request: Request, name: ModelId, rank: float | None) -> None:
        # The rung follows from the request, not from a count: reports come in any order, and again after a resume.
        level = self.steps.index(request.until_step or 0)
        if request.continues is not None:
            before = self._rungs[level - 1]
            before.waiting = [place for place in before.waiting if place.name != request.continues]
            self._let_go(request.continues)
        rung = self._rungs[level]
        rung.count += 1
        if rank is None:
            return
        self._keep(name)
        # Nothing continues from the last rung.
        if level == len(self.steps) - 1:
            self._let_go(name)
            return
        place = _Place(-rank, request.number, request.candidate, name)
        insort(rung.places, place)
        insort(rung.waiting, place)
        if self.keep is not None and len(rung.waiting) > self.keep:
            self._let_go(rung.waiting.pop().name)

    def ask(self, view: View) -> list[Request] | Stop:
        requests: list[Request] = []
        stop: Stop | None = None
        seen, under_way = Seen(view.asked), continued(view)
        begun = self._rungs[0].count + sum(request.continues is None for request in view.pending)
        while len(requests) < view.wanted and stop is None:
            made = self._promotion(view, len(requests), under_way)
            if made is None and self.candidates is not None and begun >= self.candidates:
                stop = Stop("done", f"all of {self.candidates} candidates have begun, and none is to go on")
            elif made is None:
                made = self._begin(view, len(requests), seen, self.steps[0])
                begun += 1
            if isinstance(made, Stop):
                stop = made
            elif made is not None:
                requests.append(made)
        # Running candidates may still be promoted, or make others promotable.
        return requests if requests or view.pending or stop is None else stop

    def _promotion(self, view: View, offset: int, under_way: set[ModelId]) -> Request | Stop | None:
        """Continue the best promotable candidate, from the highest rung that has one."""
        # From the top, as in the paper: what is nearest to its end comes first.
        for level in range(len(self.steps) - 2, -1, -1):
            place = self._rungs[level].promotable(self.eta, under_way)
            if place is not None:
                under_way.add(place.name)
                return self._go_on(view, offset, place.candidate, place.name, self.steps[level + 1])
        return None
