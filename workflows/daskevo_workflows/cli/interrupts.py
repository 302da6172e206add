"""Ctrl-C and the words of a batch system: put off while a cluster starts, and heard even where Python loses them.

However often Ctrl-C is pressed, a command ends with 130 and without a traceback: see :class:`Presses`.
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
"""Exit code after Ctrl-C, as shells have it."""

AGAIN_S = 0.02
"""Seconds after which an interrupt that Python has lost is sent again: long enough to be out of what lost it."""

TOGETHER_S = 0.5
"""Presses within so many seconds are one: who presses three times at once wants one end, in good order."""


TIDIED = "ignore:resource_tracker:UserWarning"
"""What Python's own helper, which removes what a process that was left at once had open, does not print."""


class Presses:
    """What each Ctrl-C does: the first stops the work, a later one breaks off the end in good order, a third the rest.

    No I/O; one for all commands of a process that lie within each other.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0

    def take(self, now: float) -> Literal["stop", "nothing", "leave"]:
        """Take one in, at a moment of a monotonic clock in seconds; return what it does.

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
    """Turns signals into KeyboardInterrupt in the main thread, and remembers that one came.

    Python drops an exception that a signal raises inside a destructor or a callback of the garbage collector (Dask has
    one). Such an interrupt is not printed, and sent again; who works on calls `check` now and then, too.

    From then on only what is critical is logged: calls of Dask that are broken off on purpose leave tracebacks of its
    event loop, which say nothing to whoever pressed Ctrl-C.

    Parameters
    ----------
    presses:
        Of the command that this one lies in.

    Attributes
    ----------
    number:
        Of the signal that came last.
    is_over:
        Whether nothing is left to interrupt (:meth:`leave`).
    ends:
        When a batch system that has said its first word will kill this process, in seconds since the epoch.
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
        """Have any further Ctrl-C end this process, whose work is over, with this exit code and without a word."""
        if threading.current_thread() is threading.main_thread():
            self.is_over = True
            signal.signal(signal.SIGINT, lambda number, frame: os._exit(code))

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came."""
        if self.came:
            self._is_lost = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Send an interrupt that Python loses again."""
        self._before, sys.unraisablehook = sys.unraisablehook, self._dropped
        try:
            yield
        finally:
            self._is_lost = False
            sys.unraisablehook = self._before

    @contextlib.contextmanager
    def gently(self, grace_s: float | None) -> Iterator[None]:
        """Take a first SIGTERM for the word that there are so many seconds left, and go on; None: for the end."""
        self._grace_s = grace_s
        try:
            yield
        finally:
            self._grace_s = None

    def _dropped(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Hear of an exception that Python drops, wherever it does so."""
        if self.came and unraisable.exc_type is KeyboardInterrupt:
            self._come_again()
        else:
            self._before(unraisable)

    def _come_again(self) -> None:
        self._is_lost = True
        # What takes a lock could wait for ever here: the main thread may hold it, in the middle of starting a thread.
        start_new_thread(self._send_again, ())

    def _send_again(self) -> None:
        time.sleep(AGAIN_S)
        main = threading.main_thread().ident
        if self._is_lost and self.number is not None and main is not None:
            self._is_sent = True
            signal.pthread_kill(main, self.number)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if number == signal.SIGTERM and self._grace_s is not None and self.ends is None:
            self.ends = time.time() + self._grace_s
            return
        is_sent, self._is_sent = self._is_sent, False
        if is_sent and not self._is_lost:
            return  # it was heard while it was on its way
        is_again, self.came, self._is_lost = self._is_lost, True, False
        logging.disable(logging.ERROR)
        if number == signal.SIGINT and not is_again:
            does = self.presses.take(time.monotonic())
            if does == "nothing":
                return
            if does == "leave":
                os._exit(INTERRUPTED)
        if is_in(frame, Interrupts._dropped):  # what is raised now is lost, too
            self._come_again()
        else:
            raise KeyboardInterrupt


@contextlib.contextmanager
def heard(*signals: signal.Signals) -> Iterator[Interrupts]:
    """Let these signals stop the work as Ctrl-C does: a batch system's word at walltime leaves it in good order.

    One that is ignored, as under ``nohup``, or taken by somebody else stays so.
    """
    disabled = logging.root.manager.disable
    before, around = {}, None
    if threading.current_thread() is threading.main_thread():
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
        logging.disable(disabled)


def _taken_by(handler: object) -> Interrupts | None:
    found = getattr(handler, "__self__", None)
    return found if isinstance(found, Interrupts) else None


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Hold Ctrl-C back until the end; processes and threads that are started meanwhile never get it.

    A terminal sends it to every process of the command; in the middle of starting, each would print a traceback.
    A thread that ran before, such as one of a BLAS library, may still take it for this process.
    """
    # It unblocks the interrupt in the thread that starts it, which would be one that starts workers. It tidies up after
    # a third Ctrl-C, too, and need not say so.
    sys.warnoptions.append(TIDIED)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(TIDIED)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
