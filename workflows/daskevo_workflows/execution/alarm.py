"""A time limit for code in this very process: where a candidate is built for its graph, nobody else can end it."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

from daskevo_workflows.execution.stack import is_in

AGAIN_S = 1.0
"""Code that catches everything is interrupted again after so long."""


class Overdue(BaseException):
    """Code was past its time limit. Beyond Exception, so that it isn't caught in passing."""


def alarm(limit_s: float | None) -> AbstractContextManager[None]:
    """Raise :class:`Overdue` in what is done here after so many seconds.

    Python code and calls that wait are interrupted, code in C when it returns. No limit holds outside of the main
    thread, or where somebody else uses the alarm clock (SIGALRM).
    """
    return nullcontext() if limit_s is None or not _is_free() else _Alarm(limit_s)


class _Alarm(AbstractContextManager[None]):
    # A class and no generator: it may ring between any two lines, and what a generator does at its end would be left
    # undone if it rang just before.

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, _ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, self._limit_s, AGAIN_S)
        except BaseException:
            self._stop()
            raise

    def __exit__(self, *error: object) -> None:
        self._stop()

    def _stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def _ring(number: int, frame: FrameType | None) -> None:
    """Interrupt what is done, but for the end of the limit itself: the clock would ring on for ever."""
    if not is_in(frame, _Alarm.__exit__, _Alarm._stop):
        raise Overdue


def _is_free() -> bool:
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
