"""Random search without repetition: the yardstick for every other strategy."""

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
        How many of the latest finished models stay in the repository to be inherited from; None keeps all (then the
        repository grows with the run).
    over:
        ``choices``: the options of each choice are equally likely; ``candidates``: all candidates are, where the space
        can do that (see :meth:`daskevo.space.ModelSpace.sample`).

    Raises
    ------
    InvalidInput
        When it is started, if the space can't.
    """

    name = "random"

    def __init__(self, keep: int | None = 50, over: Over = "choices") -> None:
        super().__init__(keep)
        if over not in ("choices", "candidates"):
            raise InvalidInput(f"over={over!r:.40}: use 'choices' or 'candidates'")
        self.over: Over = over

    @property
    def settings(self) -> JSON:
        # What runs were recorded with before there was a choice is still the same.
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
