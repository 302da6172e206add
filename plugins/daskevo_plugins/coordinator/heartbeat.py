"""Ask each provider for a heartbeat every few seconds.

A process that is suspended, swaps, or sits behind a broken switch keeps its connections until Dask declares it dead,
which takes minutes. Its shards are moved earlier. A silent provider is not taken for dead: only its shards move.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from daskevo.deploy.configured import seconds
from daskevo.errors import DaskevoError
from daskevo.protocol.shard_table import Place
from daskevo.wire.transport import NoAnswer, Transport

logger = logging.getLogger(__name__)

SILENT_AFTER = "daskevo.silent-after"
"""Key in Dask's configuration (with a unit, such as "30s"): silence of a provider that serves shards after which they
are opened elsewhere."""
SILENT_AFTER_S = 15.0
PULSE_S = 2.0
"""Interval of heartbeats and time limit of each; a fifth of the silence limit if that is shorter."""
LEAST_MISSES = 3
"""Heartbeats that must be missed: a scheduler that was itself suspended may find one or two answers overdue."""
TRIAL = 4
"""A provider that answers again gets no shards for this many times the silence limit."""


@dataclass
class _Seen:
    """What is known of a provider at its current address."""

    place: Place
    heard: float
    misses: int = 0
    silent: bool = False
    avoided_until: float = 0.0


class Heartbeats:
    """Sends heartbeats to providers.

    Parameters
    ----------
    transport:
        How providers are called.
    providers:
        Returns the present providers, by name.
    on_answer:
        Called before a heartbeat is sent; returns a function that gets the answer.
    on_silent:
        Called when a provider becomes silent, and at each missed heartbeat after that.
    """

    def __init__(
        self,
        transport: Transport,
        providers: Callable[[], Mapping[str, Place]],
        on_answer: Callable[[Place], Callable[[Any], None]],
        on_silent: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._providers = providers
        self._on_answer = on_answer
        self._on_silent = on_silent
        self._seen: dict[str, _Seen] = {}

    @property
    def silent(self) -> frozenset[str]:
        """Names of providers that are silent now."""
        return frozenset(name for name, seen in self._seen.items() if seen.silent)

    @property
    def avoided(self) -> frozenset[str]:
        """Names of providers that are silent, or were recently."""
        now = monotonic()
        return frozenset(name for name, seen in self._seen.items() if seen.silent or seen.avoided_until > now)

    async def run(self) -> None:
        """Send heartbeats to all providers, for ever."""
        limit_s = seconds(SILENT_AFTER, SILENT_AFTER_S)
        every_s = min(PULSE_S, limit_s / 5)
        while True:
            now, former = monotonic(), self._seen
            # Keep the history only while name and address stay the same: a restarted provider starts afresh.
            self._seen = {
                name: former[name] if name in former and former[name].place == place else _Seen(place, now)
                for name, place in self._providers().items()
            }
            await asyncio.gather(
                asyncio.sleep(every_s), *(self._ask(seen, every_s, limit_s) for seen in self._seen.values())
            )

    async def _ask(self, seen: _Seen, timeout_s: float, limit_s: float) -> None:
        place, answered = seen.place, self._on_answer(seen.place)
        try:
            answer = await self._transport.provider(place.address, "pulse", timeout_s=timeout_s)
        except (NoAnswer, DaskevoError) as error:
            seen.misses += 1
            silent_s = monotonic() - seen.heard
            if silent_s < limit_s or seen.misses < LEAST_MISSES:
                return
            if not seen.silent:
                logger.warning("daskevo: no sign of life from provider %s for %.0f s: %s", place.name, silent_s, error)
            seen.silent = True
            # At each further miss too: there may have been no other provider for the shards before.
            self._on_silent()
            return
        if seen.silent:
            logger.warning("daskevo: provider %s gives signs of life again", place.name)
            seen.avoided_until = monotonic() + TRIAL * limit_s
        seen.heard, seen.misses, seen.silent = monotonic(), 0, False
        answered(answer)
