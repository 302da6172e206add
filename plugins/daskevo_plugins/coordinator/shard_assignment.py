"""Have providers open unserved shards, as the coordinator's state machine decides, until all are open."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.deploy.configured import seconds
from daskevo.errors import DaskevoError, ShardDamaged, ShardUnavailable
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.shard_table import OpenShards, Place, ShardTable
from daskevo.provider.shard_openings import OPENINGS_AT_ONCE
from daskevo.wire.transport import NoAnswer, Transport, typed_error

logger = logging.getLogger(__name__)

OPEN_TIMEOUT = "daskevo.open-timeout"
"""Key in Dask's configuration (with a unit, such as "30s"): time without an answer or progress of a provider that opens
shards, before they go to another."""
OPEN_TIMEOUT_S = 15.0
LONGEST_OPEN_TIMEOUT_S = 120.0
"""The timeout doubles with each further try of a shard, up to this, so that a large shard is opened in the end."""
AVOID_S = 60.0
"""Time for which a provider that did not answer gets no more shards, if there are others."""
_HEARSAY_S = 0.1
"""A closing worker breaks its connections before the scheduler knows; by this much at most."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class Assigner:
    """Carries out the instructions of `Coordinator.assign`.

    Parameters
    ----------
    core:
        The coordinator's state machine.
    transport:
        How providers are called.
    on_change:
        Called after the shard table has changed.
    is_leaving:
        Tells whether the worker at an address is about to close; it then gets no more shards.
    silent:
        Returns providers that are silent, or were recently.
    """

    def __init__(
        self,
        core: Coordinator,
        transport: Transport,
        on_change: Callable[[], None],
        is_leaving: Callable[[str], bool],
        silent: Callable[[], Set[str]],
    ) -> None:
        self.core = core
        self._transport = transport
        self._on_change = on_change
        self._is_leaving = is_leaving
        self._silent = silent
        self._changed = asyncio.Event()
        self._troubles: dict[int, tuple[str, str]] = {}
        self._silences: dict[int, int] = {}
        """Shard -> number of times its opening was waited for in vain."""
        self._progress: dict[int, tuple[str, int]] = {}
        """Shard being opened -> the provider, and the number of records and models it has read of it."""
        self._avoid: dict[str, float] = {}
        """Provider that did not answer -> time until which its shards go to others."""

    def changed(self) -> None:
        """Note that the shard table has changed."""
        self._changed.set()
        self._on_change()

    async def assign(self) -> None:
        """Open the shards that nobody serves; retry failures with growing pauses.

        Damaged shards are not retried: only a person can restore them, and then opens the repository again.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            leaving = {name for name, place in self.core.providers().items() if self._is_leaving(place.address)}
            instructions = self.core.assign(self.avoided(), leaving)
            results = await asyncio.gather(*map(self.have_opened, instructions))
            # A leaving provider may stay after all: Dask cancels it if no other worker can take over its data.
            if (all(results) and not leaving) or not self.core.providers():
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def wait_until_open(self, patience_s: float) -> None:
        """Wait until all shards are served, except damaged ones as long as some are served.

        Raises
        ------
        ShardUnavailable
            If they are not open in time.
        ShardDamaged, RootUnusable, ShardFenced, RepositoryTaken
            The error for which a shard can't be opened.
        """
        # Of an earlier opening: what was wrong then may have been put right, and is tried again.
        self._troubles.clear()
        try:
            async with asyncio.timeout(patience_s):
                while set(self._missing()) - self._troubles.keys() and not self._fatal():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            missing = self._missing()
            read = self._read(missing)
            raise ShardUnavailable(
                f"{len(missing)} of {self.core.shards} shards were not opened within {patience_s:.0f} s: "
                f"{missing[:5]}...; {_how_far(read)}",
                shards=missing,
                read=sum(read.values()),
            ) from None
        fatal = self._fatal() or (self._troubles if len(self._troubles) == self.core.shards else {})
        if fatal:
            shard, (kind, message) = min(fatal.items())
            raise typed_error(kind, f"shard {shard}: {message}", {"shard": shard})

    def _read(self, missing: Iterable[int]) -> dict[str, int]:
        """Return, by provider, the number of records and models read of missing shards."""
        done: dict[str, int] = {}
        for shard in missing:
            if shard in self._progress:
                name, steps = self._progress[shard]
                done[name] = done.get(name, 0) + steps
        return done

    def _fatal(self) -> dict[int, tuple[str, str]]:
        damage = ShardDamaged.__name__
        return {shard: trouble for shard, trouble in self._troubles.items() if trouble[0] != damage}

    def table(self) -> ShardTable:
        """Return the shard table, with the errors of shards that can't be opened."""
        table = self.core.table()
        troubles = {
            shard: f"{kind}: {message}"
            for shard, (kind, message) in self._troubles.items()
            if table.places[shard] is None
        }
        return replace(table, troubles=troubles)

    @property
    def is_open(self) -> bool:
        """Tell whether all shards are served that can be."""
        return not set(self._missing()) - self._troubles.keys()

    def _missing(self) -> list[int]:
        return [shard for shard, place in self.core.table().places.items() if place is None]

    def avoided(self) -> frozenset[str]:
        """Return the providers that did not answer recently; they get shards only if there are no others."""
        now = time.monotonic()
        self._avoid = {name: until for name, until in self._avoid.items() if until > now}
        return frozenset(self._avoid.keys() | self._silent())

    async def have_opened(self, instruction: OpenShards) -> bool:
        """Have a provider open its shards, a few per message; after a message without an answer skip the rest.

        Returns whether nothing has to be retried.
        """
        shards, done = list(instruction.shards), True
        while shards:
            part, shards = shards[:OPENINGS_AT_ONCE], shards[OPENINGS_AT_ONCE:]
            answered, opened = await self._have_some_opened(replace(instruction, shards=tuple(part)))
            done &= opened
            if not answered:
                # Otherwise the state machine would go on waiting for a provider that is not even asked.
                for shard in shards:
                    self.core.not_served(shard, instruction.place.name)
                break
        return done

    def _patience_s(self, shards: Iterable[int]) -> float:
        first = seconds(OPEN_TIMEOUT, OPEN_TIMEOUT_S)
        tries = max(self._silences.get(shard, 0) for shard in shards)
        return max(first, min(first * 2.0**tries, LONGEST_OPEN_TIMEOUT_S))

    async def _have_some_opened(self, instruction: OpenShards) -> tuple[bool, bool]:
        """Return whether the provider answered until all openings ended, and whether nothing has to be retried.

        A provider that reports progress is asked again.
        """
        place, clock = instruction.place, asyncio.get_running_loop().time
        patience_s = self._patience_s(instruction.shards)
        left, before, moved, done = list(instruction.shards), None, clock(), True
        while left:
            try:
                answer = await self._transport.provider(
                    place.address,
                    "open_shards",
                    timeout_s=patience_s,
                    shards=left,
                    generation=self.core.generation,
                    floors=[[shard, list(tick)] for shard, tick in instruction.floors.items() if shard in left],
                    patience_s=patience_s,
                )
            except (NoAnswer, DaskevoError) as error:
                await self._give_up(replace(instruction, shards=tuple(left)), error)
                return False, False
            under_way = answer["under_way"]
            # The timeout counts from the last progress, so a large shard takes as long as it needs.
            if under_way != before:
                before, moved = under_way, clock()
            self._avoid.pop(place.name, None)
            done &= await self._take(place, answer)
            # Don't ask again for shards that were given to another provider meanwhile: their opening ends by itself.
            left = [shard for shard, _, _ in under_way if self.core.has(place.name, shard)]
            if left and clock() - moved > patience_s:
                stuck = NoAnswer(place.address, "open_shards", f"it got no further in {patience_s:.0f} s", late=True)
                await self._give_up(replace(instruction, shards=tuple(left)), stuck)
                return False, False
        return True, done

    async def _take(self, place: Place, answer: Mapping[str, Any]) -> bool:
        """Process a provider's answer; return whether nothing has failed that should be retried."""
        for shard, _ in answer["opened"]:
            self._troubles.pop(shard, None)
            self._silences.pop(shard, None)
            self._progress.pop(shard, None)
            # It was given to another provider while this one was opening it.
            if not self.core.opened(shard, place.name):
                await self.have_closed(place, [shard])
        for shard, kind, message in answer["failed"]:
            self._troubles[shard] = kind, message
            self._progress.pop(shard, None)
            self.core.not_served(shard, place.name)
        self._progress |= {shard: (place.name, steps) for shard, _, steps in answer["under_way"]}
        if answer["opened"] or answer["failed"]:
            self.changed()
        return all(kind == ShardDamaged.__name__ for _, kind, _ in answer["failed"])

    async def _give_up(self, instruction: OpenShards, error: NoAnswer | DaskevoError) -> None:
        name = instruction.place.name
        known = name in self._avoid
        self._avoid[name] = time.monotonic() + AVOID_S
        late = isinstance(error, NoAnswer) and error.late
        for shard in instruction.shards:
            self._silences[shard] = self._silences.get(shard, 0) + late
            self._progress.pop(shard, None)
            self.core.not_served(shard, name)
        self.changed()
        # Said once: the same provider fails for each of its shards.
        if not known:
            await self._complain(instruction, error)

    async def _complain(self, instruction: OpenShards, error: Exception) -> None:
        """Log that a provider did not open shards; at level INFO if it is closing, as all do when a cluster ends."""
        place = instruction.place
        await asyncio.sleep(_HEARSAY_S)
        gone = self.core.providers().get(place.name) != place or self._is_leaving(place.address)
        level = logging.INFO if gone else logging.WARNING
        logger.log(level, "daskevo: provider %s did not open shards %s: %s", place.name, instruction.shards, error)

    async def have_closed(self, place: Place, shards: Sequence[int]) -> None:
        """Ask a provider to close shards that another owns now; a courtesy, since the new epoch fences it anyway."""
        try:
            await self._transport.provider(
                place.address,
                "close_shards",
                timeout_s=CALL_TIMEOUT_S,
                shards=list(shards),
                generation=self.core.generation,
            )
        except (NoAnswer, DaskevoError) as error:
            logger.info("daskevo: provider %s was not told to close shards %s: %s", place.name, shards, error)


def _how_far(read: Mapping[str, int]) -> str:
    if not read:
        return "look into the providers' logs"
    going_on = ", ".join(f"{name} has read {steps} records and models of them" for name, steps in read.items())
    return f"{going_on}, and goes on: open the repository again in a while, or with a longer timeout_s"
