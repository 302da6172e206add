"""Gives workers their part of a repository: those with a role, and nobody else.

Dask sends a registered worker plugin to all workers that there are and that come; one without daskevo then fails to
start. So the coordinator sends it itself; a task on another worker fetches it (`daskevo.cluster.connection`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from distributed.protocol.pickle import dumps

from daskevo.cluster.roles import has_role
from daskevo.cluster.settings import Settings
from daskevo_plugins.provider import ProviderPlugin

logger = logging.getLogger(__name__)


class Equipper:
    """Sends the worker plugin of a repository, once to each worker.

    Parameters
    ----------
    scheduler:
        Dask's.
    settings:
        What the repository was opened with.
    """

    def __init__(self, scheduler: Any, settings: Settings) -> None:
        self._scheduler = scheduler
        self._plugin = ProviderPlugin(settings)
        # Sent again, Dask would take the one that is there out first, with its shards.
        self._sent: dict[str, asyncio.Task[str | None]] = {}

    async def equip(self, addresses: Iterable[str] | None = None) -> dict[str, str]:
        """Send it to workers (all when None) that have a role and don't have it; return what went wrong, by address."""
        known = self._scheduler.workers
        wanted = [
            address
            for address in (list(known) if addresses is None else addresses)
            if address in known and has_role(known[address].resources)
        ]
        found = await asyncio.gather(*map(self._once, wanted))
        return {address: trouble for address, trouble in zip(wanted, found, strict=True) if trouble is not None}

    async def _once(self, address: str) -> str | None:
        task = self._sent.get(address)
        if task is None:
            task = self._sent[address] = asyncio.create_task(self._send(address))
        trouble = await asyncio.shield(task)
        if trouble is not None and self._sent.get(address) is task:
            del self._sent[address]
        return trouble

    async def _send(self, address: str) -> str | None:
        message = {"op": "plugin-add", "plugin": dumps(self._plugin), "name": self._plugin.name}
        reply = (await self._scheduler.broadcast(msg=message, workers=[address], on_error="return"))[address]
        if isinstance(reply, Exception):
            return f"{type(reply).__name__}: {reply}"
        return None if reply["status"] == "OK" else str(reply.get("exception_text") or reply.get("text"))

    def has_it(self, address: str) -> None:
        """A worker has fetched it by itself."""
        if address not in self._sent:
            self._sent[address] = asyncio.create_task(_nothing())

    def left(self, address: str) -> None:
        """A worker has gone."""
        self._sent.pop(address, None)

    async def take_back(self) -> None:
        """Take it out of all workers that have it."""
        addresses = [address for address in self._sent if address in self._scheduler.workers]
        await asyncio.gather(*self._sent.values(), return_exceptions=True)
        self._sent.clear()
        message = {"op": "plugin-remove", "name": self._plugin.name}
        replies = await self._scheduler.broadcast(msg=message, workers=addresses, on_error="return")
        for address, reply in replies.items():
            if isinstance(reply, Exception):
                logger.info("daskevo: worker %s was not told that the repository is closed: %s", address, reply)


async def _nothing() -> None:
    return None
