"""Whether room was made in the repository for what a work has to store: asked by it, answered from outside."""

from __future__ import annotations

import threading


class RoomRequest:
    """One question at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answer: bool | None = None

    def ask(self) -> None:
        """Forget an earlier answer: there is a new question."""
        with self._changed:
            self._answer = None

    def answer(self, made: bool) -> None:
        """Say whether room was made. Called in any thread."""
        with self._changed:
            self._answer = made
            self._changed.notify_all()

    @property
    def is_answered(self) -> bool:
        with self._changed:
            return self._answer is not None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the answer, and take it; False if none comes in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None, timeout_s)
            answer, self._answer = self._answer, None
            return bool(answer)
