"""What a work is to do at which step: read by the thread that trains, changed by whoever leads it, under one lock.

A step counts as passed from the moment at which the training goes on beyond it. Until then it may be marked, also while
the model is being saved there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Literal

Reply = Literal["accepted", "saved", "passed"]
"""Of a mark that is asked for late: it will be done; too late, but the model was saved there; too late."""


class Orders:
    """The marks of one work.

    Parameters
    ----------
    start:
        The step that it begins after.
    marks:
        Steps at which the model is saved, and whether it is evaluated there.
    pause_s:
        Seconds after which training is interrupted for a copy against failures; None: never.
    clock:
        Seconds.
    """

    def __init__(
        self,
        start: int,
        marks: Iterable[tuple[int, bool]],
        pause_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._marks = dict(marks)
        self._saved: set[int] = set()
        self._reached = start
        self._at_mark = False
        self._halted = False
        self._copy = False
        self._pause_s = pause_s
        self._clock = clock
        self._paused = clock()

    # Whoever leads it

    def save(self, step: int, *, evaluate: bool) -> Reply:
        """Have the model saved, and perhaps evaluated, at one more step."""
        with self._lock:
            is_here = self._at_mark and step == self._reached
            if not self._halted and (step > self._reached or is_here):
                self._marks[step] = evaluate or self._marks.get(step, False)
                return "accepted"
            return "saved" if step in self._saved else "passed"

    def halt(self, after: int | None) -> None:
        """Have the work end after one of its marks, or at the next step (None, or if that mark is passed)."""
        with self._lock:
            self._marks = {} if after is None else {step: mark for step, mark in self._marks.items() if step <= after}
            self._halted = not self._marks

    def copy(self) -> int:
        """Have a copy against failures kept after the next step, and training go on; return the last step trained."""
        with self._lock:
            self._copy = True
            return self._reached

    # The thread that trains

    @property
    def reached(self) -> int:
        """The last step that was trained."""
        with self._lock:
            return self._reached

    @property
    def halted(self) -> bool:
        with self._lock:
            return self._halted

    def following(self) -> int | None:
        """Return the next mark; None if the work is over."""
        with self._lock:
            return min(self._marks, default=None)

    def passed(self, step: int) -> bool:
        """Take in that a step was trained; tell whether to go on with the next."""
        with self._lock:
            self._reached = step
            return not (self._halted or step in self._marks or self._is_due())

    def _is_due(self) -> bool:
        return self._copy or (self._pause_s is not None and self._clock() - self._paused > self._pause_s)

    def stop_at(self, step: int) -> bool:
        """Begin what is to be done at a step; tell whether it is a mark, and not only a copy against failures."""
        with self._lock:
            self._reached = step
            self._at_mark = step in self._marks and not self._halted
            self._paused = self._clock()
            self._copy = False
            return self._at_mark

    def evaluates(self, step: int) -> bool:
        """Tell whether the model is to be evaluated at a mark that was begun."""
        with self._lock:
            return self._marks.get(step, False)

    def leave(self, step: int, *, evaluated: bool) -> bool:
        """End what was done at a mark; False if it was asked for an evaluation meanwhile, which is to be done first."""
        with self._lock:
            if not evaluated and self._marks.get(step, False) and not self._halted:
                return False
            self._marks.pop(step, None)
            self._saved.add(step)
            self._at_mark = False
            return True
