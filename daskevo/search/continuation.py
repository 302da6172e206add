"""Base class of strategies that train candidates in parts, and continue those that are promising.

Each part is a request of its own that `continues` the previous one, up to a later `until_step`; each counts as an
evaluation of the run's budget. Studies of `daskevo_workflows.tune` and searches of `daskevo_workflows.nas` continue
from snapshots; in a search, a candidate inherits when its first part begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

from daskevo.errors import InvalidInput
from daskevo.search.departures import Leaving
from daskevo.search.drawing import Seen, generator, unseen
from daskevo.search.protocol import Strategy
from daskevo.search.requests import Report, Request, Stop, View
from daskevo.space import Candidate, ModelSpace
from daskevo.types import ModelId, Objective


class Continuing(Leaving, ABC):
    """Starts trainings, continues them, and keeps the models that may still be continued.

    Attributes
    ----------
    most:
        Steps of a whole training, from which nothing continues.

    Notes
    -----
    A request that failed, was rejected or is a duplicate ends its candidate and counts as the worst of its rung, so no
    rung waits for it. Duplicates here are architectures equal to another candidate's; trials that only share their
    first steps must each be reported as finished.
    """

    most: int

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        self._space = space
        self._objective = objectives[0]
        self._seed = seed
        self._kept: dict[ModelId, None] = {}
        self._going: list[ModelId] = []
        self._left: list[ModelId] = []

    def tell(self, request: Request, report: Report) -> None:
        quality = report.own_quality
        rank = None if quality is None else self._objective.rank(quality)
        self._take(request, report.model_id, rank)
        # A failed report may change bookkeeping only, so models leave with the next finished one.
        if rank is not None:
            for name in self._going:
                if name in self._kept:
                    del self._kept[name]
                    self._left.append(name)
            self._going.clear()

    @abstractmethod
    def _take(self, request: Request, name: ModelId, rank: float | None) -> None:
        """Learn a request's result: its model and its rank (larger is better), or None if it failed."""

    def _keep(self, name: ModelId) -> None:
        self._kept[name] = None

    def _let_go(self, name: ModelId | None) -> None:
        if name is not None:
            self._going.append(name)

    def _begin(self, view: View, offset: int, seen: Seen, until_step: int) -> Request | Stop:
        """Return a request for a candidate that has not been asked for yet."""
        rng = generator(self._seed, view.next_number + offset)
        candidate = unseen(self._space, partial(self._space.sample, rng), seen, rng)
        if isinstance(candidate, Stop):
            return candidate
        seen.add(candidate)
        return view.request(offset, candidate, until_step=until_step)

    @staticmethod
    def _go_on(view: View, offset: int, candidate: Candidate, name: ModelId, until_step: int) -> Request:
        """Return a request that continues a candidate's own model."""
        return view.request(offset, candidate, ancestor=None, continues=name, until_step=until_step)

    def population(self) -> Sequence[ModelId]:
        return list(self._kept)


def continuing(strategy: Strategy) -> Continuing | None:
    """Return the strategy that continues trainings: this one, or one that it wraps; None if it trains in one piece."""
    # By attribute, not by `Wrapper`: a user's wrapper need not derive from ours.
    within: object = strategy
    while within is not None and not isinstance(within, Continuing):
        within = getattr(within, "strategy", None)
    return within


def continued(view: View) -> set[ModelId]:
    """Return the models that pending requests continue."""
    return {request.continues for request in view.pending if request.continues is not None}


def rungs(first: int, most: int, eta: int) -> tuple[int, ...]:
    """Return the steps at which candidates are compared: `first`, then `eta` times the previous one, up to `most`.

    Raises
    ------
    InvalidInput
        If `most` is not one of them.

    Examples
    --------
    >>> rungs(1, 81, 3)
    (1, 3, 9, 27, 81)
    """
    if any(type(value) is not int for value in (first, most, eta)) or not (1 <= first <= most and eta >= 2):
        raise InvalidInput(
            f"first={first!r}, most={most!r}, eta={eta!r}: use whole numbers, 1 <= first <= most, eta >= 2"
        )
    steps = [first]
    while steps[-1] * eta <= most:
        steps.append(steps[-1] * eta)
    if steps[-1] != most:
        raise InvalidInput(
            f"rungs from step {first} on, each {eta} times as far, are at {steps[-1]} and {steps[-1] * eta} and not at "
            f"most={most}: use one of these, or another first"
        )
    return tuple(steps)


def check_count(value: int | None, what: str) -> None:
    """Check that a limit is a whole number from 1, or None; raises InvalidInput."""
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidInput(f"{what}={value!r:.40}: use a whole number from 1, or None for no limit")
