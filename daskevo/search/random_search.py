"""Random search without repetition: the baseline for every other strategy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.search.drawing import Seen, generator, one_by_one, unseen
from daskevo.search.recent_models import KeepsLatest
from daskevo.search.requests import Request, Stop, View
from daskevo.space import ModelSpace
from daskevo.space.model_space import Over
from daskevo.types import JSON, Objective


class Random(KeepsLatest):
    """Uniform draws from the space, each candidate at most once.

    Parameters
    ----------
    keep:
        Number of latest finished models kept in the repository to inherit from; None keeps all, and the repository
        grows with the run.
    over:
        ``choices``: the options of each choice are equally likely; ``candidates``: all candidates are, if the space
        supports that (see :meth:`daskevo.space.ModelSpace.sample`).

    Raises
    ------
    InvalidInput
        On `start`, if the space does not support it.
    """

    name = "random"

    def __init__(self, keep: int | None = 50, over: Over = "choices") -> None:
        super().__init__(keep)
        if over not in ("choices", "candidates"):
            raise InvalidInput(f"over={over!r:.40}: use 'choices' or 'candidates'")
        self.over: Over = over

    @property
    def settings(self) -> JSON:
        # The default stays out, so that runs recorded before `over` existed can be resumed.
        return {"keep": self.keep} if self.over == "choices" else {"keep": self.keep, "over": self.over}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        if self.over == "candidates":
            space.sample(generator(seed, 0), self.over)  # raises where it can't, before anything is asked for

    def ask(self, view: View) -> list[Request] | Stop:
        def make(offset: int, rng: np.random.Generator, seen: Seen) -> Request | Stop:
            candidate = unseen(self._space, partial(self._space.sample, rng, self.over), seen, rng)
            return candidate if isinstance(candidate, Stop) else view.request(offset, candidate)

        return one_by_one(view, self._seed, make)
