"""Counters of running messages by shard, so that closing a shard can wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ActiveMessages:
    """Counts the running messages of each opening of a shard; for use on one event loop."""

    def __init__(self) -> None:
        self._counts: dict[object, int] = {}
        self._idle: dict[object, asyncio.Event] = {}

    @contextmanager
    def one(self, opening: object) -> Iterator[None]:
        """Count a message while the block runs."""
        self._counts[opening] = self._counts.get(opening, 0) + 1
        try:
            yield
        finally:
            self._counts[opening] -= 1
            if not self._counts[opening]:
                del self._counts[opening]
                if opening in self._idle:
                    self._idle[opening].set()

    async def ended(self, opening: object, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds for the running messages of an opening that gets no new ones."""
        if opening in self._counts:
            idle = self._idle[opening] = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(idle.wait(), timeout_s)
            del self._idle[opening]
