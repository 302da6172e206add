"""Random search without repetition: the yardstick for every other strategy."""

from __future__ import annotations

from functools import partial

import numpy as np

from daskevo.search.drawing import Seen, one_by_one, unseen
from daskevo.search.keeping import KeepsLatest
from daskevo.search.requests import Request, Stop, View
from daskevo.types import JSON


class Random(KeepsLatest):
    """Uniform draws from the space, each candidate at most once.

    Parameters
    ----------
    keep:
        How many of the latest finished models stay in the repository to be inherited from; None keeps all (then the
        repository grows with the run).
    """

    name = "random"

    @property
    def settings(self) -> JSON:
        return {"keep": self.keep}

    def ask(self, view: View) -> list[Request] | Stop:
        def make(offset: int, rng: np.random.Generator, seen: Seen) -> Request | Stop:
            candidate = unseen(self._space, partial(self._space.sample, rng), seen, rng)
            return candidate if isinstance(candidate, Stop) else view.request(offset, candidate)

        return one_by_one(view, self._seed, make)
