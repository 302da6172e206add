"""Handle Ctrl-C and signals of batch systems: delay them while a cluster starts, and resend those that Python loses.

However often Ctrl-C is pressed, a command ends with 130 and without a traceback; see :class:`Presses`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from types import FrameType
from typing import Literal

from daskevo_workflows.execution.stack import is_in

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""

AGAIN_S = 0.02
"""Delay before an interrupt that Python lost is sent again, so that the code that lost it has returned."""

TOGETHER_S = 0.5
"""Presses within this time count as one: three quick presses should still end the command in good order."""


TIDIED = "ignore:resource_tracker:UserWarning"
"""Warning filter for Python's resource tracker, which cleans up after a process that ended at once."""


class Presses:
    """Meaning of each Ctrl-C: the first stops the work, the second cuts the orderly end short, the third exits at once.

    No I/O; nested commands of a process share one.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0

    def take(self, now: float) -> Literal["stop", "nothing", "leave"]:
        """Count a press at a time of a monotonic clock, in seconds; return its effect.

        Examples
        --------
        >>> presses = Presses()
        >>> [presses.take(now) for now in (10.0, 10.1, 10.2, 12.0, 12.1, 15.0)]
        ['stop', 'nothing', 'nothing', 'stop', 'nothing', 'leave']
        """
        if self.count and now - self._last < TOGETHER_S:
            return "nothing"
        self.count, self._last = self.count + 1, now
        return "stop" if self.count < 3 else "leave"


class Interrupts:
    """Turns signals into KeyboardInterrupt in the main thread, and remembers them.

    Python drops an exception that a signal handler raises inside a destructor or a callback of the garbage collector
    (Dask has one). Such an interrupt is sent again; long-running code should also call `check` now and then.

    After the first signal only critical messages are logged: interrupted calls of Dask leave tracebacks of its event
    loop, which do not help the user.

    Parameters
    ----------
    presses:
        Of the enclosing command.

    Attributes
    ----------
    number:
        Number of the last signal.
    is_over:
        Whether nothing is left to interrupt (:meth:`leave`).
    ends:
        When the batch system will kill this process, after its first SIGTERM, in seconds since the epoch.
    """

    def __init__(self, presses: Presses | None = None) -> None:
        self.presses = presses or Presses()
        self.came = False
        self.number: int | None = None
        self.ends: float | None = None
        self.is_over = False
        self._grace_s: float | None = None
        self._is_lost = self._is_sent = False
        self._before: Callable[[sys.UnraisableHookArgs], object] = sys.unraisablehook

    def leave(self, code: int) -> None:
        """Make any further Ctrl-C end this process at once with this exit code: its work is over."""
        if threading.current_thread() is threading.main_thread():
            # `heard` must not put another handler back: the work is over, and any Ctrl-C ends the process.
            self.is_over = True
            # Not sys.exit: Python's shutdown would run handlers and print what they raise.
            signal.signal(signal.SIGINT, lambda number, frame: os._exit(code))

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came."""
        if self.came:
            self._is_lost = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """In this block, send an interrupt again if Python drops it."""
        self._before, sys.unraisablehook = sys.unraisablehook, self._dropped
        try:
            yield
        finally:
            self._is_lost = False
            sys.unraisablehook = self._before

    @contextlib.contextmanager
    def gently(self, grace_s: float | None) -> Iterator[None]:
        """In this block let a first SIGTERM set a deadline in `grace_s` seconds; None: it ends the work at once."""
        self._grace_s = grace_s
        try:
            yield
        finally:
            self._grace_s = None

    def _dropped(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Handle an exception that Python drops (`sys.unraisablehook`)."""
        if self.came and unraisable.exc_type is KeyboardInterrupt:
            self._come_again()
        else:
            self._before(unraisable)

    def _come_again(self) -> None:
        self._is_lost = True
        # Not `threading.Thread`: it takes a lock that the interrupted main thread may hold, and would deadlock.
        start_new_thread(self._send_again, ())

    def _send_again(self) -> None:
        time.sleep(AGAIN_S)
        main = threading.main_thread().ident
        if self._is_lost and self.number is not None and main is not None:
            self._is_sent = True
            signal.pthread_kill(main, self.number)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        # Only the first: a second SIGTERM is the batch system's or the user's last word.
        if number == signal.SIGTERM and self._grace_s is not None and self.ends is None:
            self.ends = time.time() + self._grace_s
            return
        is_sent, self._is_sent = self._is_sent, False
        if is_sent and not self._is_lost:
            return  # the interrupt was noticed before it was sent again
        is_again, self.came, self._is_lost = self._is_lost, True, False
        logging.disable(logging.ERROR)
        # One that is sent again was counted when it first came.
        if number == signal.SIGINT and not is_again:
            does = self.presses.take(time.monotonic())
            if does == "nothing":
                return
            if does == "leave":
                os._exit(INTERRUPTED)
        if is_in(frame, Interrupts._dropped):  # an exception raised here would be dropped too
            self._come_again()
        else:
            raise KeyboardInterrupt


@contextlib.contextmanager
def heard(*signals: signal.Signals) -> Iterator[Interrupts]:
    """Let these signals stop the work like Ctrl-C, so that a batch system's signal at walltime ends it in good order.

    A signal that is ignored, as under ``nohup``, or handled by other code is left alone.
    """
    disabled = logging.root.manager.disable
    before, around = {}, None
    if threading.current_thread() is threading.main_thread():
        # Signal handlers can be set in the main thread only.
        around = _taken_by(signal.getsignal(signal.SIGINT))
        before = {
            number: handler
            for number in signals
            if (handler := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler)
            or _taken_by(handler) is not None
        }
    interrupts = Interrupts(None if around is None else around.presses)
    for number in before:
        signal.signal(number, interrupts._take)
    try:
        with interrupts.kept():
            yield interrupts
    finally:
        for number, handler in before.items():
            if not (interrupts.is_over and number == signal.SIGINT):
                signal.signal(number, handler)
        # `_take` silenced everything below critical.
        logging.disable(disabled)


def _taken_by(handler: object) -> Interrupts | None:
    found = getattr(handler, "__self__", None)
    return found if isinstance(found, Interrupts) else None


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Block Ctrl-C in this block; processes and threads started in it never receive it.

    A terminal sends it to every process of the command, and each would print a traceback while starting. A thread that
    ran before, such as one of a BLAS library, may still receive it for this process.
    """
    # Start Python's resource tracker first: its start unblocks SIGINT in the calling thread, which otherwise would be
    # one that starts workers. The filter silences its message after a third Ctrl-C.
    sys.warnoptions.append(TIDIED)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(TIDIED)
    # The mask is inherited by every process and thread that is started from here.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
