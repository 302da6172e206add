"""Has providers open the shards that nobody serves, as the coordinator's state machine says, until all are open."""

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
"""Key in Dask's configuration (with a unit, such as "30s"): how long a provider that opens shards may give no answer,
or get no further, before they are given to another."""
OPEN_TIMEOUT_S = 15.0
LONGEST_OPEN_TIMEOUT_S = 120.0
"""Twice as long is waited at each further try of a shard, up to this: a large one is opened in the end."""
AVOID_S = 60.0
"""How long a provider that gave no answer gets no more shards, if there are others."""
_HEARSAY_S = 0.1
"""A worker that closes breaks its connections off before the scheduler knows of it, by so much at most."""
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
    is_leaving:
        Whether the worker at an address is about to close: it is given no more shards.
    silent:
        Returns providers that give no sign of life, or gave none lately.
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
        """Shard -> how often its opening was waited for in vain."""
        self._progress: dict[int, tuple[str, int]] = {}
        """Shard that is being opened -> by whom, and how many records and models that one has been through."""
        self._avoid: dict[str, float] = {}
        """Provider that gave no answer -> until when others are given its shards."""

    def changed(self) -> None:
        """Say that the table has changed."""
        self._changed.set()
        self._on_change()

    async def assign(self) -> None:
        """Have the shards that nobody serves opened; what fails is tried again, less and less often.

        Damaged ones are not: only a person can restore them, and opens the repository again afterwards.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            leaving = {name for name, place in self.core.providers().items() if self._is_leaving(place.address)}
            instructions = self.core.assign(self.avoided(), leaving)
            results = await asyncio.gather(*map(self.have_opened, instructions))
            # Who is leaving may stay after all: Dask gives it up where nobody can take over a worker's data.
            if (all(results) and not leaving) or not self.core.providers():
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
        """Return how many records and models of shards that are missing each provider has been through."""
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
        """Return the shard table, with what keeps shards from being opened."""
        table = self.core.table()
        troubles = {
            shard: f"{kind}: {message}"
            for shard, (kind, message) in self._troubles.items()
            if table.places[shard] is None
        }
        return replace(table, troubles=troubles)

    @property
    def is_open(self) -> bool:
        """Whether all shards are served that can be."""
        return not set(self._missing()) - self._troubles.keys()

    def _missing(self) -> list[int]:
        return [shard for shard, place in self.core.table().places.items() if place is None]

    def avoided(self) -> frozenset[str]:
        """Return the providers that get shards only if there are no others: they gave no answer lately."""
        now = time.monotonic()
        self._avoid = {name: until for name, until in self._avoid.items() if until > now}
        return frozenset(self._avoid.keys() | self._silent())

    async def have_opened(self, instruction: OpenShards) -> bool:
        """Have a provider open its shards, a few per message; when one has no answer, none of the rest is tried.

        Returns whether there is nothing to be tried again.
        """
        shards, done = list(instruction.shards), True
        while shards:
            part, shards = shards[:OPENINGS_AT_ONCE], shards[OPENINGS_AT_ONCE:]
            answered, opened = await self._have_some_opened(replace(instruction, shards=tuple(part)))
            done &= opened
            if not answered:
                for shard in shards:
                    self.core.not_served(shard, instruction.place.name)
                break
        return done

    def _patience_s(self, shards: Iterable[int]) -> float:
        first = seconds(OPEN_TIMEOUT, OPEN_TIMEOUT_S)
        tries = max(self._silences.get(shard, 0) for shard in shards)
        return max(first, min(first * 2.0**tries, LONGEST_OPEN_TIMEOUT_S))

    async def _have_some_opened(self, instruction: OpenShards) -> tuple[bool, bool]:
        """Return whether the provider answered until all had ended, and whether there is nothing to be tried again.

        One that says that it goes on, and does, is asked again.
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
            if under_way != before:
                before, moved = under_way, clock()
            self._avoid.pop(place.name, None)
            done &= await self._take(place, answer)
            # What was given to another meanwhile is not asked for again: its opening ends by itself.
            left = [shard for shard, _, _ in under_way if self.core.has(place.name, shard)]
            if left and clock() - moved > patience_s:
                stuck = NoAnswer(place.address, "open_shards", f"it got no further in {patience_s:.0f} s", late=True)
                await self._give_up(replace(instruction, shards=tuple(left)), stuck)
                return False, False
        return True, done

    async def _take(self, place: Place, answer: Mapping[str, Any]) -> bool:
        """Take in how far a provider is; return whether nothing has failed that is to be tried again."""
        for shard, _ in answer["opened"]:
            self._troubles.pop(shard, None)
            self._silences.pop(shard, None)
            self._progress.pop(shard, None)
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
        if not known:
            await self._complain(instruction, error)

    async def _complain(self, instruction: OpenShards, error: Exception) -> None:
        """Log that a provider did not open shards; who is closing, as all do when a cluster is, is nobody's trouble."""
        place = instruction.place
        await asyncio.sleep(_HEARSAY_S)
        gone = self.core.providers().get(place.name) != place or self._is_leaving(place.address)
        level = logging.INFO if gone else logging.WARNING
        logger.log(level, "daskevo: provider %s did not open shards %s: %s", place.name, instruction.shards, error)

    async def have_closed(self, place: Place, shards: Sequence[int]) -> None:
        """Shards are another provider's, while this one still has them open; manners only, their epochs fence it."""
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
