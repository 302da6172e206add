"""A time limit for code in this process: building a candidate for its graph, which no other process can stop."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

from daskevo_workflows.execution.stack import is_in

AGAIN_S = 1.0
"""Code that catches the exception is interrupted again after this time."""


class Overdue(BaseException):
    """Code exceeded its time limit. Not a subclass of Exception, so that `except Exception` does not catch it."""


def alarm(limit_s: float | None) -> AbstractContextManager[None]:
    """Raise :class:`Overdue` in this block after `limit_s` seconds.

    Python code and waiting calls are interrupted; C code when it returns. There is no limit outside of the main thread,
    or if other code uses SIGALRM.
    """
    return nullcontext() if limit_s is None or not _is_free() else _Alarm(limit_s)


class _Alarm(AbstractContextManager[None]):
    # A class rather than a generator: the signal may arrive between any two lines, and just before a generator's
    # `finally` it would skip the clean-up.

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
    """Raise, except inside the clean-up of the limit itself: otherwise the timer would never be stopped."""
    if not is_in(frame, _Alarm.__exit__, _Alarm._stop):
        raise Overdue


def _is_free() -> bool:
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
