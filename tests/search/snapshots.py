"""A run whose trainings go on from snapshots: checks what a strategy continues, and counts the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from daskevo.search import Request, View
from daskevo.space import Candidate
from daskevo.testing.strategies import StrategyRun

Quality = Callable[[Candidate, int], float | None]


class Trained(StrategyRun):
    """Trains what is asked for, each request from the snapshot that it continues.

    Attributes
    ----------
    steps:
        Model -> steps that it has been trained, those of the models before it included.
    trained, anew:
        Steps that were trained; that would have been with each request trained from its beginning.
    """

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.steps: dict[str, int] = {}
        self.candidates: dict[str, Candidate] = {}
        self.trained = self.anew = 0

    def ask(self, wanted: int = 1) -> list[Request]:
        view = View(wanted, len(self.requests), "run", set(self.asked), list(self.pending))
        known = self.strategy.ask(view)
        answer = super().ask(wanted)
        assert known == (answer if self.stop is None else self.stop), "asking changes nothing"
        assert len(answer) <= max(0, wanted)
        for request in answer:
            assert request.until_step is not None
            if request.continues is None:
                assert request.parent is None
                continue
            assert request.continues not in self.left
            assert self.steps[request.continues] < request.until_step
            assert request.ancestor is None
            if request.parent is None:
                assert request.candidate == self.candidates[request.continues]
            else:
                assert request.parent == request.continues
        return answer

    def train(self, request: Request, quality: Quality) -> None:
        assert request.until_step is not None
        start = 0 if request.continues is None else self.steps[request.continues]
        self.trained += request.until_step - start
        self.anew += request.until_step
        reached = quality(request.candidate, request.until_step)
        if reached is not None:
            self.steps[request.model_id] = request.until_step
            self.candidates[request.model_id] = request.candidate
        self.tell(request, reached, "failed" if reached is None else "finished")

    def finish(self, quality: Quality, at_once: int = 1, most: int = 5000) -> None:
        """Go on until the strategy stops, the oldest request first."""
        for _ in range(most):
            self.ask(at_once - len(self.pending))
            if self.stop is not None:
                return
            assert self.pending, "a strategy that asks for nothing waits for somebody"
            self.train(self.pending[0], quality)
        raise AssertionError(f"no end after {most} requests")


def value(candidate: Candidate) -> float:
    """A figure that every candidate of `SPACE` has alone."""
    return float(sum(option * 4**place for place, option in enumerate(candidate.values)))


def growing(candidate: Candidate, step: int) -> float:
    """Better candidates are better at every step, and all improve."""
    return value(candidate) + 1 - 0.5**step
