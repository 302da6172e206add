"""Memory limit of messages with tensors to readers: each counts until the network has taken its last byte.

Dask does not report when an answer has been sent. It drops its references to the arrays then, and finalizers of these
arrays notice it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np

from daskevo.provider.transfer_memory import TransferMemory

_LOOK_AGAIN_S = 1.0
"""Interval at which a waiting message asks again, in seconds; it would lose its place in the queue otherwise."""


class Outgoing:
    """Messages that a provider is sending to readers.

    Parameters
    ----------
    limit_bytes:
        Most memory of all messages together; a larger one is sent alone.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.memory = TransferMemory(limit_bytes, lends_alone=True)
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def message(self, nbytes: int) -> AsyncIterator[OutgoingMessage]:
        """Wait for a message's memory; it is given back when the arrays of `OutgoingMessage.frames` are collected."""
        leaving = OutgoingMessage(self, asyncio.get_running_loop())
        try:
            while not self.memory.ask(leaving, nbytes, time.monotonic()):
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _LOOK_AGAIN_S)
            yield leaving
        finally:
            if not leaving.frames_left:
                self.end(leaving)

    def end(self, leaving: OutgoingMessage) -> None:
        """Give the memory of a message back."""
        if self.memory.give_back(leaving, time.monotonic()):
            self._changed.set()


class OutgoingMessage:
    """One message that is being sent."""

    def __init__(self, outgoing: Outgoing, loop: asyncio.AbstractEventLoop) -> None:
        self._outgoing = outgoing
        self._loop = loop
        self.frames_left = 0

    def frames(self, found: Sequence[Any]) -> list[Any]:
        """Return arrays over the same memory, whose collection tells that the message has been sent."""
        # Arrays over a memoryview: a view of such an array keeps the array itself alive, while a view of a view keeps
        # only the first array alive, and the finalizer would run too early.
        lent = [np.frombuffer(memoryview(frame), np.uint8) if frame.nbytes else frame for frame in found]
        for frame in lent:
            if frame.nbytes:
                self.frames_left += 1
                weakref.finalize(frame, self._one_less).atexit = False
        return lent

    def _one_less(self) -> None:
        # A finalizer: it runs in any thread, also in one that outlives the event loop, which is closed then.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self.frames_left -= 1
        if not self.frames_left:
            self._outgoing.end(self)
