"""Settle attempts that ended without a result, as the coordinator carries it out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from daskevo.client.directory import CALL_TIMEOUT_S, Directory
from daskevo.client.run_script import run_script
from daskevo.errors import ClusterError, DaskevoError, RepositoryError
from daskevo.protocol import scripts
from daskevo.protocol.attempts import Settle
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.messages import Abort, DropAttempt, Message
from daskevo.protocol.replies import Ok, Reply
from daskevo.protocol.steps import Step, Together

logger = logging.getLogger(__name__)

_AGAIN_S = 2.0
"""Interval at which postponed attempts are tried again; opening their shard tries them at once."""


class Settler:
    """Carries out the instructions of `Coordinator.take_settling`.

    Parameters
    ----------
    core:
        The coordinator's state machine.
    directory:
        Sends messages to home shards and owners.
    """

    def __init__(self, core: Coordinator, directory: Directory) -> None:
        self.core = core
        self._directory = directory
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Check for due attempts now."""
        self._due.set()

    async def run(self) -> None:
        """Settle due attempts, for ever."""
        while True:
            try:
                await asyncio.wait_for(self._due.wait(), _AGAIN_S)
            except TimeoutError:
                self.core.resume_settling()
            # Cleared before the due ones are taken: an attempt that ends from here on sets it again, and isn't
            # overlooked.
            self._due.clear()
            due = self.core.take_settling()
            # Exceptions are returned: this task must go on as long as the repository is open, whatever becomes of one
            # attempt.
            results = await asyncio.gather(*map(self._settle, due), return_exceptions=True)
            for settle, error in zip(due, results, strict=True):
                if isinstance(error, Exception):
                    logger.error("daskevo: settling %s failed", settle, exc_info=error)
                    self.core.postpone(settle)

    async def _settle(self, settle: Settle) -> None:
        async def carry_out(step: Step) -> Sequence[Reply | DaskevoError]:
            # Settling consists of messages only (see `scripts.settle`), one at a time.
            assert isinstance(step, Together)
            (message,) = step.messages
            try:
                return [await self._send(message)]
            except (ClusterError, RepositoryError) as error:
                logger.info("daskevo: settling %s is put off: %s", settle, error)
                return [error]

        if await run_script(scripts.settle(settle), carry_out):
            self.core.settled(settle)
        else:
            self.core.postpone(settle)

    async def _send(self, message: Message) -> Reply:
        if isinstance(message, DropAttempt):
            attempts = [[message.model, list(message.attempt)]]
            # To all providers: nobody knows at which owners an attempt that was never put has reserved.
            await self._directory.everywhere("drop_attempts", timeout_s=CALL_TIMEOUT_S, attempts=attempts)
            return Ok()
        assert isinstance(message, Abort)
        shard = await self._directory.shard_of(message.model)
        (answer,) = await self._directory.ask(shard, [message], CALL_TIMEOUT_S)
        return answer
