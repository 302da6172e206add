"""Decide, given a deadline, whether an evaluation may still begin and when the process must end: no clock, no I/O.

All moments are seconds since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daskevo.errors import InvalidInput

At = float | Callable[[], float | None] | None
"""A time, or a function that returns it and is called repeatedly, since it may change; None: no deadline."""

WALLTIME = "walltime"
"""Reason for the end of a run that reached its deadline."""
SHARE = 0.95
"""Quantile of the finished evaluations' durations that is taken as the expected duration."""
RECENT = 100
"""Number of latest finished evaluations used."""
PUT_S = 5.0
"""Time that must remain between the expected end of an evaluation and the trainer's leaving, to put the model."""
NEW = 0.9
"""A trainer with at least this share of its lifetime left counts as new."""


def moment_of(at: At) -> float | None:
    """Return the current deadline; None if there is none, or it is infinite.

    Raises
    ------
    InvalidInput
        If the value passed, or returned by the function, is not a time.

    Examples
    --------
    >>> moment_of(5e8), moment_of(lambda: 6e8), moment_of(float("inf")), moment_of(None)
    (500000000.0, 600000000.0, None, None)
    """
    found = at() if callable(at) else at
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or math.isnan(found):
        raise InvalidInput(f"deadline={found!r:.60}: use seconds since the epoch, as time.time() has them, or None")
    return float(found) if found < math.inf else None


def expected_s(finished: Sequence[float]) -> float | None:
    """Return the seconds that nearly all finished evaluations stayed below; None if none has finished.

    Examples
    --------
    >>> expected_s([]), expected_s([3.0]), expected_s([float(n) for n in range(1, 101)])
    (None, 3.0, 95.0)
    """
    recent = sorted(finished[-RECENT:])
    return recent[math.ceil(SHARE * len(recent)) - 1] if recent else None


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time at which a process must have ended.

    Parameters
    ----------
    at:
        Seconds since the epoch.
    margin_s:
        Seconds reserved for the end: reports, labels, closing the cluster.

    Examples
    --------
    >>> deadline = Deadline(1000.0, margin_s=20.0)
    >>> deadline.may_begin(900.0, 60.0), deadline.may_begin(950.0, 60.0), deadline.may_begin(950.0, None)
    (True, False, True)
    >>> deadline.is_over(979.0), deadline.is_over(980.0)
    (False, True)
    """

    at: float
    margin_s: float

    def left_s(self, now: float) -> float:
        """Return the seconds left for work."""
        return self.at - self.margin_s - now

    def is_over(self, now: float) -> bool:
        """Tell whether it is time to end, even with evaluations running."""
        return self.left_s(now) <= 0

    def may_begin(self, now: float, seconds: float | None) -> bool:
        """Tell whether something that takes `seconds` (None: unknown, then it may) may still begin."""
        return self.left_s(now) > (seconds or 0.0)

    def why(self, now: float, unfinished: int) -> str:
        """Return a sentence about the end.

        Parameters
        ----------
        unfinished:
            Number of evaluations still running.
        """
        left_s = max(0.0, self.at - now)
        what = f"{unfinished} evaluations on their way are done again" if unfinished else "no other would be done in it"
        return f"its time is nearly over: {left_s:.0f} s are left, {self.margin_s:.0f} s are kept for the end; {what}"


def may_take(left_s: float, whole_s: float, seconds: float | None) -> bool:
    """Tell whether a trainer that leaves in `left_s` seconds may get an evaluation.

    An evaluation that takes longer than the trainer's whole lifetime may go to a new trainer: it may be quicker than
    expected, and no better trainer will ever come.

    Parameters
    ----------
    left_s, whole_s:
        Remaining and total lifetime of the trainer, as far as known.
    seconds:
        Expected duration of the evaluation; None if not known.

    Examples
    --------
    >>> may_take(100.0, 600.0, 60.0), may_take(50.0, 600.0, 60.0), may_take(599.0, 600.0, 900.0)
    (True, False, True)
    """
    if left_s >= (seconds or 0.0) + PUT_S:
        return True
    return seconds is not None and seconds + PUT_S > whole_s and left_s > max(PUT_S, NEW * whole_s)
