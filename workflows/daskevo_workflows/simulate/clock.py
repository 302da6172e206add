"""Simulated time: processes that wait, and servers that do one thing after another."""

from __future__ import annotations

import heapq
from collections.abc import Generator
from typing import Any

Process = Generator[float | None, None, Any]
"""Yields the moment at which it goes on, in seconds from the beginning; None: when it is woken."""


class Clock:
    """Runs processes in the order of their moments; of equal ones, in the order in which they were said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ended: Process | None = None
        """The process that has ended last."""
        self._due: list[tuple[float, int, Process]] = []
        self._said = 0

    def start(self, process: Process, at_s: float | None = None) -> None:
        """Have a process go on at a moment, by default this one."""
        self._said += 1
        heapq.heappush(self._due, (self.now if at_s is None else max(at_s, self.now), self._said, process))

    def step(self) -> bool:
        """Have the next process go on; False if nothing is left to happen."""
        if not self._due:
            return False
        self.now, _, process = heapq.heappop(self._due)
        try:
            when = next(process)
        except StopIteration:
            self.ended = process
        else:
            if when is not None:
                self.start(process, when)
        return True

    def go(self, until: Process) -> None:
        """Go on until that process has ended, or nothing is left to happen."""
        while self.ended is not until and self.step():
            pass


class Host:
    """Cores that several servers share."""

    def __init__(self, cores: int) -> None:
        self._free = [0.0] * cores

    def earliest(self) -> float:
        return self._free[0]

    def take(self, until: float) -> None:
        heapq.heapreplace(self._free, until)


class Server:
    """A thread that does one thing after another.

    Parameters
    ----------
    host:
        Whose cores it needs; None: it has one of its own.
    load:
        Share of its time that goes to what isn't simulated one by one, below 1.
    """

    __slots__ = ("_free", "_host", "_slow", "busy_s", "longest_wait_s", "takes")

    def __init__(self, host: Host | None = None, load: float = 0.0) -> None:
        self._free = 0.0
        self._host = host
        self._slow = 1 / (1 - min(load, 0.999))
        self.busy_s = 0.0
        self.longest_wait_s = 0.0
        self.takes = 0

    def take(self, now: float, seconds: float) -> float:
        """Work for so long, as soon as all before it is done; return when that has ended."""
        start = max(now, self._free)
        if self._host is not None:
            start = max(start, self._host.earliest())
        self.longest_wait_s = max(self.longest_wait_s, start - now)
        seconds *= self._slow
        self._free = start + seconds
        if self._host is not None:
            self._host.take(self._free)
        self.busy_s += seconds
        self.takes += 1
        return self._free
