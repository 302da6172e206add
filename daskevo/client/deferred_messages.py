"""Messages that nobody waits for: after a put, the drops of what the model does not use, and the end of its attempt.

They leave at once, those that came meanwhile together. What is lost with the process, or not heard, the holder's end
and the audit take care of (protocol.md: narrow, end).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from daskevo.client.directory import CALL_TIMEOUT_S, Directory, ShardCall
from daskevo.errors import ClusterError, DaskevoError
from daskevo.protocol.messages import Drop
from daskevo.types import Attempt

logger = logging.getLogger(__name__)

GIVE_BACK_TIMEOUT_S = 5.0
"""Longest that giving back waits for an answer: what did not get through, settling and audit do. An end is waited for
as any other word of the scheduler: what it did not hear lives as long as its holder."""


class Outbox:
    """What one process has yet to say about attempts whose put was answered.

    Parameters
    ----------
    directory:
        The way to owners and coordinator.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._drops: list[Drop] = []
        self._ended: list[Attempt] = []
        self._sending: asyncio.Task[None] | None = None

    def add(self, ended: Attempt, drops: Iterable[Drop] = ()) -> None:
        """Hand over the end of an attempt that needs no settling, and its drops; call it in the event loop."""
        self._ended.append(ended)
        self._drops += drops
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def sent(self) -> None:
        """Wait until all that was handed over has been answered, or given up."""
        while self._sending is not None and not self._sending.done():
            await asyncio.shield(self._sending)

    async def _send(self) -> None:
        while self._ended or self._drops:
            ended, self._ended = self._ended, []
            drops, self._drops = self._drops, []
            await asyncio.gather(give_back(self._directory, drops), end(self._directory, ended, settled=True))


async def give_back(directory: Directory, drops: Sequence[Drop]) -> bool:
    """Send drops; return whether all were heard. The rest is left to settling and audit."""
    calls = [
        ShardCall(await directory.shard_of(drop.owner), "ask", {"messages": [drop.to_wire()]}, patient=False)
        for drop in drops
    ]
    heard = True
    for result in await directory.together(calls, timeout_s=GIVE_BACK_TIMEOUT_S):
        if isinstance(result, DaskevoError):
            logger.info("daskevo: a drop is left to settling and audit: %s", result)
            heard = False
    return heard


async def end(directory: Directory, attempts: Sequence[Attempt], *, settled: bool) -> None:
    """End attempts; a lost message waits for the holder's end.

    Parameters
    ----------
    settled:
        Whether they need nothing more; otherwise the coordinator settles them.
    """
    try:
        await directory.transport.coordinator(
            "end",
            timeout_s=CALL_TIMEOUT_S,
            attempts=[list(attempt) for attempt in attempts],
            settled=settled,
        )
    except ClusterError as error:
        logger.info("daskevo: end of an attempt was not heard: %s", error)
