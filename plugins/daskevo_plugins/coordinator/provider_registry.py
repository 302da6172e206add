"""Track a repository's providers (joined, leaving, silent, gone) and reassign their shards.

The pure state machine decides where shards go; this module calls it at the right events and carries out its decisions.
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
from daskevo_plugins.coordinator.heartbeat import Heartbeats
from daskevo_plugins.coordinator.rebalancer import Rebalancer
from daskevo_plugins.coordinator.retirement_follower import RetirementFollower
from daskevo_plugins.coordinator.shard_assignment import Assigner

logger = logging.getLogger(__name__)

_LEAVING = frozenset({Status.closing_gracefully, Status.closing, Status.closed})
_SEE_OFF_S = 10.0
"""Longest time that a provider counts as present after Dask removed it, so that it can hand its shards over."""


class ProviderRegistry:
    """The providers of one repository and the shards that they serve.

    Parameters
    ----------
    core:
        The coordinator's state machine.
    scheduler:
        Dask's scheduler.
    transport:
        How providers are called.
    background:
        Runs work that nobody waits for.
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
        self.retirements = RetirementFollower(scheduler, transport, background)
        self.given_out = False
        """Whether shards have been assigned; before that providers only gather, so that shards are spread over all."""
        self._scheduler = scheduler
        self._background = background
        self._leaving: set[str] = set()
        """Addresses of workers about to close, including some that Dask has already removed."""
        self._heartbeats = Heartbeats(transport, core.providers, self._listen, self._silent)
        self.assigner = Assigner(core, transport, on_change, self.is_leaving, lambda: self._heartbeats.avoided)
        self._rebalancer = Rebalancer(core, transport, self.assigner, self._leaving_names, self._gone, self.reopen)

    def start(self) -> None:
        """Start heartbeats and rebalancing; they run as long as the repository is open."""
        self._background.spawn(self._heartbeats.run())
        self._background.spawn(self._rebalancer.run())

    def reopen(self) -> None:
        """Open the shards that nobody serves."""
        if self.given_out:
            self._background.spawn(self.assigner.assign())

    def join(self, name: str, address: str) -> None:
        """Add a provider, new or returned: it gets unserved shards now, and its share of the others later."""
        self.core.provider_joined(name, address)
        self._leaving.discard(address)
        self._rebalancer.unsettle()
        self.assigner.changed()
        self.reopen()

    def status_changed(self, address: str, status: str) -> None:
        """Handle a change of a worker's status in Dask: a provider that closes hands its shards over."""
        if status not in {known.name for known in _LEAVING}:
            self._leaving.discard(address)
        elif any(place.address == address for place in self.core.providers().values()):
            # By address: the next worker of its nanny has the same name.
            self._leaving.add(address)
            self._rebalancer.unsettle()

    async def leave(self, name: str, address: str, patience_s: float) -> bool:
        """Wait until the shards of a leaving provider, which still serves, are elsewhere; False after `patience_s`."""
        # A late message of a worker that has been restarted under its name since: its shards are served elsewhere by
        # now.
        if self.core.providers().get(name) != Place(name, address):
            return False
        self._leaving.add(address)
        self._rebalancer.unsettle()
        return await self._rebalancer.until_handed_over(name, patience_s)

    def removed(self, address: str) -> bool:
        """Handle Dask's removal of a worker; return whether a provider is gone at once.

        A provider that closes in good order still answers for a moment, so its shards are moved one at a time without a
        gap.
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
        await self._rebalancer.until_handed_over(place.name, _SEE_OFF_S)
        self._gone(place)

    def _gone(self, place: Place) -> None:
        """Remove a provider that no longer answers, and open its shards elsewhere at once."""
        self._leaving.discard(place.address)
        # By name and address: the worker may have been restarted, and joined again, before this was called.
        if self.core.providers().get(place.name) == place:
            self.core.provider_left(place.name)
            self.retirements.forget(place)
            self._rebalancer.unsettle()
            self.assigner.changed()
            self.reopen()

    def is_leaving(self, address: str) -> bool:
        """Tell whether the worker at an address is about to close."""
        worker = self._scheduler.workers.get(address)
        return address in self._leaving or (worker is not None and worker.status in _LEAVING)

    def _leaving_names(self) -> Set[str]:
        return {name for name, place in self.core.providers().items() if self.is_leaving(place.address)}

    def _silent(self) -> None:
        """Open the shards of silent providers elsewhere, if there are other providers."""
        if self.core.give_up(self._heartbeats.silent, self._leaving_names()):
            self._rebalancer.unsettle()
            self.assigner.changed()
            self.reopen()

    def _listen(self, place: Place) -> Callable[[Any], None]:
        """Return a function that compares a heartbeat's answer with the shard table.

        A shard that the provider serves but another owns must be closed: it was reassigned while this provider was
        silent or out of reach. A shard that it should serve but doesn't is unserved: it was fenced and could not tell.
        """
        # Noted before the question travels, see below.
        before = self.core.serves(place.name)

        def answered(answer: Any) -> None:
            if self.core.providers().get(place.name) != place:
                return
            self.retirements.heard(place, answer["retirements"])
            there = set(answer["shards"])
            foreign = sorted(shard for shard in there if not self.core.has(place.name, shard))
            if foreign:
                self._background.spawn(self.assigner.have_closed(place, foreign))
            # Only shards it had before the question was sent: one assigned meanwhile can't be in the answer.
            missing = (before & self.core.serves(place.name)) - there
            for shard in missing:
                self.core.not_served(shard, place.name)
            if missing:
                logger.warning("daskevo: %s does not serve shards %s any more", place.name, sorted(missing))
                self.assigner.changed()
                self.reopen()

        return answered
