"""Messages that are sent in the background: drops of unused references after a put, and ends of attempts.

They are sent at once; those that come while others are in flight are joined. If they are lost with the process or on
the way, the end of the holder and the audit have the same effect later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from daskevo.client.directory import CALL_TIMEOUT_S, Directory, ShardCall
from daskevo.errors import ClusterError, DaskevoError
from daskevo.protocol.messages import Drop
from daskevo.protocol.replies import Reply, reply_from_wire
from daskevo.types import Attempt

logger = logging.getLogger(__name__)

GIVE_BACK_TIMEOUT_S = 5.0
"""Longest wait for the answer to a drop, in seconds: settling and audit make up for lost ones. For the end of an
attempt the usual limit holds, since a lost one keeps the attempt alive as long as its holder."""


class Outbox:
    """Outgoing drops and ends of one process, for attempts whose put was answered.

    Parameters
    ----------
    directory:
        Calls owners and coordinator.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._drops: list[Drop] = []
        self._ended: list[Attempt] = []
        self._sending: asyncio.Task[None] | None = None

    def add(self, ended: Attempt, drops: Iterable[Drop] = ()) -> None:
        """Queue the end of an attempt that needs no settling, and its drops; must be called on the event loop."""
        self._ended.append(ended)
        self._drops += drops
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def sent(self) -> None:
        """Wait until all queued messages have been answered or have timed out."""
        while self._sending is not None and not self._sending.done():
            await asyncio.shield(self._sending)

    async def _send(self) -> None:
        while self._ended or self._drops:
            # Taken out before the first await: what is queued meanwhile goes with the next round.
            ended, self._ended = self._ended, []
            drops, self._drops = self._drops, []
            await asyncio.gather(send_drops(self._directory, drops), end(self._directory, ended, settled=True))


async def send_drops(directory: Directory, drops: Sequence[Drop]) -> list[Reply | DaskevoError]:
    """Send drops; return their answers. What was not answered is left to settling and audit."""
    calls = [
        ShardCall(await directory.shard_of(drop.owner), "ask", {"messages": [drop.to_wire()]}, patient=False)
        for drop in drops
    ]
    answers = await directory.together(calls, timeout_s=GIVE_BACK_TIMEOUT_S)
    for answer in answers:
        # Not raised: the put was answered long ago, and a lost drop only keeps tensors until the next audit.
        if isinstance(answer, DaskevoError):
            logger.info("daskevo: a drop is left to settling and audit: %s", answer)
    return [answer if isinstance(answer, DaskevoError) else reply_from_wire(answer[0]) for answer in answers]


async def end(directory: Directory, attempts: Sequence[Attempt], *, settled: bool) -> None:
    """End attempts; if the message is lost, they end with their holder.

    Parameters
    ----------
    settled:
        Whether nothing of them is left to clean up; otherwise the coordinator settles them.
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
