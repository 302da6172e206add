"""Random search without repetition: the yardstick for every other strategy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from daskevo.errors import InvalidInput
from daskevo.search.drawing import generator, unseen
from daskevo.search.requests import Report, Request, Stop, View, usable
from daskevo.space import ModelSpace
from daskevo.types import JSON, ModelId, Objective


class Random:
    """Uniform draws from the space, each candidate at most once.

    Parameters
    ----------
    keep:
        How many of the latest finished models stay in the repository to be inherited from; None keeps all (then the
        repository grows with the run).
    """

    name = "random"

    def __init__(self, keep: int | None = 50) -> None:
        if keep is not None and keep < 1:
            raise InvalidInput(f"keep={keep} models: use 1 or more, or None for all")
        self.keep = keep

    @property
    def settings(self) -> JSON:
        return {"keep": self.keep}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        self._space = space
        self._seed = seed
        self._kept: deque[ModelId] = deque()
        self._left: list[ModelId] = []

    def ask(self, view: View) -> list[Request] | Stop:
        requests: list[Request] = []
        seen = set(view.asked)
        for offset in range(view.wanted):
            rng = generator(self._seed, view.next_number + offset)
            candidate = unseen(self._space, partial(self._space.sample, rng), seen, rng)
            if isinstance(candidate, Stop):
                return requests or candidate
            seen.add(candidate)
            requests.append(view.request(offset, candidate))
        return requests

    def tell(self, request: Request, report: Report) -> None:
        if report.status != "finished" or not usable(report.quality):
            return
        self._kept.append(report.model_id)
        if self.keep is not None and len(self._kept) > self.keep:
            self._left.append(self._kept.popleft())

    def leave(self) -> list[ModelId]:
        left, self._left = self._left, []
        return left

    def stop(self) -> list[int]:
        return []

    def population(self) -> Sequence[ModelId]:
        return list(self._kept)
