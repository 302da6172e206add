"""Send the repository's worker plugin to workers that have a role, and remove it when the repository closes.

Dask sends a registered worker plugin to all workers, and a worker without daskevo then fails to start. So the
coordinator sends it itself; a task on another worker fetches it (`daskevo.client.connection`).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable
from typing import Any

from distributed.protocol.pickle import dumps

from daskevo.deploy.roles import has_role
from daskevo.deploy.settings import RepositorySettings
from daskevo.wire.dask_private import send_recv
from daskevo.wire.transport import connected, operation
from daskevo_plugins.provider import ProviderPlugin

logger = logging.getLogger(__name__)

_SENDING_S = 5.0
"""Longest wait of a closing repository for a plugin that is still being sent."""
_END_S = 20.0
"""Longest wait for a worker to confirm that it removed the plugin."""


class WorkerSetup:
    """Sends a repository's worker plugin, once to each worker.

    Parameters
    ----------
    scheduler:
        Dask's scheduler.
    settings:
        Settings that the repository was opened with.
    """

    def __init__(self, scheduler: Any, settings: RepositorySettings) -> None:
        self._scheduler = scheduler
        self._key = settings.key
        # Tells this coordinator's plugins from those of the next one, which has the same names and may have sent its
        # own already.
        self._part = uuid.uuid4().hex
        self._plugin = ProviderPlugin(settings, self._part)
        # A second send would make Dask remove the first plugin, with its shards; so sends under way are shared.
        self._sent: dict[str, asyncio.Task[str | None]] = {}
        self._has: set[str] = set()
        """Workers known to have the plugin."""

    async def equip(self, addresses: Iterable[str] | None = None) -> dict[str, str]:
        """Send the plugin to workers (all if None) that have a role and lack it; return errors by address."""
        known = self._scheduler.workers
        wanted = [
            address
            for address in (list(known) if addresses is None else addresses)
            if address in known and has_role(known[address].resources)
        ]
        found = await asyncio.gather(*map(self._once, wanted))
        return {address: trouble for address, trouble in zip(wanted, found, strict=True) if trouble is not None}

    async def _once(self, address: str) -> str | None:
        if address in self._has:
            return None
        task = self._sent.get(address)
        if task is None:
            task = self._sent[address] = asyncio.create_task(self._send(address))
        # No time limit: it ends when the worker answers or leaves, or with the repository.
        await asyncio.wait([task])
        if task.cancelled():
            return "the repository was closed meanwhile"
        trouble = task.result()
        if self._sent.get(address) is task:
            del self._sent[address]
            if trouble is None:
                self._has.add(address)
        return None if address in self._has else trouble

    async def _send(self, address: str) -> str | None:
        message = {"op": "plugin-add", "plugin": dumps(self._plugin), "name": self._plugin.name}
        # The scheduler's own operation for one worker; an error is a result here, since one worker must not stop the
        # others.
        reply = (await self._scheduler.broadcast(msg=message, workers=[address], on_error="return"))[address]
        if isinstance(reply, Exception):
            return f"{type(reply).__name__}: {reply}"
        return None if reply["status"] == "OK" else str(reply.get("exception_text") or reply.get("text"))

    def has_it(self, address: str) -> None:
        """Note that a worker fetched the plugin itself."""
        self._has.add(address)

    def joined(self, address: str) -> None:
        """Note that a worker has the plugin, even if the answer to sending it gets lost."""
        if address in self._sent:
            self._has.add(address)

    def left(self, address: str) -> None:
        """Note that a worker has gone."""
        self._sent.pop(address, None)
        self._has.discard(address)

    async def take_back(self) -> None:
        """Remove the plugin from all workers; don't wait for a suspended worker for longer than the limits."""
        addresses = [address for address in {*self._sent, *self._has} if address in self._scheduler.workers]
        if sending := list(self._sent.values()):
            await asyncio.wait(sending, timeout=_SENDING_S)
        self._sent.clear()
        self._has.clear()
        for task in sending:
            task.cancel()
        await asyncio.gather(*map(self._end, addresses))

    async def _end(self, address: str) -> None:
        try:
            await asyncio.wait_for(self._tell_end(address), _END_S)
        except (OSError, TimeoutError) as error:
            logger.warning("daskevo: worker %s was not told that the repository is closed: %r", address, error)

    async def _tell_end(self, address: str) -> None:
        pool = self._scheduler.rpc
        comm = await connected(pool, address, _END_S)
        try:
            await send_recv(comm, op=operation("provider", self._key, "end_part"), part=self._part)
        finally:
            pool.reuse(address, comm)
