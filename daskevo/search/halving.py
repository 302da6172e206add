"""Successive halving and Hyperband, which runs it with different numbers of early steps; each rung is synchronous.

Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization" (AISTATS 2016); Li et
al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (JMLR 18, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from daskevo.search.bracket import Bracket, Plan, RungResult
from daskevo.search.continuation import Continuing, check_count, continued, rungs
from daskevo.search.drawing import Seen
from daskevo.search.requests import Request, Stop, View
from daskevo.space import ModelSpace
from daskevo.types import JSON, ModelId, Objective


class Brackets(Continuing):
    """Base class that runs brackets one after the other, in rounds.

    Parameters
    ----------
    plans:
        The brackets of one round.
    eta:
        One in `eta` candidates is promoted at each rung.
    rounds:
        Number of rounds, each with new candidates; None = until the run's budget or the space is exhausted.
    """

    name: str

    def __init__(self, plans: Sequence[Plan], eta: int, rounds: int | None) -> None:
        check_count(rounds, "rounds")
        self.plans = tuple(plans)
        self.most = max(plan.steps[-1] for plan in self.plans)
        self.eta = eta
        self.rounds = rounds

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._index = 0
        self._bracket = self._made(0)

    def _made(self, index: int) -> Bracket:
        return Bracket(self.plans[index % len(self.plans)], self.eta)

    def _take(self, request: Request, name: ModelId, rank: float | None) -> None:
        # A new candidate after the bracket has all of its own can only belong to the next bracket.
        if request.continues is None and self._bracket.is_begun:
            for result in chain.from_iterable(self._bracket.rungs):
                if result.rank is not None:
                    self._let_go(result.name)
            self._index += 1
            self._bracket = self._made(self._index)
        bracket = self._bracket
        rung = 0 if request.continues is None else bracket.steps.index(request.until_step or 0)
        # The first report of a rung shows that the rung below is complete: release what was not promoted.
        if rung > 0 and not bracket.rungs[rung]:
            rising = {result.name for result in bracket.promoted(rung - 1)}
            for result in bracket.rungs[rung - 1]:
                if result.rank is not None and result.name not in rising:
                    self._let_go(result.name)
        # Its snapshot was needed until this continuation was reported.
        self._let_go(request.continues)
        bracket.rungs[rung].append(RungResult(request.number, request.candidate, name, rank, request.continues))
        if rank is not None:
            self._keep(name)
            if rung == len(bracket.steps) - 1:
                self._let_go(name)

    def ask(self, view: View) -> list[Request] | Stop:
        if view.wanted < 1:
            return []
        bracket, index = self._bracket, self._index
        if bracket.is_over:
            index += 1
            bracket = self._made(index)
            if self.rounds is not None and index >= self.rounds * len(self.plans):
                return Stop("done", f"{self.name} has gone through its brackets, {self.rounds} times")
        under_way = continued(view)
        stop: Stop | None = None
        if not under_way and not any(bracket.rungs[1:]):
            requests: list[Request] = []
            seen = Seen(view.asked)
            # All pending requests are of this bracket: the one before is over only when none of its own is left.
            missing = bracket.size - len(bracket.rungs[0]) - len(view.pending)
            while len(requests) < min(view.wanted, missing) and stop is None:
                made = self._begin(view, len(requests), seen, bracket.steps[0])
                if isinstance(made, Stop):
                    stop = made
                else:
                    requests.append(made)
            if requests or view.pending:
                return requests
        # If the space has fewer candidates than the bracket, it goes on with those.
        return self._rise(view, bracket, under_way) or ([] if stop is None else stop)

    def _rise(self, view: View, bracket: Bracket, under_way: set[ModelId]) -> list[Request]:
        """Continue the candidates promoted to the rung that isn't complete."""
        rising = bracket.rising()
        if rising is None:
            return []
        rung, promoted = rising
        known = under_way.union(result.continues for result in bracket.rungs[rung] if result.continues is not None)
        # Promotions are computed again at each call: what was asked for already is left out.
        waiting = [result for result in promoted if result.name not in known]
        return [
            self._go_on(view, offset, result.candidate, result.name, bracket.steps[rung])
            for offset, result in enumerate(waiting[: view.wanted])
        ]


class SuccessiveHalving(Brackets):
    """Start with many candidates; at each rung continue one in `eta`, for `eta` times as many steps.

    Parameters
    ----------
    first, most:
        Steps of the first and of the last rung; their ratio is a power of `eta` (paper: r and R).
    eta:
        One in `eta` candidates is promoted.
    candidates:
        Number that start; None = ``most / first``, which leaves one at the last rung. At least one always gets there.
    rounds:
        Number of times to start over with new candidates; None = until the run's budget or the space is exhausted.

    Notes
    -----
    A rung waits for all its candidates, so trainers may be idle meanwhile. A failed candidate counts as the worst; ties
    go to the earlier one. Each rung is an evaluation of the run's budget. See ``daskevo.search.continuation`` for what
    a run needs.

    With ``n = (most / first)`` candidates a round trains ``n * first * (1 + k * (eta - 1) / eta)`` steps, with k rungs
    after the first; without continuing from snapshots it would be ``n * first * (1 + k)``.

    Raises
    ------
    InvalidInput
        If there is no rung at `most`.
    """

    name = "successive halving"

    def __init__(
        self, first: int, most: int, eta: int = 3, candidates: int | None = None, rounds: int | None = None
    ) -> None:
        steps = rungs(first, most, eta)
        check_count(candidates, "candidates")
        super().__init__([Plan(candidates or most // first, steps)], eta, rounds)
        self.candidates = candidates

    @property
    def settings(self) -> JSON:
        steps = self.plans[0].steps
        return {
            "first": steps[0],
            "most": steps[-1],
            "eta": self.eta,
            "candidates": self.candidates,
            "rounds": self.rounds,
        }


class Hyperband(Brackets):
    """Successive halving from many candidates judged early to few judged late, in brackets of about equal cost.

    Parameters
    ----------
    first, most:
        Steps of the earliest and of the last rung; their ratio is a power of `eta`; in units of `first`, `most` is the
        paper's R.
    eta:
        One in `eta` candidates is promoted.
    rounds:
        Number of rounds through all brackets, with new candidates; None = until the budget or the space is exhausted.

    Notes
    -----
    Brackets run one after the other, the one with the earliest rung first. Otherwise as :class:`SuccessiveHalving`.

    Numbers of candidates follow the paper's table 1; its algorithm 1 as printed rounds differently (34, 15 and 8
    instead of 27, 9 and 6 in the example).

    Raises
    ------
    InvalidInput
        If there is no rung at `most`.

    Examples
    --------
    >>> [(plan.size, plan.steps[0]) for plan in Hyperband(1, 81, 3).plans]
    [(81, 1), (27, 3), (9, 9), (6, 27), (5, 81)]
    """

    name = "hyperband"

    def __init__(self, first: int, most: int, eta: int = 3, rounds: int | None = None) -> None:
        steps = rungs(first, most, eta)
        super().__init__(
            [Plan(len(steps) // len(steps[s:]) * eta ** (len(steps) - 1 - s), steps[s:]) for s in range(len(steps))],
            eta,
            rounds,
        )

    @property
    def settings(self) -> JSON:
        steps = self.plans[0].steps
        return {"first": steps[0], "most": steps[-1], "eta": self.eta, "rounds": self.rounds}
