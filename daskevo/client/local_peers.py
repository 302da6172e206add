"""Providers on this host that see the same root as this process, with which tensors are exchanged through files.

A writer writes the segment file, and the provider checks and adopts it; a reader gets the file's name and ranges. If
anything does not fit, tensors are sent in messages instead.
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


class LocalPeer(NamedTuple):
    """A provider on this host, and the root as opened by this process."""

    address: str
    root: Root
    quota_bytes: int | None = None


def sight_to_wire(root: Root | None) -> dict[str, Any]:
    """Encode what a provider sees of its root; ``root`` is None if it has none, or can't be identified."""
    sight = None if root is None else sight_of(root)
    if root is None or sight is None:
        return {"root": None}
    return {"root": str(root.path), "sight": list(sight)}


class LocalPeers:
    """The providers whose files this process can use, determined once per address.

    Parameters
    ----------
    ask:
        Asks the provider at an address what it sees of its root; raises NoAnswer.
    """

    def __init__(self, ask: Callable[[str], Awaitable[Mapping[str, Any]]]) -> None:
        self._ask = ask
        self._found: dict[str, asyncio.Future[LocalPeer | None]] = {}
        self.through_messages = False
        """Whether to use messages only; for tests of these."""

    async def at(self, address: str) -> LocalPeer | None:
        """Return the provider at `address` if it is on this host and sees the root that this process sees."""
        if self.through_messages:
            return None
        if address not in self._found:
            self._found[address] = asyncio.ensure_future(self._look(address))
        try:
            # Shielded: a cancelled caller must not cancel the question for others that wait for it.
            return await asyncio.shield(self._found[address])
        except NoAnswer:
            # Forget the failure, so that the next call asks again.
            self._found.pop(address, None)
            return None

    def distrust(self, address: str, reason: str) -> None:
        """Stop using files of a provider: one of them did not fit its description."""
        logger.warning("daskevo: tensors go to and from %s by messages from now on: %s", address, reason)
        # A completed future in place of the question, so that the provider is not asked again.
        known: asyncio.Future[LocalPeer | None] = asyncio.get_running_loop().create_future()
        known.set_result(None)
        self._found[address] = known

    async def _look(self, address: str) -> LocalPeer | None:
        told = await self._ask(address)
        if told["root"] is None:
            return None

        def look() -> LocalPeer | None:
            try:
                root = Root.open(Path(told["root"]))
            except DaskevoError:
                return None  # another host, or a container in which the path does not exist: use messages
            # The same path need not be the same folder: another host's disk, or a container with something else mounted
            # there.
            seen = sight_of(root) == SeenRoot(*told["sight"])
            return LocalPeer(address, root, told.get("quota_bytes")) if seen else None

        return await asyncio.to_thread(look)
