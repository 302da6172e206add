"""Background asyncio tasks of a plugin: started, errors logged, cancelled with the plugin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Background:
    """Tasks of one event loop that nobody awaits; references are kept, since asyncio itself keeps only weak ones."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task, unless this has ended."""
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
        """Cancel all tasks; may be called from one of them."""
        self._ended = True
        for task in self._tasks:
            task.cancel()

    async def end(self, timeout_s: float) -> None:
        """Cancel all tasks and wait for them, for `timeout_s` at most."""
        tasks = list(self._tasks)
        self.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
