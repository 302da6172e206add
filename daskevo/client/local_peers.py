"""Providers on this host that see the same folder as this process: tensors go to and from them through its files.

The writer writes the segment file, the provider adopts it by name after checking; a reader is told which ranges of
which file to read. Where anything disagrees, messages carry the bytes instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from daskevo.errors import DaskevoError
from daskevo.store.root import Root
from daskevo.store.shared_folder import SeenRoot, sight_of
from daskevo.wire.transport import NoAnswer

logger = logging.getLogger(__name__)


class Neighbour(NamedTuple):
    """A provider on this host, and the root as this process sees it."""

    address: str
    root: Root
    quota_bytes: int | None = None


def sight_to_wire(root: Root | None) -> dict[str, Any]:
    """Return what a provider says of its root."""
    sight = None if root is None else sight_of(root)
    if root is None or sight is None:
        return {"root": None}
    return {"root": str(root.path), "sight": list(sight)}


class Neighbours:
    """The providers whose files this process may use, found out once per address.

    Parameters
    ----------
    ask:
        Asks the provider at an address for its sight; raises NoAnswer.
    """

    def __init__(self, ask: Callable[[str], Awaitable[Mapping[str, Any]]]) -> None:
        self._ask = ask
        self._found: dict[str, asyncio.Future[Neighbour | None]] = {}
        self.through_messages = False
        """Whether files are left alone: for tests of the other way."""

    async def at(self, address: str) -> Neighbour | None:
        """Return the provider at `address` if it is on this host and sees the root that this process sees."""
        if self.through_messages:
            return None
        if address not in self._found:
            self._found[address] = asyncio.ensure_future(self._look(address))
        try:
            return await asyncio.shield(self._found[address])
        except NoAnswer:
            # It is asked again the next time.
            self._found.pop(address, None)
            return None

    def distrust(self, address: str, reason: str) -> None:
        """Use no files of this provider any more: one was not what it should have been."""
        logger.warning("daskevo: tensors go to and from %s by messages from now on: %s", address, reason)
        known: asyncio.Future[Neighbour | None] = asyncio.get_running_loop().create_future()
        known.set_result(None)
        self._found[address] = known

    async def _look(self, address: str) -> Neighbour | None:
        told = await self._ask(address)
        if told["root"] is None:
            return None

        def look() -> Neighbour | None:
            try:
                root = Root.open(Path(told["root"]))
            except DaskevoError:
                return None
            seen = sight_of(root) == SeenRoot(*told["sight"])
            return Neighbour(address, root, told.get("quota_bytes")) if seen else None

        return await asyncio.to_thread(look)
