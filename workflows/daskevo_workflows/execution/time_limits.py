"""Time limit of an evaluation: a given one, or one derived from the run's finished evaluations."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from daskevo.errors import InvalidInput

Limit = float | Literal["auto"] | None
"""Seconds, ``auto`` = from finished evaluations, or None = no limit."""

TIMES = 20
"""``auto``: this many times the median of the finished evaluations ..."""
LEAST_S = 600.0
"""... but at least this, since a busy machine may be slow for a while, ..."""
ENOUGH = 3
"""... once this many have finished. Before that:"""
FIRST_S = 6 * 3600.0
RECENT = 100
"""Number of latest finished evaluations in the median."""


def check_limit(asked: Limit) -> None:
    """Check that a time limit is valid.

    Raises
    ------
    InvalidInput
    """
    if asked is not None and asked != "auto" and not (isinstance(asked, (int, float)) and asked > 0):
        raise InvalidInput(f"evaluation_limit_s={asked!r:.60}: use seconds above 0, 'auto', or None for no limit")


def build_limit_s(asked: Limit) -> float | None:
    """Return the time limit, in seconds, for building a candidate for its graph; None = no limit."""
    return LEAST_S if asked == "auto" else asked


class EvaluationLimit:
    """The limit of a run's evaluations.

    Parameters
    ----------
    asked:
        Seconds, ``auto`` or None.
    finished:
        Returns the durations, in seconds, of the given number of latest finished evaluations, in proportion to the
        given number of steps (None: as they were).
    """

    def __init__(self, asked: Limit, finished: Callable[[int, int | None], Sequence[float]]) -> None:
        self._asked: Limit = asked
        self._finished = finished

    def now(self, steps: int | None = None) -> tuple[float, str] | None:
        """Return the current limit in seconds and a phrase about its origin; None = no limit.

        Parameters
        ----------
        steps:
            Steps that the evaluation trains; None: as many as others.
        """
        if self._asked is None:
            return None
        if self._asked != "auto":
            return self._asked, f"its limit of {self._asked:g} s"
        seconds = self._finished(RECENT, steps)
        if len(seconds) < ENOUGH:
            return FIRST_S, f"the {FIRST_S / 3600:g} hours that hold before {ENOUGH} evaluations have finished"
        median = statistics.median(seconds)
        limit = max(LEAST_S, TIMES * median)
        reason = f"{TIMES} times the median of those finished" if limit > LEAST_S else "the least that holds by itself"
        return limit, f"its limit of {limit:.0f} s ({reason}; set evaluation_limit_s, --evaluation-limit, for another)"
