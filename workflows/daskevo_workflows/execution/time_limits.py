"""How long an evaluation may take: what was asked for, or what the run's own evaluations say."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from daskevo.errors import InvalidInput

Limit = float | Literal["auto"] | None
"""Seconds, ``auto`` = by what has finished, or None = no limit."""

TIMES = 20
"""So many times the median of what has finished ..."""
LEAST_S = 600.0
"""... but no less than this, in which a machine with other things to do may fall behind, ..."""
ENOUGH = 3
"""... once so many have finished. Until then:"""
FIRST_S = 6 * 3600.0
RECENT = 100
"""Finished evaluations that the median is of."""


def check_limit(asked: Limit) -> None:
    """See whether a limit can be one.

    Raises
    ------
    InvalidInput
    """
    if asked is not None and asked != "auto" and not (isinstance(asked, (int, float)) and asked > 0):
        raise InvalidInput(f"evaluation_limit_s={asked!r:.60}: use seconds above 0, 'auto', or None for no limit")


def build_limit_s(asked: Limit) -> float | None:
    """Return the seconds within which a candidate must be built for its graph; None = no limit."""
    return LEAST_S if asked == "auto" else asked


class EvaluationLimit:
    """The limit of a run's evaluations.

    Parameters
    ----------
    asked:
        Seconds, ``auto`` or None.
    finished:
        Returns the seconds that so many of the run's last finished evaluations took.
    """

    def __init__(self, asked: Limit, finished: Callable[[int], Sequence[float]]) -> None:
        self._asked: Limit = asked
        self._finished = finished

    def now(self) -> tuple[float, str] | None:
        """Return the seconds that hold at this moment, and in words where they come from; None = no limit."""
        if self._asked is None:
            return None
        if self._asked != "auto":
            return self._asked, f"its limit of {self._asked:g} s"
        seconds = self._finished(RECENT)
        if len(seconds) < ENOUGH:
            return FIRST_S, f"the {FIRST_S / 3600:g} hours that hold before {ENOUGH} evaluations have finished"
        median = statistics.median(seconds)
        limit = max(LEAST_S, TIMES * median)
        reason = f"{TIMES} times the median of those finished" if limit > LEAST_S else "the least that holds by itself"
        return limit, f"its limit of {limit:.0f} s ({reason}; set evaluation_limit_s, --evaluation-limit, for another)"
