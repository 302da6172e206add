"""A lock that many readers hold at the same time, and writers alone."""

from __future__ import annotations

from threading import Lock


class ReadWriteLock:
    """Readers run concurrently; a waiting writer blocks new readers and waits for running ones.

    ``with lock.reading:`` holds it with other readers, ``with lock.writing:`` alone.

    A waiting writer holds the gate through which everyone enters, so readers that come later wait behind it and can't
    starve it; and it lets in readers between two writers as the gate does, in no promised order. Not reentrant: a
    reader that entered again behind a waiting writer would wait for itself.
    """

    def __init__(self) -> None:
        self._gate = Lock()
        self._room = Lock()  # held by a writer, or by all readers together
        self.reading = _Reading(self._gate, self._room)
        self.writing = _Writing(self._gate, self._room)


class _Reading:
    # A class and no generator: a query takes 5 us, a generator's context alone 2.
    __slots__ = ("_count", "_gate", "_readers", "_room")

    def __init__(self, gate: Lock, room: Lock) -> None:
        self._gate = gate
        self._room = room
        self._count = Lock()  # guards _readers
        self._readers = 0

    def __enter__(self) -> None:
        with self._gate, self._count:
            if self._readers == 0:
                self._room.acquire()
            self._readers += 1

    def __exit__(self, *error: object) -> None:
        with self._count:
            self._readers -= 1
            if self._readers == 0:
                # By the last to leave, who need not be the one that acquired it: Lock allows that.
                self._room.release()


class _Writing:
    __slots__ = ("_gate", "_room")

    def __init__(self, gate: Lock, room: Lock) -> None:
        self._gate = gate
        self._room = room

    def __enter__(self) -> None:
        self._gate.acquire()
        try:
            self._room.acquire()
        except BaseException:  # KeyboardInterrupt while it waits
            self._gate.release()
            raise

    def __exit__(self, *error: object) -> None:
        self._room.release()
        self._gate.release()
