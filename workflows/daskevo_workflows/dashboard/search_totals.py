"""Totals over a search's reports, updated incrementally: points, running best, phases, work of each trainer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from daskevo.runs import RunState
from daskevo.search import Report
from daskevo_plugins.dashboard.message_checks import finite
from daskevo_plugins.dashboard.search_news import MOST_PHASES, MOST_POINTS, MOST_STEPS, PhaseRow, Point
from daskevo_plugins.formatting import plain
from daskevo_workflows.reports.series import PHASES

T = TypeVar("T")


@dataclass
class Spent:
    """Work of one trainer: evaluations, and seconds by phase."""

    evaluations: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class SearchAccounts:
    """Totals of one search.

    Parameters
    ----------
    run_state:
        Of the run; `update` adds its new reports.
    running_s:
        Converts a time in seconds since the epoch into seconds of the search's running time.
    """

    def __init__(self, run_state: RunState, running_s: Callable[[float], float]) -> None:
        self._run_state = run_state
        self._running_s = running_s
        self._seen = 0
        self._points: list[tuple[Point, str]] = []
        self._best: list[tuple[float, float]] = []
        self._times: dict[str, int] = defaultdict(int)
        self._spent: dict[str, float] = defaultdict(float)
        self.trainers: dict[str, Spent] = defaultdict(Spent)

    def update(self) -> None:
        """Add the reports that came since the last call."""
        for report in islice(self._run_state.reports.values(), self._seen, None):
            self._take(report)
        self._seen = len(self._run_state.reports)

    def _take(self, report: Report) -> None:
        if report.status == "duplicate":  # nothing ran
            return
        if report.worker is not None and report.seconds:
            trainer = self.trainers[report.worker]
            trainer.evaluations += 1
            for phase, seconds in report.seconds.items():
                trainer.seconds[phase] += seconds
        for phase, seconds in report.seconds.items():
            self._times[phase] += 1
            self._spent[phase] += seconds
        quality = finite(report.quality)
        if report.status != "finished" or quality is None or report.ended is None:
            return
        at_s = self._running_s(report.ended)
        share = min(1.0, max(0.0, finite(report.frozen_share) or 0.0))
        point = Point(at_s, report.number, quality, share, report.transferred, False)
        self._points.append((point, report.model_id))
        rank = self._run_state.objective.rank
        if not self._best or rank(quality) > rank(self._best[-1][1]):
            # Trainers' clocks differ, and a line must not go back in time.
            self._best.append((max(at_s, self._best[-1][0]) if self._best else at_s, quality))

    def points(self, population: Collection[str]) -> tuple[Point, ...]:
        """Return a point per evaluation, in the order of reports; members of the population are marked."""
        some = thinned(self._points, MOST_POINTS)
        return tuple(point._replace(is_member=model_id in population) for point, model_id in some)

    def best_line(self) -> tuple[tuple[float, float], ...]:
        """Return the times at which the best quality improved, with its values."""
        return tuple(thinned(self._best, MOST_STEPS))

    def phases(self) -> tuple[PhaseRow, ...]:
        """Return the phases in their usual order, others after them."""
        names = self.phase_names()
        return tuple(PhaseRow(plain(name, 40), self._times[name], self._spent[name]) for name in names)

    def phase_names(self) -> list[str]:
        """Return the names of `phases` as in reports."""
        known = [phase for phase in PHASES if phase in self._spent]
        return [*known, *sorted(self._spent.keys() - set(PHASES))][:MOST_PHASES]


def thinned(rows: Sequence[T], most: int) -> Sequence[T]:
    """Return at most `most` rows: the last ones, and evenly spaced ones from before.

    Examples
    --------
    >>> thinned(range(10), 6)
    [0, 2, 4, 7, 8, 9]
    """
    if len(rows) <= most:
        return rows
    recent = most // 2
    before, kept = rows[: len(rows) - recent], most - recent
    return [*(before[place * len(before) // kept] for place in range(kept)), *rows[len(rows) - recent :]]
