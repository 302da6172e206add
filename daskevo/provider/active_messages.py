"""Which messages a provider is at work on, by shard: who closes one lets them end first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ActiveMessages:
    """Counts what is under way on each opening of a shard; of one event loop."""

    def __init__(self) -> None:
        self._counts: dict[object, int] = {}
        self._idle: dict[object, asyncio.Event] = {}

    @contextmanager
    def one(self, opening: object) -> Iterator[None]:
        """Count a message while it is worked on."""
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
        """Wait until nothing is under way on an opening that gets no more messages, but not for ever."""
        if opening in self._counts:
            idle = self._idle[opening] = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(idle.wait(), timeout_s)
            del self._idle[opening]
