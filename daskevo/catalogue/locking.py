"""A lock that many readers hold at the same time, and writers alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class ReadWriteLock:
    """Readers run side by side; a writer waits for those that read and lets nobody pass it.

    A waiting writer holds the gate through which everyone enters, so readers that come later wait behind it and can't
    starve it; and it lets in readers between two writers as the gate does, in no promised order. Not reentrant: a
    reader that entered again behind a waiting writer would wait for itself.
    """

    def __init__(self) -> None:
        self._gate = Lock()
        self._count = Lock()  # guards _readers
        self._room = Lock()  # held by a writer, or by all readers together
        self._readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock with other readers."""
        with self._gate, self._count:
            if self._readers == 0:
                self._room.acquire()
            self._readers += 1
        try:
            yield
        finally:
            with self._count:
                self._readers -= 1
                if self._readers == 0:
                    # By the last to leave, who need not be the one that acquired it: Lock allows that.
                    self._room.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._gate, self._room:
            yield
