"""Asynchronous successive halving (ASHA): who is among the best of a rung so far goes on at once.

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
    """A candidate that finished a rung: sorted, the best comes first, of equal ones the one asked first."""

    negated_rank: float
    number: int
    candidate: Candidate
    name: ModelId


class _Rung:
    """A rung as far as it has been told.

    Attributes
    ----------
    count:
        How many came to it.
    places:
        Those that finished it, best first.
    waiting:
        Of these, those whose continuation hasn't been told, and that may still go on, best first.
    """

    def __init__(self) -> None:
        self.count = 0
        self.places: list[_Place] = []
        self.waiting: list[_Place] = []

    def promotable(self, eta: int, under_way: set[ModelId]) -> _Place | None:
        """Return the best that may go on: it is among the best of `eta`, and isn't under way."""
        for place in self.waiting:
            if bisect_left(self.places, place) >= self.count // eta:
                return None
            if place.name not in under_way:
                return place
        return None


class AsynchronousHalving(Continuing):
    """Successive halving that doesn't wait: no trainer is idle while others are slow.

    Parameters
    ----------
    first, most:
        The steps of the first rung and of the last, a power of `eta` apart (paper: r and R).
    eta:
        The best of so many go on.
    candidates:
        So many begin; None = until the run's budget or the space ends.
    keep:
        How many models wait at each rung for being promoted, the best; who leaves is not promoted any more. None keeps
        all (then the repository grows with the run).

    Notes
    -----
    Each time something may be asked, the best candidate of the highest rung that is among the first of `eta` there, and
    has not gone on, goes on; if there is none, a new candidate begins. So some go on that would not have with all of
    their rung known. Whoever failed counts in its rung as the worst. Each rung is an evaluation of the run's budget.
    See ``daskevo.search.continuation`` for what a run needs.

    Raises
    ------
    InvalidInput
        If no rung ends at `most`.
    """

    name = "asynchronous halving"

    def __init__(
        self, first: int, most: int, eta: int = 3, candidates: int | None = None, keep: int | None = 50
    ) -> None:
        self.steps = rungs(first, most, eta)
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
        # Who is under way may still go on, or let others go on.
        return requests if requests or view.pending or stop is None else stop

    def _promotion(self, view: View, offset: int, under_way: set[ModelId]) -> Request | Stop | None:
        """Continue the best that may go on, from the highest rung that has one."""
        for level in range(len(self.steps) - 2, -1, -1):
            place = self._rungs[level].promotable(self.eta, under_way)
            if place is not None:
                under_way.add(place.name)
                return self._go_on(view, offset, place.candidate, place.name, self.steps[level + 1])
        return None
