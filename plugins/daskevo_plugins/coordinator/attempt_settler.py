"""Settle attempts that ended without a result: abort the put at the model's home first, then drop its references."""

from __future__ import annotations

import asyncio
import logging

from daskevo.client.directory import CALL_TIMEOUT_S, Directory
from daskevo.errors import ClusterError, RepositoryError
from daskevo.protocol.attempts import Settle
from daskevo.protocol.audit import drops_all, question_to_home
from daskevo.protocol.coordinator import Coordinator

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
            self._due.clear()
            due = self.core.take_settling()
            results = await asyncio.gather(*map(self._settle, due), return_exceptions=True)
            for settle, error in zip(due, results, strict=True):
                if isinstance(error, Exception):
                    logger.error("daskevo: settling %s failed", settle, exc_info=error)
                    self.core.postpone(settle)

    async def _settle(self, settle: Settle) -> None:
        question = question_to_home((settle.model, settle.attempt))
        answer = None
        # The home decides first: if the put was committed there, its references must stay.
        try:
            if question is not None:
                shard = await self._directory.shard_of(question.model)
                (answer,) = await self._directory.ask(shard, [question], CALL_TIMEOUT_S)
            if drops_all((settle.model, settle.attempt), answer):
                # A provider that does not get this drops the references at its next audit.
                await self._directory.everywhere(
                    "drop_attempts", timeout_s=CALL_TIMEOUT_S, attempts=[[settle.model, list(settle.attempt)]]
                )
        except (ClusterError, RepositoryError) as error:
            logger.info("daskevo: settling %s is put off: %s", settle, error)
            self.core.postpone(settle)
        else:
            self.core.settled(settle)
