"""Random search without repetition: the yardstick for every other strategy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.search.drawing import generator, generator_state, restore_generator, unseen
from daskevo.search.requests import Report, Request, Stop, View, usable
from daskevo.space import Space
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

    def start(self, space: Space, objective: Objective, seed: int) -> None:
        self._space = space
        self._rng = generator(seed)
        self._kept: deque[ModelId] = deque()
        self._left: list[ModelId] = []

    def ask(self, view: View) -> list[Request] | Stop:
        requests: list[Request] = []
        seen = set(view.asked)
        for offset in range(view.wanted):
            candidate = unseen(self._space, lambda: self._space.sample(self._rng), seen, self._rng)
            if isinstance(candidate, Stop):
                return requests or candidate
            seen.add(candidate)
            requests.append(view.request(offset, candidate))
        return requests

    def tell(self, report: Report) -> None:
        if report.status != "finished" or not usable(report.quality):
            return
        self._kept.append(report.model_id)
        if self.keep is not None and len(self._kept) > self.keep:
            self._left.append(self._kept.popleft())

    def leave(self) -> list[ModelId]:
        left, self._left = self._left, []
        return left

    def population(self) -> Sequence[ModelId]:
        return list(self._kept)

    def state(self) -> JSON:
        return {"rng": generator_state(self._rng), "kept": list(self._kept), "left": list(self._left)}

    def restore(self, state: JSON) -> None:
        try:
            self._kept = deque(ModelId(str(name)) for name in state["kept"])
            self._left = [ModelId(str(name)) for name in state["left"]]
            restore_generator(self._rng, state["rng"])
        except (KeyError, TypeError) as error:
            raise CorruptRecord(f"expected the state of a random search, found {state!r:.200}") from error
