"""Find the first evaluation of each trainer process: it imports Keras, prepares the data and traces graphs.

Pure, and cheap per report. Progress estimates leave these evaluations out, because they take longer than the others.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from daskevo.search import Report

ENDS_ITS_TRAINER = ("trainer lost", "time limit")
"""Kinds of failures after which the trainer has a new process."""


class FirstEvaluations:
    """Numbers of the requests that were the first evaluation of their trainer's process.

    Parameters
    ----------
    sessions:
        Start times of the run's sessions, in seconds since the epoch, in order. Each session is assumed to have new
        trainers.

    Examples
    --------
    >>> firsts = FirstEvaluations([100.0])
    >>> for number, worker in enumerate(["a", "b", "a"]):
    ...     firsts.add(Report(number, "model", "finished", worker=worker, started=110.0, ended=111.0))
    >>> 0 in firsts, 1 in firsts, 2 in firsts
    (True, True, False)
    """

    def __init__(self, sessions: Sequence[float] = ()) -> None:
        self._sessions = list(sessions)
        self._known: dict[str, int] = {}
        self._numbers: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, report: Report) -> None:
        """Add a report; call in the order in which reports came."""
        if report.worker is None or report.status == "duplicate":
            return
        if report.failure is not None and report.failure.kind in ENDS_ITS_TRAINER:
            # Its successor has the same name and another process.
            self._known.pop(report.worker, None)
            return
        if report.started is None:
            return
        session = bisect(self._sessions, report.started)
        if self._known.get(report.worker) != session:
            self._known[report.worker] = session
            self._numbers.add(report.number)


def without_firsts(reports: Sequence[Report], firsts: FirstEvaluations) -> list[Report]:
    """Return the reports that were not a trainer's first, or all if there are no others.

    Parameters
    ----------
    reports:
        In the order in which they came, which is kept.
    """
    return [report for report in reports if report.number not in firsts] or list(reports)
