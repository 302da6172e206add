"""Base class of strategies without a population: they keep the latest finished models to inherit from."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daskevo.errors import InvalidInput
from daskevo.search.departures import Leaving
from daskevo.search.requests import Report, Request
from daskevo.space import ModelSpace
from daskevo.types import ModelId, Objective


class KeepsLatest(Leaving):
    """Keeps the latest finished models.

    Parameters
    ----------
    keep:
        Number of latest finished models kept in the repository; None keeps all, and the repository grows with the run.
    """

    def __init__(self, keep: int | None = 50) -> None:
        if keep is not None and keep < 1:
            raise InvalidInput(f"keep={keep} models: use 1 or more, or None for all")
        self.keep = keep

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        self._space = space
        self._seed = seed
        self._kept: deque[ModelId] = deque()
        self._left: list[ModelId] = []

    def tell(self, request: Request, report: Report) -> None:
        # Failures and duplicates have no model of their own to keep.
        if report.own_quality is None:
            return
        self._kept.append(report.model_id)
        if self.keep is not None and len(self._kept) > self.keep:
            self._left.append(self._kept.popleft())

    def population(self) -> Sequence[ModelId]:
        return list(self._kept)
