"""Decide which trainings a study keeps: those pending, those their strategy still wants, and the best.

Pure: requests, reports and departures in, request numbers out. On resume it is filled again from the record.
"""

from __future__ import annotations

from collections.abc import Iterable

from daskevo.runs.leaders import Leaders
from daskevo.search import Report, Request
from daskevo.types import ModelId, Objective


class Keeping:
    """Requests grouped by the strategy that asked for them, which is the first part of their model ids.

    Kept are requests without a report, and finished ones until their model leaves its strategy
    (:meth:`daskevo.search.Strategy.leave`); the best of each strategy are kept even then. Requests that no strategy
    asked for are never released.

    Parameters
    ----------
    objective:
        What counts as better.
    best:
        Number of best trainings of each strategy that are kept even if they leave it.
    """

    def __init__(self, objective: Objective, best: int) -> None:
        self._objective = objective
        self._best = best
        self._pending: set[int] = set()
        self._finished: dict[ModelId, int] = {}
        self._left: set[ModelId] = set()
        self._leaders: dict[str, Leaders] = {}

    def ask(self, request: Request) -> None:
        """Add a request."""
        self._pending.add(request.number)

    def report(self, report: Report) -> None:
        """Add the report of a request."""
        self._pending.discard(report.number)
        if report.status == "finished":
            self._finished[report.model_id] = report.number
            whose = report.model_id.rpartition("-")[0]
            self._leaders.setdefault(whose, Leaders((self._objective,), self._best)).add(report)

    def leave(self, models: Iterable[ModelId]) -> list[ModelId]:
        """Note that models left their strategy; return those that had not left before."""
        # Those that left are told again when a study is resumed.
        news = [name for name in dict.fromkeys(models) if name not in self._left]
        self._left.update(news)
        return news

    @property
    def kept(self) -> list[int]:
        """Numbers of the requests whose states are kept, in order."""
        best = {number for leaders in self._leaders.values() for number in leaders.kept}
        stay = {number for name, number in self._finished.items() if name not in self._left}
        return sorted(self._pending | stay | best)
