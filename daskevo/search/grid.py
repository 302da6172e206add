"""Grid search: every candidate of a small space, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.search.drawing import Seen, generator, one_by_one
from daskevo.search.recent_models import KeepsLatest
from daskevo.search.requests import Request, Stop, View
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, Objective


class Grid(KeepsLatest):
    """Enumerates the space and stops at its end.

    Parameters
    ----------
    order:
        ``natural``: the order of the space, its last choice changing fastest, so that neighbours share long prefixes;
        ``shuffled`` by the run's seed, so that a run that ends early has covered all of the space.
    most:
        Maximum number of candidates; a larger space is refused.
    keep:
        Number of latest finished models kept in the repository to inherit from; None keeps all.
    """

    name = "grid"

    def __init__(
        self, order: Literal["natural", "shuffled"] = "natural", most: int = 100_000, keep: int | None = 50
    ) -> None:
        super().__init__(keep)
        if order not in ("natural", "shuffled"):
            raise InvalidInput(f"order={order!r}: use 'natural' or 'shuffled'")
        if most < 1:
            raise InvalidInput(f"most={most}: use 1 or more candidates")
        self.order = order
        self.most = most

    @property
    def settings(self) -> JSON:
        return {"order": self.order, "most": self.most, "keep": self.keep}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        # Not `size`: counting a space whose choices depend on each other may take long, and `most` is all that matters.
        size = space.size_until(self.most)
        if size.count is None or size.count > self.most:
            raise InvalidInput(
                f"the size of space {space.name!r} is {size}, and a grid takes {self.most} candidates at most: "
                "use another strategy (random draws from any space), or a higher `most`"
            )
        self._rest: Iterator[Candidate] = space.enumerate(self.most)
        if self.order == "shuffled":
            # The whole list, because a permutation needs it: `most` bounds it.
            every = list(self._rest)
            # 2**63 is no request's number, so this generator is used for nothing else.
            self._rest = iter([every[index] for index in generator(seed, 2**63).permutation(len(every))])
        # Candidates enumerated but not asked for yet: saves starting the enumeration over at each `ask`.
        self._ahead: deque[Candidate] = deque()

    def ask(self, view: View) -> list[Request] | Stop:
        def make(offset: int, rng: np.random.Generator, seen: Seen) -> Request | Stop:
            candidate = self._next(seen)
            if candidate is None:
                return Stop(
                    "exhausted",
                    f"all {len(view.asked)} candidates of the space {self._space.name!r} have been asked for",
                )
            return view.request(offset, candidate)

        while self._ahead and self._ahead[0] in view.asked:
            self._ahead.popleft()
        return one_by_one(view, self._seed, make)

    def _next(self, seen: Seen) -> Candidate | None:
        """Return the first candidate that was not asked for."""
        for candidate in self._ahead:
            if candidate not in seen:
                return candidate
        for candidate in self._rest:
            self._ahead.append(candidate)
            if candidate not in seen:
                return candidate
        return None
