"""A policy learned by REINFORCE: a table of logits with one row per choice, in numpy.

Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning", Machine Learning
8, 1992; as a controller of architecture search: Zoph and Le, 2017, whose recurrent network is a table here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskevo.errors import InvalidInput
from daskevo.search.drawing import Seen, one_by_one, unseen
from daskevo.search.recent_models import KeepsLatest
from daskevo.search.requests import Report, Request, Stop, View
from daskevo.space import Candidate, Choice, ModelSpace
from daskevo.types import JSON, Objective

Logits = NDArray[np.float64]
Row = tuple[Any, ...]
"""Key of a row of logits: the choice's name, its number of options, and the option taken before (or None)."""


class Reinforce(KeepsLatest):
    """Draw each option with a learned probability, and raise the probabilities of better candidates.

    Parameters
    ----------
    learning_rate:
        Step size of the logits along the gradient.
    entropy:
        Weight of the policy's entropy in the objective: the higher, the longer it explores.
    memory:
        Share of the moving baseline (mean and spread of the qualities) that is kept at each report.
    context:
        Whether probabilities depend on the option taken just before. Then it can learn which options fit together, but
        needs more evaluations.
    keep:
        Number of latest finished models kept in the repository to inherit from; None keeps all.

    Notes
    -----
    A choice that it has not met has logits of 0, all options alike, so it works if choices depend on others. The
    advantage is measured in standard deviations of the qualities so far, so the learning rate does not depend on the
    objective's scale. A candidate is never asked for twice: if the policy draws nothing new, one is drawn at random.
    """

    name = "reinforce"

    def __init__(
        self,
        learning_rate: float = 0.3,
        entropy: float = 0.01,
        memory: float = 0.9,
        context: bool = False,
        keep: int | None = 50,
    ) -> None:
        super().__init__(keep)
        if not (math.isfinite(learning_rate) and learning_rate > 0):
            raise InvalidInput(f"learning_rate={learning_rate}: use a number above 0")
        if not (math.isfinite(entropy) and entropy >= 0):
            raise InvalidInput(f"entropy={entropy}: use a number from 0")
        if not 0 <= memory < 1:
            raise InvalidInput(f"memory={memory}: use a share from 0, below 1")
        self.learning_rate = float(learning_rate)
        self.entropy = float(entropy)
        self.memory = float(memory)
        self.context = bool(context)

    @property
    def settings(self) -> JSON:
        names = ("learning_rate", "entropy", "memory", "context", "keep")
        return {name: getattr(self, name) for name in names}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._objective = objectives[0]
        self._logits: dict[Row, Logits] = {}
        self._mean = self._spread = 0.0
        self._told = 0

    def ask(self, view: View) -> list[Request] | Stop:
        def make(offset: int, rng: np.random.Generator, seen: Seen) -> Request | Stop:
            candidate = unseen(self._space, partial(self._propose, rng), seen, rng)
            return candidate if isinstance(candidate, Stop) else view.request(offset, candidate)

        return one_by_one(view, self._seed, make)

    def _propose(self, rng: np.random.Generator) -> Candidate:
        before: int | None = None

        def pick(choice: Choice) -> int:
            nonlocal before
            ends = np.cumsum(self._probabilities(self._row(choice, before)))
            # The cumulative sum may round to less than 1.
            before = min(int(np.searchsorted(ends, rng.random(), side="right")), len(choice.options) - 1)
            return before

        return self._space.draw(pick)

    def _row(self, choice: Choice, before: int | None) -> Row:
        return choice.name, len(choice.options), before if self.context else None

    def _probabilities(self, row: Row) -> Logits:
        logits = self._logits.get(row)
        if logits is None:
            return np.full(row[1], 1 / row[1])
        # Less the largest, so that the exponential can't overflow; the probabilities stay the same.
        weights: Logits = np.exp(logits - np.max(logits))
        odds: Logits = weights / weights.sum()
        return odds

    def tell(self, request: Request, report: Report) -> None:
        super().tell(request, report)
        if (quality := report.own_quality) is None:
            return
        advantage = self._advantage(self._objective.rank(quality))
        before: int | None = None
        for choice, index in zip(self._space.choices_of(request.candidate), request.candidate.values, strict=True):
            row = self._row(choice, before)
            odds = self._probabilities(row)
            # Gradients with respect to the logits: of the option's log probability, and of the row's entropy.
            towards = -odds
            towards[index] += 1.0
            # The probability of an option that was given up may have underflowed to 0, whose logarithm is no number.
            logs = np.log(np.maximum(odds, 1e-300))
            spreading = -odds * (logs - odds @ logs)
            step = self.learning_rate * (advantage * towards + self.entropy * spreading)
            self._logits[row] = self._logits.get(row, np.zeros(row[1])) + step
            before = index

    def _advantage(self, reward: float) -> float:
        """Return a reward's deviation from earlier ones in standard deviations (3 at most); update the baseline."""
        self._told += 1
        if self._told == 1:
            # The first reward is the baseline itself: nothing is better or worse than it yet.
            self._mean = reward
            return 0.0
        off = reward - self._mean
        # While there are few rewards, average all of them.
        memory = min(self.memory, 1 - 1 / self._told)
        self._mean += (1 - memory) * off
        self._spread = memory * (self._spread + (1 - memory) * off * off)
        deviation = math.sqrt(self._spread)
        return max(-3.0, min(3.0, off / deviation)) if deviation > 0 and math.isfinite(deviation) else 0.0
