"""Waiting for a condition. Limits are generous: a busy machine may stand still for many seconds."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daskevo.runs import RunView


def wait_until(condition: Callable[[], Any], timeout_s: float = 300) -> Any:
    """Wait until a condition holds, and return what it returned."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, _failure(condition, timeout_s)
        time.sleep(0.02)
    return found


async def wait_until_async(condition: Callable[[], Any], timeout_s: float = 300) -> Any:
    """Wait until a condition holds, while this event loop goes on, and return what it returned."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, _failure(condition, timeout_s)
        await asyncio.sleep(0.01)
    return found


def _failure(condition: Callable[[], Any], timeout_s: float) -> str:
    words = inspect.getsource(condition).strip() if inspect.isfunction(condition) else condition
    return f"not true after {timeout_s} s: {words}"


def wait_for_reports(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until the run ``folder/run``, which a process carries out, has so many reports in its record."""

    def are_there() -> bool:
        assert process.poll() is None, f"ended before {count} reports: {process.communicate()}"
        if not (folder / "run" / "run.json").exists():
            return False
        with RunView(folder / "run") as view:
            return len(view.reports()) >= count

    wait_until(are_there, 500)
