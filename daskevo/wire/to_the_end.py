"""Work that runs to its end once it has begun, though whoever waits for it is cancelled or waits no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_under_way: set[asyncio.Task[Any]] = set()
"""An event loop keeps no tasks alive that nobody else does."""


def begin(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin work that needs nobody to wait for it."""
    task = asyncio.get_running_loop().create_task(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return task


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Return what work returns; who is cancelled meanwhile waits no longer, and the work goes on."""
    return await asyncio.shield(begin(work))
