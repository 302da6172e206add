"""Inheritance of one model: load and freeze the prefix of the best ancestor, let the caller train it, and put it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from daskevo.client.inherit import Reservation
from daskevo.client.put import Stored, make_record, put
from daskevo.client.put_payload import Payload, prepare, prepared, withdrawn_on_error
from daskevo.client.put_sender import folder_of_home
from daskevo.client.renewal import renew
from daskevo.client.reservations import give_back
from daskevo.client.session import Caller
from daskevo.errors import InvalidInput
from daskevo.freeze_policy import FreezePolicy
from daskevo.graph import ArchitectureGraph, Prefix
from daskevo.protocol.model_record import ModelRecord
from daskevo.repository.attachments import plain_extra, plain_metrics
from daskevo.repository.report import InheritanceReport, report_of
from daskevo.store.shard_segments import ShardSegments
from daskevo.types import JSON, ModelId, check_label, check_name
from daskevo.wire.to_the_end import begin, to_the_end

if TYPE_CHECKING:
    from daskevo.models import FlatModel, Freezing
    from daskevo.repository.early_reservation import EarlyReservation, InheritanceRequest
    from daskevo.repository.handle_base import HandleBase


logger = logging.getLogger(__name__)

_EXACT_MODELS = 3
"""Number of models per process that are checked value by value for loaded weights, unless these are known."""


class Inheritance:
    """A model that inherits from the repository; use it in a ``with`` (or ``async with``) block.

    Attributes
    ----------
    model, model_id:
        The model, and the id that `put` will store it under.
    ancestor:
        Id of the model that weights were inherited from, or None.
    prefix:
        Pairs of vertices shared with the ancestor.
    report:
        What was inherited on entering the block, and why not more.
    frozen_share, frozen_layers:
        Share of the model's vertices that don't train, and the layers that were frozen (indices in ``graph.layers``).
    timings:
        Seconds by phase. ``wait_s`` is the time that the caller waited for match and reservation. These took
        ``match_s`` and ``reserve_s``, partly or completely before if they were begun early.
    record:
        After `put`: the record of the model that is stored under this id.
    by_other:
        After `put`: whether another run of this task had put the model before; `record` is the record of that run.
    """

    _looked_at: ClassVar[int] = 0
    """Models of this process that were looked at for loaded weights."""

    def __init__(
        self,
        repository: HandleBase,
        model: Any,
        *,
        freeze: Any,
        request: InheritanceRequest,
        parent: ModelId | None,
        early: EarlyReservation | None = None,
        trained: bool = False,
    ) -> None:
        # Here and below inside functions: it imports Keras, which takes seconds, and opening or listing a repository
        # needs none.
        from daskevo.models import check_fresh, check_storable, flatten

        if not trained:
            check_fresh(model)
        # Arguments are checked before anything is reserved: an error on entering would have to give the reservation
        # back.
        self._policy = FreezePolicy.parse(freeze).rule
        self.parent = None if parent is None else ModelId(check_name(parent))
        self._request = request
        self._early = early
        self.model_id = request.model_id
        self.model = model
        self._repository = repository
        self.timings: dict[str, float] = {}
        with _timed(self.timings, "flatten_s"):
            self.flat: FlatModel = flatten(model)
            check_storable(self.flat)
            # A model trained elsewhere is added for others to inherit from, which have no loaded weights.
            if not trained:
                self.flat = replace(self.flat, graph=self.graph.started(self._loaded()))
        self._reservation: Reservation | None = None
        self._freezing: Freezing | None = None
        self._kept: tuple[int, ...] = ()
        self._left: frozenset[int] = frozenset()
        self._over = False
        self._putting: asyncio.Task[ModelId] | None = None
        self.record: ModelRecord | None = None
        self.by_other = False

    def _loaded(self) -> Mapping[int, str]:
        """Return the layers with loaded weights -> digest, as the early reservation knows them or as found out here."""
        from daskevo.models import loaded_weights

        early = self._early
        # The ids contain what was loaded, which is the question here: compare the architectures without it.
        if early is not None and early.knows_loaded and early.graph.started({}).ids == self.graph.ids:
            return early.graph.starts
        Inheritance._looked_at += 1
        return loaded_weights(self.flat, exact=Inheritance._looked_at <= _EXACT_MODELS)

    # -- what was inherited ----------------------------------------------------------------------------------------

    @property
    def graph(self) -> ArchitectureGraph:
        """The model's architecture graph."""
        return self.flat.graph

    @property
    def _inherited(self) -> Reservation:
        if self._reservation is None:
            raise InvalidInput("use what `inherit` returns in a with block: nothing is inherited before it is entered")
        return self._reservation

    @property
    def ancestor(self) -> ModelId | None:
        record = self._inherited.ancestor
        return None if record is None else record.model_id

    @property
    def ancestor_record(self) -> ModelRecord | None:
        """The ancestor's record, or None."""
        return self._inherited.ancestor

    @property
    def prefix(self) -> Prefix:
        return self._inherited.prefix

    @property
    def frozen_share(self) -> float:
        return 0.0 if self._freezing is None else self._freezing.share

    @property
    def frozen_layers(self) -> tuple[int, ...]:
        return () if self._freezing is None else self._freezing.layers

    @cached_property
    def report(self) -> InheritanceReport:
        frozen, moving = ((), ()) if self._freezing is None else (self._freezing.layers, self._freezing.moving)
        asked = self._request.ancestor is not False
        return report_of(
            self._inherited, self.graph, frozen, asked=asked, left=self._left, kept=self._kept, moving=moving
        )

    # -- entering and leaving --------------------------------------------------------------------------------------

    def __enter__(self) -> Inheritance:
        self._connection = self._repository.connection
        with _timed(self.timings, "wait_s"):
            found = None if self._early is None else self._early.ready(self.graph)
            reservation = found or self._connection.run(self._reserve, self._connection.caller())
        try:
            self._apply(reservation)
        except BaseException:
            self._connection.run(self._leave)
            raise
        return self

    async def __aenter__(self) -> Inheritance:
        self._connection = self._repository.connection
        with _timed(self.timings, "wait_s"):
            reservation = await self._reserve(self._connection.caller())
        try:
            self._apply(reservation)
        except BaseException:
            await self._leave()
            raise
        return self

    async def _reserve(self, caller: Caller) -> Reservation:
        found = None if self._early is None else await self._early.take(self.graph)
        return found or await self._request.reserve(self._connection, caller, self.graph, self._repository.scope)

    def _apply(self, reservation: Reservation) -> None:
        from daskevo.models import freeze, kept_weights, write_tensors

        # From here on `_leave` of this block drops the reservation, so the early one must not do so as well.
        self._reservation = reservation
        if self._early is not None:
            self._early.taken()
        self.timings.update(reservation.seconds)
        with _timed(self.timings, "load_s"):
            kept = self._kept = kept_weights(self.flat, reservation.arrays)
            # These layers end the prefix: what comes behind them in the ancestor was trained on other outputs.
            if kept:
                reservation.prefix = reservation.prefix.without(self.graph, kept)
                inside = {self.graph.vertices[mine].layer for mine, _ in reservation.prefix.vertices}
                tensors = self.graph.tensors
                # They are reserved already. The put gives them back, with the references of tensors that changed.
                self._left = frozenset(n for n in reservation.entries if tensors[n].layer not in inside)
            taken = {number: array for number, array in reservation.arrays.items() if number not in self._left}
            write_tensors(self.flat, taken)
            steps = {n: entry.steps for n, entry in reservation.entries.items() if n not in self._left}
            self._freezing = freeze(self.flat, reservation.prefix.freezable(self.graph), self._policy, steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._needs_giving_back:
            self._connection.run(self._leave)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._needs_giving_back:
            await self._leave()

    @property
    def _needs_giving_back(self) -> bool:
        # `_over` is set before a put is sent, so a put under way has to be asked for as well.
        return self._reservation is not None and (self._putting is not None or not self._over)

    async def _leave(self) -> None:
        await to_the_end(self._give_back())

    async def _give_back(self) -> None:
        """Cancel a running put, then drop the reservation unless the put has taken it over.

        A put that was sent ends its attempt itself, and the coordinator has it aborted before anything is dropped. If
        references were dropped here, a model that is published nevertheless would lack the tensors that it inherits.
        """
        if self._putting is not None:
            self._putting.cancel()
            await asyncio.wait([self._putting])
        if self._over or self._reservation is None:
            return
        self._over = True
        reservation = self._reservation
        await give_back(self._connection.session, reservation.model_id, reservation.attempt, reservation.owners)

    def unfreeze(self) -> None:
        """Unfreeze the layers that `inherit` froze; takes effect when the model is compiled again.

        Layers that the caller froze stay frozen.
        """
        from daskevo.models import unfreeze

        if self._freezing is not None:
            unfreeze(self._freezing)

    # -- put -------------------------------------------------------------------------------------------------------

    def put(
        self,
        *,
        metrics: Mapping[str, Any] | None = None,
        step: int = 1,
        labels: Sequence[str] = (),
        extra: JSON = None,
        trained_steps: int | None = None,
        finite: bool = False,
    ) -> ModelId:
        """Store the changed tensors and publish the model.

        Parameters
        ----------
        metrics:
            Measured values by name; the scope's objective selects the quality from them. Values that are not finite are
            stored as None.
        step:
            Training step at which they were measured, in the unit of the scope, for example epochs.
        labels:
            Labels that keep the model; ``user:kept`` if there is none.
        extra:
            JSON to attach.
        trained_steps:
            Steps since it was inherited, added to those of each tensor that changed; `step` when None.
        finite:
            Whether to refuse weights with nan or inf, as searches and `Repository.add` do. This reads all tensors once
            more, about 5 ms for 100 MB.

        Returns
        -------
        ModelId
            With an asynchronous client, an awaitable of it.

        Raises
        ------
        PutFailed
            If the put failed. Nothing is visible and nothing leaks: put may be called again. On a full disk, the error
            has the facts `shard`, `folder`, `needed_bytes` and `free_bytes`.
        QuotaReached
            The same, because the model exceeds the repository's quota: retire models first.
        InvalidInput
            The same, because an argument is not valid, or the record with `extra`, metrics and architecture is larger
            than 64 MiB.
        PutUnknown
            If there was no answer in time; `repository.status` tells the outcome later.
        ModelExists
            If another run of this task has put the model, and it has been retired since.
        NotFinite
            With `finite`, if weights have nan or inf: nothing was stored.
        """
        extra = plain_extra(extra)
        # In the caller's thread: copying weights from a device would block the event loop, with all messages of the
        # process.
        made = self._prepare(dict(metrics or {}), step, labels, trained_steps, finite)
        return self._connection.run(self._put_unless_left, self._connection.caller(), made, step, tuple(labels), extra)

    def _prepare(
        self, metrics: dict[str, Any], step: int, labels: Sequence[str], trained_steps: int | None, finite: bool
    ) -> tuple[dict[str, JSON], Callable[[ShardSegments | None], Payload]]:
        from daskevo.models import as_it_is, check_finite, read_tensors

        if isinstance(labels, str):
            raise InvalidInput(f"labels={labels!r} is one text: pass a list of labels")
        for label in labels:
            check_label(label)
        steps = step if trained_steps is None else trained_steps
        for name, value in (("step", step), ("trained_steps", steps)):
            if type(value) is not int or value < 0:
                raise InvalidInput(f"{name}={value!r} was passed to put: use a whole number of 0 or more")
        if self.record is not None:
            raise InvalidInput(f"{self.model_id!r} is stored already: inherit again to make another model")
        with _timed(self.timings, "flatten_s"):
            # The caller may have changed settings of layers since `inherit`; the record must rebuild what was trained.
            self.flat = as_it_is(self.model, self.flat)
        with _timed(self.timings, "read_s"):
            tensors = dict(enumerate(read_tensors(self.flat)))
        if finite:
            with _timed(self.timings, "check_s"):
                check_finite(self.graph, tensors)
        return plain_metrics(metrics), lambda folder: prepare(self._inherited, tensors, steps, folder, left=self._left)

    async def _put_unless_left(self, *arguments: Any) -> ModelId:
        # In a task of its own, so that leaving the block can cancel the put without cancelling the caller's task.
        self._putting = putting = begin(self._put(*arguments))
        try:
            return await putting
        finally:
            if self._putting is putting and putting.done():
                self._putting = None

    async def _put(
        self,
        caller: Any,
        made: tuple[dict[str, JSON], Callable[[ShardSegments | None], Payload]],
        step: int,
        labels: tuple[str, ...],
        extra: JSON,
    ) -> ModelId:
        session = self._connection.session
        metrics, make_payload = made
        if self._over:
            # A put has failed before and has ended the attempt. An attempt that is over can't stage a model, so take
            # another one.
            self._reservation = await renew(session, caller, self._inherited)
            self._over = False
        reservation = self._inherited
        with _timed(self.timings, "pack_s"):
            folder = await folder_of_home(session, self.model_id)
            # Travels while tensors are compared and written.
            ticking = asyncio.ensure_future(session.tick())
            try:
                payload = await prepared(make_payload, folder)
            except BaseException:
                # Nobody will await it: asyncio would complain of an exception that was never retrieved.
                ticking.cancel()
                raise
        with _timed(self.timings, "put_s"):
            async with withdrawn_on_error(payload):
                record = make_record(
                    reservation,
                    payload,
                    self.graph,
                    await ticking,
                    scope=self._repository.scope,
                    objective=self._repository.objective,
                    metrics=metrics,
                    step=step,
                    parent=self.parent,
                    extra=extra,
                )
            # Before the message leaves: from here on the put ends the attempt itself, whatever becomes of it (see
            # `_give_back`).
            self._over = True
            stored: Stored = await put(session, reservation, record, payload, labels)
        self.record, self.by_other = stored.record, stored.by_other
        return self.model_id


@contextlib.contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds of a block to `timings[name]`."""
    started = perf_counter()
    try:
        yield
    finally:
        timings[name] = timings.get(name, 0.0) + perf_counter() - started
