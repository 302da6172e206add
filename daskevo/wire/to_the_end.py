"""Run a coroutine to its end even if its caller is cancelled or times out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_under_way: set[asyncio.Task[Any]] = set()
"""Strong references to running tasks: an event loop keeps only weak ones, and would let them be collected."""


def begin(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that runs to its end whether or not anything awaits it."""
    task = asyncio.get_running_loop().create_task(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return task


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work and return its result; if the caller is cancelled, it stops waiting and the work goes on."""
    return await asyncio.shield(begin(work))
