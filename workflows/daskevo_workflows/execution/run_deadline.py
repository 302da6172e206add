"""Decide whether a run with a deadline may begin an evaluation, from clock, configuration and past durations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from daskevo.deploy.configured import seconds
from daskevo_workflows.execution.deadline import RECENT, WALLTIME, At, Deadline, expected_s, moment_of

GRACE = "daskevo.batch.grace"
GRACE_S = 20.0
"""Seconds before its deadline at which a process ends its work; default of `GRACE` in Dask's configuration."""


def grace_s() -> float:
    """Return the seconds reserved for the end of a run.

    Raises
    ------
    InvalidInput
        If the configured value is not a duration.
    """
    return seconds(GRACE, GRACE_S)


class Closing:
    """Decides whether a run may begin another evaluation.

    Parameters
    ----------
    deadline:
        Deadline of this process.
    finished:
        Returns the durations, in seconds, of the given number of latest finished evaluations.
    clock:
        Seconds since the epoch.
    """

    def __init__(
        self, deadline: At, finished: Callable[[int], Sequence[float]], clock: Callable[[], float] = time.time
    ) -> None:
        self._deadline, self._finished, self._clock = deadline, finished, clock

    def deadline(self) -> Deadline | None:
        """Return the current deadline."""
        at = moment_of(self._deadline)
        return None if at is None else Deadline(at, grace_s())

    def expected_s(self) -> float | None:
        """Return the seconds that nearly all evaluations stay below; None if none has finished."""
        return expected_s(self._finished(RECENT))

    def is_closing(self) -> bool:
        """Tell whether an evaluation that begins now would probably not end in time."""
        deadline = self.deadline()
        return deadline is not None and not deadline.may_begin(self._clock(), self.expected_s())

    def why_over(self, unfinished: int) -> tuple[str, str] | None:
        """Return why it is time to end, as a word and a sentence; None if it is not.

        Parameters
        ----------
        unfinished:
            Number of evaluations still running.
        """
        deadline, now = self.deadline(), self._clock()
        if deadline is None:
            return None
        if deadline.is_over(now) or (not unfinished and self.is_closing()):
            return WALLTIME, deadline.why(now, unfinished)
        return None
