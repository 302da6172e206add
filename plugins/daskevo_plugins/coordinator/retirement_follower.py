"""Follow the retirements that providers carry out: let them go on after a failure, draw them on Dask's task stream.

A retirement is no Dask task: it belongs to the provider of the model's shard, begins with the release of the last label
whoever released it, and must go on when that client has gone. Here the scheduler hears of all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.query_futures import TASK_PREFIX
from daskevo.errors import DaskevoError
from daskevo.protocol.shard_table import Place
from daskevo.types import JSON
from daskevo.wire.dask_private import task_stream
from daskevo.wire.transport import NoAnswer, Transport
from daskevo_plugins.background_tasks import Background

logger = logging.getLogger(__name__)

RETIRE = f"{TASK_PREFIX}retire"
"""Name of retirements on the task stream."""


class RetirementFollower:
    """All retirements under way, as the providers' heartbeats tell of them.

    Parameters
    ----------
    scheduler:
        Dask's scheduler.
    transport:
        How providers are called.
    background:
        Runs work that nobody waits for.
    """

    def __init__(self, scheduler: Any, transport: Transport, background: Background) -> None:
        self._scheduler = scheduler
        self._transport = transport
        self._background = background
        # By name: a provider that was restarted has another address, and its heartbeat replaces what was known.
        self._waiting: dict[str, tuple[Place, Sequence[Any]]] = {}

    @property
    def waiting(self) -> dict[str, JSON]:
        """Why a retirement has to wait, by model."""
        return {model: why for _, rows in self._waiting.values() for model, _, why in rows}

    def heard(self, place: Place, news: Mapping[str, Any]) -> None:
        """Take in what a provider's heartbeat says (:meth:`daskevo.provider.retire.Retirements.news`)."""
        self.forget(place)
        if news["waiting"]:
            self._waiting[place.name] = place, news["waiting"]
        if news["failed"]:
            logger.warning("daskevo: %s takes up %d failed retirements again", place.name, news["failed"])
            self._go_on(place)
        self._draw(place, news["ended"])

    def forget(self, place: Place) -> None:
        """Forget a provider that has gone: whoever opens its shards takes its retirements up."""
        self._waiting.pop(place.name, None)

    def go_on(self) -> None:
        """Have all that wait try again now: a shard has a provider again, perhaps the one that they wait for."""
        for place, _ in self._waiting.values():
            self._go_on(place)

    def _go_on(self, place: Place) -> None:
        self._background.spawn(self._tell(place))

    async def _tell(self, place: Place) -> None:
        try:
            await self._transport.provider(place.address, "go_on_retiring", timeout_s=CALL_TIMEOUT_S)
        except (NoAnswer, DaskevoError) as error:
            logger.info("daskevo: %s was not told to go on with its retirements: %s", place.name, error)

    def _draw(self, place: Place, ended: Sequence[Any]) -> None:
        """Add retirements to Dask's task stream, in a row of their provider; nothing if nobody looks at it."""
        stream = task_stream(self._scheduler)
        for model, began, stop in ended if stream is not None else ():
            when = {"action": "compute", "start": began, "stop": stop}
            drawn = {"key": (RETIRE, model), "worker": place.address, "thread": RETIRE, "status": "OK"}
            stream.buffer.append({**drawn, "startstops": [when], "type": None, "typename": "None", "nbytes": 0})
            stream.index += 1
