"""The processes of a trial's cluster, each started again when it ends: what a batch system or systemd does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

AGAIN_S = 1.0
"""Time between the end of a process and its next start."""
GOING_S = 20.0
"""What processes may take to end in good order."""


@dataclass
class Part:
    """A process, its descendants, and what starts it."""

    words: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    final: frozenset[int]
    """Exit codes after which it is not started again."""
    process: subprocess.Popen[bytes] | None = None
    ended: float | None = None
    code: int | None = None
    """With which it ended for good."""

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.words),
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.ended = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and its descendants."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def mind(self) -> None:
        """Start it again if it ended a while ago."""
        if self.process is None or self.code is not None or (code := self.process.poll()) is None:
            return
        if code in self.final:
            self.code = code
        elif self.ended is None:
            self.ended = time.monotonic()
            # What is left of it would work on under the name of its successor.
            self.send(signal.SIGKILL)
        elif time.monotonic() - self.ended > AGAIN_S:
            self.start()


class Parts:
    """All processes of a trial, by name.

    Parameters
    ----------
    logs:
        Folder for what they say.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._parts: dict[str, Part] = {}

    def start(
        self, name: str, words: Sequence[str], environment: Mapping[str, str], final: frozenset[int] = frozenset()
    ) -> None:
        """Start a process and keep it running."""
        part = self._parts[name] = Part(words, environment, self._logs / f"{name}.log", final)
        part.start()

    def mind(self) -> None:
        """Start again what has ended."""
        for part in self._parts.values():
            part.mind()

    def code(self, name: str) -> int | None:
        """Return the exit code with which a process ended for good; None before."""
        return self._parts[name].code

    def send(self, number: signal.Signals, name: str | None = None) -> None:
        """Send a signal to one part, or to all at the same moment."""
        for part in self._parts.values() if name is None else [self._parts[name]]:
            part.send(number)

    def kill_worker(self, name: str) -> None:
        """Kill the Dask worker of a part and leave its nanny; all of it where there is no worker just now."""
        process = self._parts[name].process
        found = [] if process is None else [child for child in _children(process.pid) if _is_worker(child)]
        for child in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if not found:
            self.send(signal.SIGKILL, name)

    def close(self) -> None:
        """End everything: asked first, the last that was started first; killed when it takes too long."""
        until = time.monotonic() + GOING_S
        for part in reversed(self._parts.values()):
            if part.process is None:
                continue
            part.send(signal.SIGCONT)
            if part.process.poll() is None:
                part.process.terminate()
        for part in reversed(self._parts.values()):
            if part.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    part.process.wait(max(0.0, until - time.monotonic()))
                part.send(signal.SIGKILL)
                part.process.wait()
        self._parts.clear()


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started, in whichever of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _is_worker(pid: int) -> bool:
    """Tell a nanny's worker from its other helpers."""
    with contextlib.suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
