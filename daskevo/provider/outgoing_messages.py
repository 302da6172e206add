"""Messages with tensors on their way to readers: a few at once, counted until the network has taken the last byte.

Dask says nothing when an answer has been sent. What an answer holds is let go then, which is noticed.
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


class Outgoing:
    """What readers are sent.

    Parameters
    ----------
    limit_bytes:
        Most memory that all messages may take; a single one may be larger.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.room = TransferMemory(limit_bytes, lends_alone=True)
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def message(self, nbytes: int) -> AsyncIterator[OutgoingMessage]:
        """Wait until there is room for a message; it is given back when what `OutgoingMessage.frames` returned goes."""
        leaving = OutgoingMessage(self, asyncio.get_running_loop())
        try:
            while not self.room.ask(leaving, nbytes, time.monotonic()):
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _LOOK_AGAIN_S)
            yield leaving
        finally:
            if not leaving.frames_left:
                self.end(leaving)

    def end(self, leaving: OutgoingMessage) -> None:
        """Give a message's room back."""
        if self.room.give_back(leaving, time.monotonic()):
            self._changed.set()


class OutgoingMessage:
    """One message on its way."""

    def __init__(self, outgoing: Outgoing, loop: asyncio.AbstractEventLoop) -> None:
        self._outgoing = outgoing
        self._loop = loop
        self.frames_left = 0

    def frames(self, found: Sequence[Any]) -> list[Any]:
        """Return arrays with the same memory; when the last has gone, the message has left."""
        # An array over a memoryview: views of it keep it alive itself, where views of a view keep the first array only.
        lent = [np.frombuffer(memoryview(frame), np.uint8) if frame.nbytes else frame for frame in found]
        for frame in lent:
            if frame.nbytes:
                self.frames_left += 1
                weakref.finalize(frame, self._one_less).atexit = False
        return lent

    def _one_less(self) -> None:
        """Any thread may have let it go, also one that outlives the event loop."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self.frames_left -= 1
        if not self.frames_left:
            self._outgoing.end(self)
