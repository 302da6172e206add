"""Reserve inherited tensors while the model is still being built, for which its architecture graph is enough."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from daskevo.client.connection import Connection
from daskevo.client.inherit import Reservation, reserve_best
from daskevo.client.reservations import give_back
from daskevo.client.session import Caller
from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.index import PrefixMatch
from daskevo.types import ModelId, check_name
from daskevo.wire.to_the_end import to_the_end

if TYPE_CHECKING:
    from daskevo.repository.handle_base import HandleBase

_PATIENCE_S = 1.0
"""Longest wait for a running reservation, in order to drop it, in seconds; the coordinator settles it otherwise."""


@dataclass(frozen=True)
class InheritanceRequest:
    """What to inherit from, and the id of the model that inherits.

    Parameters
    ----------
    model_id:
        Id of the new model.
    is_new_id:
        Whether the id was drawn at random, so that it can't be taken.
    ancestor:
        The only model to inherit from; False: none; None: the best match.
    match:
        A match to try first.
    weights:
        Weight of a vertex in the match, ``"vertex"`` or ``"bytes"``.
    minimum_layers:
        Minimum number of shared layers with weights.
    """

    model_id: ModelId
    is_new_id: bool
    ancestor: ModelId | Literal[False] | None
    match: PrefixMatch | None
    weights: str
    minimum_layers: int

    @classmethod
    def of(
        cls,
        model_id: str | None,
        ancestor: str | Literal[False] | None,
        match: PrefixMatch | None,
        weights: str,
        minimum_layers: int,
    ) -> InheritanceRequest:
        """Check a user's arguments, and draw an id if there is none.

        Raises
        ------
        InvalidName, InvalidInput
        """
        wanted = ancestor if ancestor is None or ancestor is False else ModelId(check_name(ancestor))
        if match is not None and ancestor is not None:
            raise InvalidInput("give `match` (tried first, then the next best) or `ancestor` (the only one), not both")
        if type(minimum_layers) is not int or minimum_layers < 0:
            raise InvalidInput(f"minimum_layers={minimum_layers!r:.40}: use a whole number from 0")
        # Random, so that tasks on many workers draw ids without asking anybody; a counter would need a message.
        name = f"m-{uuid.uuid4().hex[:16]}" if model_id is None else check_name(model_id)
        return cls(ModelId(name), model_id is None, wanted, match, weights, minimum_layers)

    async def reserve(
        self, connection: Connection, caller: Caller, graph: ArchitectureGraph, scope: str
    ) -> Reservation:
        """Reserve and read, see `reserve_best`."""
        return await reserve_best(
            connection.session,
            caller,
            self.model_id,
            graph,
            scope,
            weigh=self.weights,
            match=self.match,
            ancestor=self.ancestor,
            check_id=not self.is_new_id,
            minimum_layers=self.minimum_layers,
        )


class EarlyReservation:
    """Tensors for a model to inherit, reserved and read in the background; use it in a ``with`` (``async with``) block.

    `Repository.reserve` returns it. At the end of the block, it is dropped unless `inherit` has taken it over.

    Attributes
    ----------
    graph:
        The graph of the query.
    model_id:
        The id that the model will have.
    knows_loaded:
        Whether the graph tells into which layers weights were loaded.
    """

    def __init__(
        self,
        repository: HandleBase,
        graph: ArchitectureGraph,
        request: InheritanceRequest,
        *,
        knows_loaded: bool = False,
    ) -> None:
        self.graph = graph
        self.knows_loaded = knows_loaded
        self.request = request
        self._repository = repository
        self._begun = self._over = False
        self._task: asyncio.Task[Reservation] | None = None

    @property
    def model_id(self) -> ModelId:
        return self.request.model_id

    def __enter__(self) -> EarlyReservation:
        connection, caller = self._enter()
        # Not awaited: the caller can build its model at once. Later calls on the event loop run after this one.
        connection.post(self._begin, connection, caller)
        return self

    async def __aenter__(self) -> EarlyReservation:
        self._begin(*self._enter())
        return self

    def _enter(self) -> tuple[Connection, Caller]:
        if self._begun:
            raise InvalidInput("what `reserve` returns can be entered once: call it again to reserve again")
        self._begun = True
        self._connection = self._repository.connection
        return self._connection, self._connection.caller()

    def _begin(self, connection: Connection, caller: Caller) -> None:
        reserving = self.request.reserve(connection, caller, self.graph, self._repository.scope)
        self._task = asyncio.get_running_loop().create_task(reserving)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # In most blocks `inherit` has taken the reservation over: don't wait for the event loop then.
        if not self._over:
            self._connection.run(self._leave)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        if self._over or self._task is None:
            return
        self._over = True
        # A caller that is cancelled here leaves, but the references are still given back.
        await to_the_end(self._give_back(self._task))

    async def _give_back(self, task: asyncio.Task[Reservation]) -> None:
        # A reservation that is complete names its owners, and is dropped there with a message each. Of one that was
        # cancelled halfway only the coordinator can find out what it reserved, and asks all providers.
        await asyncio.wait([task], timeout=_PATIENCE_S)
        task.cancel()
        (found,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(found, Reservation):
            await give_back(self._connection.session, found.model_id, found.attempt, found.owners)

    # -- for `inherit` ---------------------------------------------------------------------------------------------

    def fits(self, graph: ArchitectureGraph) -> bool:
        """Whether a model with this graph can take over the reservation.

        Vertices and layers must be the same, in the same order, so that tensors have the same numbers.
        """
        return graph.ids == self.graph.ids and graph.calls == self.graph.calls

    def ready(self, graph: ArchitectureGraph) -> Reservation | None:
        """Return the reservation if it is complete and fits, without a call to the event loop; None otherwise."""
        task = self._task
        # A reservation that failed isn't ready either: `take` then raises its error in the caller.
        if self._over or task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result() if self.fits(graph) else None

    async def take(self, graph: ArchitectureGraph) -> Reservation | None:
        """Wait for the reservation; if it does not fit, drop it and return None.

        Raises
        ------
        InvalidInput
            If the block has not been entered or has ended, or another model has taken the reservation over.
        """
        if self._over or self._task is None:
            raise InvalidInput(
                "reserved=... is for one model, inside the with block of what `reserve` returned: reserve again"
            )
        if not self.fits(graph):
            await self._leave()
            return None
        # Shielded: if the caller is cancelled, the end of the block still has a reservation to drop.
        return await asyncio.shield(self._task)

    def taken(self) -> None:
        """Record that a model has taken the reservation over, and will drop it."""
        self._over = True
