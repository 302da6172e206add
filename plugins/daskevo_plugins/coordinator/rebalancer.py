"""Move shards between providers: away from those that leave, and towards those that have few.

A move closes the shard at its source, then opens it at its target; other shards are not affected. A source that does
not answer need not be waited for, because the new owner's epoch fences the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from time import monotonic

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.deploy.configured import seconds
from daskevo.errors import DaskevoError
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.shard_table import MoveShard, OpenShards, Place
from daskevo.wire.transport import NoAnswer, Transport
from daskevo_plugins.coordinator.shard_assignment import AVOID_S, Assigner

logger = logging.getLogger(__name__)

REBALANCE_AFTER = "daskevo.rebalance-after"
"""Key in Dask's configuration (with a unit, such as "5s"): time without a provider coming, going or falling silent
before shards are balanced."""
REBALANCE_AFTER_S = 5.0
HANDED_OVER_AT_ONCE = 4
"""Shards of leaving providers moved at a time, since some have only seconds; balancing moves one at a time."""
_GRACE_S = 0.05
"""All workers of a closing cluster say so within this time; waiting for it avoids moving shards among them."""
_LOOK_EVERY_S = 0.5
_BREATH_S = 0.2
"""Pause between balancing moves, so that a request that needs all shards finds a moment at which all are open."""


class Rebalancer:
    """Carries out the moves of `Coordinator.hand_over` and `Coordinator.even_out`.

    Parameters
    ----------
    core:
        The coordinator's state machine.
    transport:
        How providers are called.
    assigner:
        Opens the moved shards.
    leaving:
        Returns the names of providers that are about to leave.
    on_gone:
        Called with a leaving provider that no longer answers.
    reopen:
        Called when a shard could not be opened at its target, so that nobody serves it.
    """

    def __init__(
        self,
        core: Coordinator,
        transport: Transport,
        assigner: Assigner,
        leaving: Callable[[], Set[str]],
        on_gone: Callable[[Place], None],
        reopen: Callable[[], None],
    ) -> None:
        self.core = core
        self._transport = transport
        self._assigner = assigner
        self._leaving = leaving
        self._on_gone = on_gone
        self._reopen = reopen
        self._quiet_until = 0.0
        self._due = asyncio.Event()
        self._moved = asyncio.Event()
        """Set, and replaced by a new one, after each round of moves, or when there was none."""

    def unsettle(self) -> None:
        """Note that a provider came, went, fell silent or is leaving: no balancing for a while."""
        self._hold(seconds(REBALANCE_AFTER, REBALANCE_AFTER_S))
        self._due.set()

    def _hold(self, quiet_s: float) -> None:
        self._quiet_until = max(self._quiet_until, monotonic() + quiet_s)

    async def until_handed_over(self, name: str, patience_s: float) -> bool:
        """Wait until a leaving provider serves no shard that others could; return False after `patience_s`."""
        try:
            async with asyncio.timeout(patience_s):
                while self.core.can_hand_over(name, self._leaving(), self._assigner.avoided()):
                    self._due.set()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Carry out moves, for ever."""
        while True:
            try:
                await asyncio.wait_for(self._due.wait(), _LOOK_EVERY_S)
            except TimeoutError:
                pass
            else:
                self._due.clear()
                await asyncio.sleep(_GRACE_S)
            while moves := self._moves():
                self._assigner.changed()
                await asyncio.gather(*map(self._carry_out, moves))
                self._say_moved()
                # Never while a provider is leaving, which may have seconds only.
                if len(moves) == 1 and not self._leaving():
                    await asyncio.sleep(_BREATH_S)
            self._say_moved()

    def _say_moved(self) -> None:
        # Wakes all that wait now; those that begin to wait later have to wait for the next round.
        self._moved.set()
        self._moved = asyncio.Event()

    def _moves(self) -> list[MoveShard]:
        leaving, avoid = self._leaving(), self._assigner.avoided()
        moves = self.core.hand_over(leaving, avoid, HANDED_OVER_AT_ONCE)
        if not moves and monotonic() >= self._quiet_until:
            move = self.core.even_out(leaving, avoid)
            moves = [] if move is None else [move]
        return moves

    async def _carry_out(self, move: MoveShard) -> None:
        await self._close(move)
        if await self._assigner.have_opened(OpenShards(move.target, (move.shard,), {})):
            logger.info("daskevo: shard %d went from %s to %s", move.shard, move.source.name, move.target.name)
        else:
            # Let any provider open it, and don't move it back and forth.
            self._hold(AVOID_S)
            self._reopen()

    async def _close(self, move: MoveShard) -> None:
        source = move.source
        for last in (False, True):
            try:
                await self._transport.provider(
                    source.address,
                    "close_shards",
                    timeout_s=CALL_TIMEOUT_S,
                    shards=[move.shard],
                    generation=self.core.generation,
                )
            except (NoAnswer, DaskevoError) as error:
                # When Dask removes a worker it breaks connections to it that work again at once, so try a second time.
                if not last and isinstance(error, NoAnswer) and not error.late:
                    continue
                logger.info("daskevo: %s did not close shard %d, which it loses: %s", source.name, move.shard, error)
                if source.name in self._leaving():
                    self._on_gone(source)
            return
