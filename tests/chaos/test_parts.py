"""What keeps a trial's processes running."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos import parts as module
from tests.chaos.parts import Parts

LINE = "import time; print('up', flush=True); time.sleep(600)"


def until(told: Callable[[], object], parts: Parts) -> None:
    deadline = time.monotonic() + 60
    while not told():
        assert time.monotonic() < deadline
        parts.mind()
        time.sleep(0.01)


@pytest.mark.processes
def test_what_ends_is_started_again_until_it_ends_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    parts = Parts(tmp_path)
    try:
        parts.start("a", [sys.executable, "-c", LINE], {})
        log = tmp_path / "a.log"
        for count in (1, 2):
            until(lambda count=count: log.read_text().count("up") == count, parts)  # type: ignore[misc]
            parts.send(signal.SIGKILL, "a")
        until(lambda: log.read_text().count("up") == 3, parts)
        assert parts.code("a") is None
        parts.start("b", [sys.executable, "-c", "raise SystemExit(1)"], {}, frozenset({0, 1}))
        until(lambda: parts.code("b") == 1, parts)
        parts.send(signal.SIGSTOP)  # one that is stopped ends all the same
    finally:
        parts.close()


@pytest.mark.processes
def test_a_worker_is_killed_without_its_nanny(tmp_path: Path) -> None:
    nanny = "import subprocess, sys\nwhile True: subprocess.call([sys.executable, '-c', sys.argv[1], 'spawn_main'])\n"
    parts = Parts(tmp_path)
    try:
        parts.start("a", [sys.executable, "-c", nanny, LINE], {})
        parts.start("b", [sys.executable, "-c", LINE], {})
        for name in "ab":
            until(lambda name=name: (tmp_path / f"{name}.log").read_text().count("up") == 1, parts)  # type: ignore[misc]
        first, second = parts._parts["a"].process, parts._parts["b"].process
        assert first is not None
        assert second is not None
        parts.kill_worker("a")
        until(lambda: (tmp_path / "a.log").read_text().count("up") == 2, parts)
        assert first.poll() is None
        parts.kill_worker("b")  # has no worker: all of it
        assert second.wait(60) == -signal.SIGKILL
    finally:
        parts.close()
    assert first.poll() is not None
