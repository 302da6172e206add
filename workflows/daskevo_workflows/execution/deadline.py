"""When a process that has to be done at some moment may still begin an evaluation, and when it is to end: no clock, no
I/O.

All moments are seconds since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daskevo.errors import InvalidInput

At = float | Callable[[], float | None] | None
"""A moment; or what is asked for it again and again, as it may change; None: no end."""

WALLTIME = "walltime"
"""The word for a run whose process had to be done."""
SHARE = 0.95
"""An evaluation is expected to take no longer than this share of those that have finished."""
RECENT = 100
"""Finished evaluations that are looked at."""
PUT_S = 5.0
"""A trainer is given nothing that would leave it less than so many seconds before it leaves."""
NEW = 0.9
"""A trainer with this share of its life before it is a new one."""


def moment_of(at: At) -> float | None:
    """Return the moment that holds now; None: there is none, or it never comes.

    Raises
    ------
    InvalidInput
        If what was passed, or what a function returned, is no moment.

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
    """Return the seconds that nearly all evaluations stay below, by those that have finished; None: none has.

    Examples
    --------
    >>> expected_s([]), expected_s([3.0]), expected_s([float(n) for n in range(1, 101)])
    (None, 3.0, 95.0)
    """
    recent = sorted(finished[-RECENT:])
    return recent[math.ceil(SHARE * len(recent)) - 1] if recent else None


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment at which a process must be done.

    Parameters
    ----------
    at:
        Seconds since the epoch.
    margin_s:
        What is kept of it for the end: reports, labels, closing the cluster.

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
        """Return the seconds for work."""
        return self.at - self.margin_s - now

    def is_over(self, now: float) -> bool:
        """Tell whether it is time to end, whatever is on its way."""
        return self.left_s(now) <= 0

    def may_begin(self, now: float, seconds: float | None) -> bool:
        """Tell whether something that takes so long may still begin; where nobody knows (None), all may that could."""
        return self.left_s(now) > (seconds or 0.0)

    def why(self, now: float, unfinished: int) -> str:
        """Say why it is time to end.

        Parameters
        ----------
        unfinished:
            Evaluations that were on their way.
        """
        left_s = max(0.0, self.at - now)
        what = f"{unfinished} evaluations on their way are done again" if unfinished else "no other would be done in it"
        return f"its time is nearly over: {left_s:.0f} s are left, {self.margin_s:.0f} s are kept for the end; {what}"


def may_take(left_s: float, whole_s: float, seconds: float | None) -> bool:
    """Tell whether a trainer that leaves in so many seconds may be given an evaluation.

    One that takes longer than the trainer's whole life is given to a new trainer: it may be quicker than most, and
    whoever waited for a better trainer would wait for ever.

    Parameters
    ----------
    left_s, whole_s:
        Of its life, the seconds before it and all of them, as far as it is known.
    seconds:
        That the evaluation may take; None: nobody knows.

    Examples
    --------
    >>> may_take(100.0, 600.0, 60.0), may_take(50.0, 600.0, 60.0), may_take(599.0, 600.0, 900.0)
    (True, False, True)
    """
    if left_s >= (seconds or 0.0) + PUT_S:
        return True
    return seconds is not None and seconds + PUT_S > whole_s and left_s > max(PUT_S, NEW * whole_s)
