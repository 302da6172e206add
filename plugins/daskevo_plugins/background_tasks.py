"""Work that a plugin does beside what it is asked for: begun, its failures logged, ended with the plugin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Background:
    """Tasks of one event loop that nobody awaits; kept, or Python would drop them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin some work; none after the end."""
        if self._ended:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("daskevo: background work of the coordinator failed", exc_info=error)

    def cancel(self) -> None:
        """Have all of it end, which may be called by a part of it."""
        self._ended = True
        for task in self._tasks:
            task.cancel()

    async def end(self, timeout_s: float) -> None:
        """Cancel all of it, and wait so long for its end."""
        tasks = list(self._tasks)
        self.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
