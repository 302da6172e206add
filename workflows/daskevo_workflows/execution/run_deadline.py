"""Whether a run that has a deadline may still begin something: its clock, its configuration, what it has measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from daskevo.deploy.configured import seconds
from daskevo_workflows.execution.deadline import RECENT, WALLTIME, At, Deadline, expected_s, moment_of

GRACE = "daskevo.batch.grace"
GRACE_S = 20.0
"""Seconds before its deadline at which a process ends its work, if Dask's configuration says no other."""


def grace_s() -> float:
    """Return the seconds that the end of a run's work has.

    Raises
    ------
    InvalidInput
        If what is configured is no time.
    """
    return seconds(GRACE, GRACE_S)


class Closing:
    """What a run asks before it begins something.

    Parameters
    ----------
    deadline:
        Of its process.
    finished:
        Returns the seconds that so many of the run's last finished evaluations took.
    clock:
        Seconds since the epoch.
    """

    def __init__(
        self, deadline: At, finished: Callable[[int], Sequence[float]], clock: Callable[[], float] = time.time
    ) -> None:
        self._deadline, self._finished, self._clock = deadline, finished, clock

    def deadline(self) -> Deadline | None:
        """Return the deadline of this moment."""
        at = moment_of(self._deadline)
        return None if at is None else Deadline(at, grace_s())

    def expected_s(self) -> float | None:
        """Return the seconds that nearly all evaluations stay below; None: none has finished."""
        return expected_s(self._finished(RECENT))

    def is_closing(self) -> bool:
        """Tell whether nothing that begins now would be done in time."""
        deadline = self.deadline()
        return deadline is not None and not deadline.may_begin(self._clock(), self.expected_s())

    def why_over(self, unfinished: int) -> tuple[str, str] | None:
        """Return why it is time to end, as a word and a sentence; None: it is not.

        Parameters
        ----------
        unfinished:
            Evaluations that are on their way.
        """
        deadline, now = self.deadline(), self._clock()
        if deadline is None:
            return None
        if deadline.is_over(now) or (not unfinished and self.is_closing()):
            return WALLTIME, deadline.why(now, unfinished)
        return None
