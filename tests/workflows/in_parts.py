"""A strategy whose requests depend on nothing: the same search each time, with any number of trainers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from daskevo.search import Request, Stop, View
from daskevo.search.continuation import Continuing
from daskevo.space import Candidate
from daskevo.types import JSON, ModelId

FIRST, SECOND = Candidate((0, 0, 0, 0)), Candidate((0, 0, 1, 0))
"""Two candidates that share their first layer."""


class InParts(Continuing):
    """Trains one candidate in one piece, then another one until given steps, one after the other."""

    name = "in parts"

    def __init__(self, steps: Sequence[int], between: Callable[[ModelId], object] = lambda name: None) -> None:
        self.steps = list(steps)
        self.most = self.steps[-1]
        self._between = between

    @property
    def settings(self) -> JSON:
        return {"steps": self.steps}

    def _take(self, request: Request, name: ModelId, rank: float | None) -> None:
        if rank is not None:
            self._let_go(request.continues)
            self._keep(name)
            if request.number:
                self._between(name)

    def ask(self, view: View) -> list[Request] | Stop:
        done = view.next_number
        if view.pending:
            return []
        if done == 0:
            return [view.request(0, FIRST, until_step=2)]
        if done > len(self.steps):
            return Stop("done", "all parts are trained")
        before = None if done == 1 else [*self._kept][-1]
        request = view.request(0, SECOND, until_step=self.steps[done - 1], continues=before)
        return [request if before is None else replace(request, ancestor=None)]
