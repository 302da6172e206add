"""Has providers open the shards that nobody serves, as the coordinator's state machine says, until all are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from daskevo.cluster.directory import CALL_TIMEOUT_S
from daskevo.cluster.transport import NoAnswer, Transport, typed_error
from daskevo.errors import DaskevoError, ShardDamaged, ShardUnavailable
from daskevo.ownership.coordinator import Coordinator
from daskevo.ownership.table import OpenShards, Place, ShardTable

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 120.0
"""Longest that one provider may take to open its shards."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class Assigner:
    """Carries out the instructions of `Coordinator.assign`.

    Parameters
    ----------
    core:
        The state machine.
    transport:
        How providers are called.
    on_change:
        Called after the shard table has changed.
    """

    def __init__(self, core: Coordinator, transport: Transport, on_change: Callable[[], None]) -> None:
        self.core = core
        self.stopped = False
        """Set when another job has the root: nothing is opened against it."""
        self._transport = transport
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._troubles: dict[int, tuple[str, str]] = {}

    def changed(self) -> None:
        """Say that the table has changed."""
        self._changed.set()
        self._on_change()

    async def assign(self) -> None:
        """Have the shards that nobody serves opened; what fails is tried again, less and less often.

        Damaged ones are not: only a person can restore them, and opens the repository again afterwards.
        """
        pause_s = _FIRST_PAUSE_S
        while not self.stopped:
            results = await asyncio.gather(*map(self._have_opened, self.core.assign()))
            if all(results) or not self.core.providers():
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def wait_until_open(self, patience_s: float) -> None:
        """Wait until all shards are served but damaged ones; with others served, those don't stand in the way.

        Raises
        ------
        ShardUnavailable
            If they aren't in time.
        ShardDamaged, RootUnusable, ShardFenced, RepositoryTaken
            The error with which a shard can't be opened.
        """
        self._troubles.clear()
        try:
            async with asyncio.timeout(patience_s):
                while set(self._missing()) - self._troubles.keys() and not self._fatal():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            missing = self._missing()
            raise ShardUnavailable(
                f"{len(missing)} of {self.core.shards} shards were not opened within {patience_s:.0f} s: "
                f"{missing[:5]}...; look into the providers' logs",
                shards=missing,
            ) from None
        fatal = self._fatal() or (self._troubles if len(self._troubles) == self.core.shards else {})
        if fatal:
            shard, (kind, message) = min(fatal.items())
            raise typed_error(kind, f"shard {shard}: {message}", {"shard": shard})

    def _fatal(self) -> dict[int, tuple[str, str]]:
        damage = ShardDamaged.__name__
        return {shard: trouble for shard, trouble in self._troubles.items() if trouble[0] != damage}

    def table(self) -> ShardTable:
        """Return the shard table, with what keeps shards from being opened."""
        table = self.core.table()
        troubles = {
            shard: f"{kind}: {message}"
            for shard, (kind, message) in self._troubles.items()
            if table.places[shard] is None
        }
        return replace(table, troubles=troubles)

    def _missing(self) -> list[int]:
        return [shard for shard, place in self.core.table().places.items() if place is None]

    async def _have_opened(self, instruction: OpenShards) -> bool:
        place = instruction.place
        try:
            answer = await self._transport.provider(
                place.address,
                "open_shards",
                timeout_s=OPEN_TIMEOUT_S,
                shards=list(instruction.shards),
                generation=self.core.generation,
                floors=[[shard, list(tick)] for shard, tick in instruction.floors.items()],
            )
        except (NoAnswer, DaskevoError) as error:
            logger.warning("daskevo: provider %s did not open shards %s: %s", place.name, instruction.shards, error)
            for shard in instruction.shards:
                self.core.not_served(shard, place.name)
            self.changed()
            return False
        for shard, _ in answer["opened"]:
            self._troubles.pop(shard, None)
            if not self.core.opened(shard, place.name):
                await self._have_closed(place, shard)
        for shard, kind, message in answer["failed"]:
            self._troubles[shard] = kind, message
            self.core.not_served(shard, place.name)
        self.changed()
        return all(kind == ShardDamaged.__name__ for _, kind, _ in answer["failed"])

    async def _have_closed(self, place: Place, shard: int) -> None:
        """A shard was given to another provider while this one opened it; manners only, the epoch fences it."""
        try:
            await self._transport.provider(place.address, "close_shards", timeout_s=CALL_TIMEOUT_S, shards=[shard])
        except (NoAnswer, DaskevoError) as error:
            logger.info("daskevo: provider %s was not told to close shard %d: %s", place.name, shard, error)
