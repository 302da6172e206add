"""Follows the providers of a repository: who came, is about to leave, gives no sign of life, or went; and its shards.

What becomes of the shards is the state machine's to say; here is when it is asked, and who carries it out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from typing import Any

from distributed.core import Status

from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.shard_table import Place
from daskevo.wire.transport import Transport
from daskevo_plugins.background_tasks import Background
from daskevo_plugins.coordinator.heartbeat import Pulse
from daskevo_plugins.coordinator.rebalancer import Mover
from daskevo_plugins.coordinator.shard_assignment import Assigner

logger = logging.getLogger(__name__)

_LEAVING = frozenset({Status.closing_gracefully, Status.closing, Status.closed})
_SEE_OFF_S = 10.0
"""Longest that a provider that Dask has removed is taken for there, to hand its shards over."""


class Follower:
    """The providers of one repository, and who serves which of its shards.

    Parameters
    ----------
    core:
        The state machine.
    scheduler:
        Dask's.
    transport:
        How providers are called.
    background:
        Where work goes on that nobody waits for.
    on_change:
        Called after the shard table has changed.
    """

    def __init__(
        self,
        core: Coordinator,
        scheduler: Any,
        transport: Transport,
        background: Background,
        on_change: Callable[[], None],
    ) -> None:
        self.core = core
        self.given_out = False
        """Whether shards were given out: until then providers gather, so that they are spread over all."""
        self._scheduler = scheduler
        self._background = background
        self._leaving: set[str] = set()
        """Addresses of workers that are about to close, some of which Dask has removed already."""
        self._pulse = Pulse(transport, core.providers, self._listen, self._silent)
        self.assigner = Assigner(core, transport, on_change, self.is_leaving, lambda: self._pulse.avoided)
        self._mover = Mover(core, transport, self.assigner, self._leaving_names, self._gone, self.reopen)

    def start(self) -> None:
        """Begin what goes on as long as the repository is open."""
        self._background.spawn(self._pulse.run())
        self._background.spawn(self._mover.run())

    def reopen(self) -> None:
        """Have the shards opened that nobody serves."""
        if self.given_out:
            self._background.spawn(self.assigner.assign())

    def join(self, name: str, address: str) -> None:
        """A provider came, or came back: it gets what nobody has, and in a while its share."""
        self.core.provider_joined(name, address)
        self._leaving.discard(address)
        self._mover.unsettle()
        self.assigner.changed()
        self.reopen()

    def status_changed(self, address: str, status: str) -> None:
        """Dask says that a worker changes its status: who closes hands over what it has."""
        if status not in {known.name for known in _LEAVING}:
            self._leaving.discard(address)
        elif any(place.address == address for place in self.core.providers().values()):
            self._leaving.add(address)
            self._mover.unsettle()

    async def leave(self, name: str, address: str, patience_s: float) -> bool:
        """A provider is about to leave, and goes on serving meanwhile; whether others have its shards, if any can."""
        if self.core.providers().get(name) != Place(name, address):
            return False
        self._leaving.add(address)
        self._mover.unsettle()
        return await self._mover.until_handed_over(name, patience_s)

    def removed(self, address: str) -> bool:
        """Dask has removed a worker; whether a provider went with it at once.

        One that closes in order still answers for a moment: its shards go to others one by one, and none is left alone.
        """
        place = next((place for place in self.core.providers().values() if place.address == address), None)
        if place is None:
            return False
        if address in self._leaving and self.core.can_hand_over(
            place.name, self._leaving_names(), self.assigner.avoided()
        ):
            self._background.spawn(self._see_off(place))
            return False
        self._gone(place)
        return True

    async def _see_off(self, place: Place) -> None:
        await self._mover.until_handed_over(place.name, _SEE_OFF_S)
        self._gone(place)

    def _gone(self, place: Place) -> None:
        """A provider gives no answer any more: its shards are opened elsewhere at once."""
        self._leaving.discard(place.address)
        if self.core.providers().get(place.name) == place:
            self.core.provider_left(place.name)
            self._mover.unsettle()
            self.assigner.changed()
            self.reopen()

    def is_leaving(self, address: str) -> bool:
        """Whether the worker at an address is about to close."""
        worker = self._scheduler.workers.get(address)
        return address in self._leaving or (worker is not None and worker.status in _LEAVING)

    def _leaving_names(self) -> Set[str]:
        return {name for name, place in self.core.providers().items() if self.is_leaving(place.address)}

    def _silent(self) -> None:
        """Open the shards of silent providers elsewhere, if anybody is there."""
        if self.core.give_up(self._pulse.silent, self._leaving_names()):
            self._mover.unsettle()
            self.assigner.changed()
            self.reopen()

    def _listen(self, place: Place) -> Callable[[Any], None]:
        """Return what compares a sign of life with the table.

        What a provider serves though it is another's it has to close: it was silent as that was opened elsewhere, or
        was not reached. What it should serve and does not is nobody's: it could not say that it was fenced.
        """
        before = self.core.serves(place.name)

        def answered(answer: Any) -> None:
            if self.core.providers().get(place.name) != place:
                return
            there = set(answer["shards"])
            foreign = sorted(shard for shard in there if not self.core.has(place.name, shard))
            if foreign:
                self._background.spawn(self.assigner.have_closed(place, foreign))
            missing = (before & self.core.serves(place.name)) - there
            for shard in missing:
                self.core.not_served(shard, place.name)
            if missing:
                logger.warning("daskevo: %s does not serve shards %s any more", place.name, sorted(missing))
                self.assigner.changed()
                self.reopen()

        return answered
