"""Whose trainings a study keeps: what is still asked for, what its strategies have not let go, and the best.

Pure: requests, reports and who left in, numbers of requests out. After a kill it is made again from the record.
"""

from __future__ import annotations

from collections.abc import Iterable

from daskevo.runs.leaders import Leaders
from daskevo.search import Report, Request
from daskevo.types import ModelId, Objective


class Keeping:
    """Requests by who asked them, which is what their model ids begin with.

    Kept are a request that has no report yet, and a finished one until its model leaves its strategy
    (:meth:`daskevo.search.Strategy.leave`); the best of each strategy are kept even then. What no strategy asked for,
    nobody lets go.

    Parameters
    ----------
    objective:
        What counts as better.
    best:
        How many of the best of each strategy are kept whatever leaves.
    """

    def __init__(self, objective: Objective, best: int) -> None:
        self._objective = objective
        self._best = best
        self._pending: set[int] = set()
        self._finished: dict[ModelId, int] = {}
        self._left: set[ModelId] = set()
        self._leaders: dict[str, Leaders] = {}

    def ask(self, request: Request) -> None:
        """Take in a request."""
        self._pending.add(request.number)

    def report(self, report: Report) -> None:
        """Take in what came of a request."""
        self._pending.discard(report.number)
        if report.status == "finished":
            self._finished[report.model_id] = report.number
            whose = report.model_id.rpartition("-")[0]
            self._leaders.setdefault(whose, Leaders((self._objective,), self._best)).add(report)

    def leave(self, models: Iterable[ModelId]) -> list[ModelId]:
        """Take in who left; return those of whom it is news."""
        news = [name for name in dict.fromkeys(models) if name not in self._left]
        self._left.update(news)
        return news

    @property
    def kept(self) -> list[int]:
        """Numbers of the requests whose states are kept, in order."""
        best = {number for leaders in self._leaders.values() for number in leaders.kept}
        stay = {number for name, number in self._finished.items() if name not in self._left}
        return sorted(self._pending | stay | best)
