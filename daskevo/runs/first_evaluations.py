"""Which evaluations were the first of their trainer's process: they import Keras, prepare the data and trace graphs.

Pure, and cheap at each report: for a progress line that is not to take the first seconds for those of all others.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from daskevo.search import Report

ENDS_ITS_TRAINER = ("trainer lost", "time limit")
"""Kinds of failures after which a trainer's process is another one."""


class FirstEvaluations:
    """Numbers of the requests whose evaluation was the first of its trainer's process.

    Parameters
    ----------
    sessions:
        When sessions of the run began, in seconds since the epoch, in order: each has trainers of its own, as far as
        anybody knows.

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
        """Take in a report, in the order in which they came."""
        if report.worker is None or report.status == "duplicate":
            return
        if report.failure is not None and report.failure.kind in ENDS_ITS_TRAINER:
            self._known.pop(report.worker, None)
            return
        if report.started is None:
            return
        session = bisect(self._sessions, report.started)
        if self._known.get(report.worker) != session:
            self._known[report.worker] = session
            self._numbers.add(report.number)


def without_firsts(reports: Sequence[Report], firsts: FirstEvaluations) -> list[Report]:
    """Return the reports that were not a trainer's first; all, if there are no others.

    Parameters
    ----------
    reports:
        In the order in which they came; it stays.
    """
    return [report for report in reports if report.number not in firsts] or list(reports)
