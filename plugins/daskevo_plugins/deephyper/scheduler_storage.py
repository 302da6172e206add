"""The part of a :class:`~daskevo_plugins.deephyper.DaskStorage` on Dask's scheduler, which needs no DeepHyper there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import SchedulerPlugin

from daskevo_plugins.deephyper.records import Records

OPERATION = "daskevo_deephyper_storage"
KEPT_S = 600.0
"""How long a storage waits for the last of its clients to come back: a connection may break and be made again."""


class StorageKeeper(SchedulerPlugin):  # type: ignore[misc]
    """Holds the records of storages, each until the last client that opened it is gone."""

    idempotent = True
    name = "daskevo-deephyper-storage"

    async def start(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._records: dict[str, Records] = {}
        self._clients: dict[str, set[str]] = {}
        scheduler.handlers[OPERATION] = self.answer

    def answer(self, storage: str, operation: str, arguments: Sequence[Any]) -> dict[str, Any]:
        """Answer a call; `arguments` are values that Dask carries without looking into them, or plain."""
        if operation == "open":
            self._records.setdefault(storage, Records())
            self._clients.setdefault(storage, set()).update(arguments)
            return {"value": None}
        records = self._records.get(storage)
        if records is None:
            return {"missing": storage}
        try:
            return {"value": records.apply(operation, arguments)}
        except KeyError as error:
            return {"missing": str(error.args[0])}

    def remove_client(self, scheduler: Any, client: str) -> None:
        if any(client in clients for clients in self._clients.values()):
            scheduler.loop.call_later(KEPT_S, self._forget, client)

    def _forget(self, client: str) -> None:
        # It has come back meanwhile.
        if client in self._scheduler.clients:
            return
        for storage, clients in list(self._clients.items()):
            clients.discard(client)
            if not clients:
                del self._clients[storage], self._records[storage]
