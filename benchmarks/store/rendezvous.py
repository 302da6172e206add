"""Processes of one host that begin together: each says when it is ready, then one moment is named for all.

What they do before takes them differently long. Who began by a clock alone, ready or not, would run while the others
still prepare, and their time would be counted as that of writing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

_POLL_S = 0.002
_BEGIN = "begin"


class Meeting:
    """A folder in which processes meet. It travels to them; who convenes them uses it as a context, which ends it.

    Parameters
    ----------
    parent:
        Where the folder is made.
    lead_s:
        From the moment's being named to the moment, in seconds: long enough for all to read it.
    timeout_s:
        Longest that anybody waits.
    """

    def __init__(self, parent: str | os.PathLike[str], lead_s: float = 0.02, timeout_s: float = 120) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="meeting-", dir=parent)
        self.path = Path(self._folder.name)
        self.lead_s = lead_s
        self.timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def __getstate__(self) -> dict[str, object]:
        # The folder goes with the meeting that made it, not with copies.
        return {"path": self.path, "lead_s": self.lead_s, "timeout_s": self.timeout_s}

    def await_ready(self, parties: int, has_failed: Callable[[], bool] = lambda: False) -> None:
        """Wait until so many are ready, or `has_failed` says that one never will be.

        Raises
        ------
        TimeoutError
            If it takes too long.
        """
        self._until(lambda: len(os.listdir(self.path)) >= parties or has_failed(), f"{parties} processes")

    def begin(self) -> None:
        """Name the moment at which all begin."""
        draft = self.path / f"{_BEGIN}.tmp"
        draft.write_text(repr(time.monotonic() + self.lead_s))
        draft.rename(self.path / _BEGIN)

    def wait(self) -> float:
        """Be ready; return at the moment at which all begin, by the clock that all processes of a host share.

        Raises
        ------
        TimeoutError
            If it isn't named in time.
        """
        (self.path / f"ready-{os.getpid()}").touch()
        named = self.path / _BEGIN
        self._until(named.exists, "the word to begin")
        moment = float(named.read_text())
        while (left := moment - time.monotonic()) > 0:
            time.sleep(left)
        return time.monotonic()

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not come to {self.path} within {self.timeout_s:g} s")
            time.sleep(_POLL_S)
