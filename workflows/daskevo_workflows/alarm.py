"""A time limit for code in this very process: where a candidate is built for its graph, nobody else can end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 1.0
"""Code that catches everything is interrupted again after so long."""


class Overdue(BaseException):
    """Code was past its time limit. Beyond Exception, so that it isn't caught in passing."""


@contextmanager
def alarm(limit_s: float | None) -> Iterator[None]:
    """Raise :class:`Overdue` in what is done here after so many seconds.

    Python code and calls that wait are interrupted, code in C when it returns. No limit holds outside of the main
    thread, or where somebody else uses the alarm clock (SIGALRM).
    """
    if limit_s is None or not _is_free():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_free() -> bool:
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
