"""Snapshot methods of the repository handle: put, read and list states of trainings.

A snapshot is stored like a model, in a separate scope beside the handle's: labels, lineage and verification work the
same way, and queries for models never match it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from daskevo.client.best_match import left_out
from daskevo.client.model_reader import read_model
from daskevo.client.session import Caller, Session
from daskevo.client.snapshot_put import NewSnapshot, put_snapshot
from daskevo.errors import (
    ClusterError,
    CorruptRecord,
    InvalidInput,
    LaterVersion,
    ModelLost,
    ModelRetired,
    RepositoryError,
    SnapshotGone,
    UnknownModel,
)
from daskevo.graph.attached import detach, in_order, is_snapshot
from daskevo.protocol.messages import Open
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.replies import Opened
from daskevo.protocol.scopes import snapshot_scope
from daskevo.repository.attachments import plain_extra, plain_metrics
from daskevo.repository.handle_base import HandleBase
from daskevo.repository.results import FoundList, SnapshotSummary
from daskevo.repository.snapshot import Snapshot, StoredSnapshot
from daskevo.types import ModelId, check_label, check_name

_REASONS: Mapping[type[RepositoryError], str] = {
    UnknownModel: "unknown",
    ModelRetired: "retired",
    ModelLost: "lost",
    CorruptRecord: "damaged",
}

_under_way: set[asyncio.Task[ModelId]] = set()
"""Strong references to background puts: an event loop keeps only weak ones to its tasks."""


class Snapshots(HandleBase):
    """Put, read and list snapshots."""

    def put_snapshot(
        self,
        snapshot: Snapshot,
        *,
        step: int,
        name: str | None = None,
        base: str | None = None,
        labels: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
    ) -> ModelId:
        """Store the state of a training, except for tensors that an earlier snapshot has with the same bytes.

        Parameters
        ----------
        snapshot:
            The state. Its arrays must not be changed before this returns.
        step:
            Training step of the state, from the beginning of the training.
        name:
            Name to store it under; drawn at random when None. If a snapshot with the same content is stored under that
            name, by an earlier run of the same task, nothing happens.
        base:
            An earlier snapshot, or the model that the training began with, whose equal tensors are shared. If it has
            been retired or lost, all tensors are stored.
        labels:
            Labels that keep it; ``user:kept`` if there is none.
        metrics:
            Values measured at this step, by name; values that are not finite are stored as None.

        Returns
        -------
        ModelId
            The name, for `read_snapshot`, `hold`, `release` and all other methods that take a model's id. With an
            asynchronous client, an awaitable of it.

        Raises
        ------
        InvalidInput, InvalidName
            If an argument is not valid.
        UnknownModel
            If the base never existed.
        ModelExists
            If the name is taken by other content, or was retired.
        PutFailed, QuotaReached
            If it was not stored. Nothing is visible and nothing leaks: put it again, or go on without it.
        PutUnknown
            If there was no answer in time; `repository.status` tells the outcome later.
        """
        connection = self.connection
        made = self._new_snapshot(snapshot, step, name, base, labels, metrics)
        return connection.run(_put, connection.session, connection.caller(), made)

    def begin_put_snapshot(
        self,
        snapshot: Snapshot,
        *,
        step: int,
        name: str | None = None,
        base: str | None = None,
        labels: Sequence[str] = (),
        metrics: Mapping[str, Any] | None = None,
    ) -> Future[ModelId]:
        """Put a snapshot in the background, while the training continues.

        Call it in the task's own thread, and wait for the result before the task ends: a put that is not complete when
        its task ends is aborted.

        Parameters
        ----------
        snapshot:
            The state. Its arrays must not be changed before the future has a result.
        step, name, base, labels, metrics:
            As `put_snapshot` takes them.

        Returns
        -------
        concurrent.futures.Future
            Of the name, or of an error of `put_snapshot`.
        """
        connection = self.connection
        # Asked for in the task's own thread: on the event loop nothing tells which task is calling.
        caller = connection.caller()
        made = self._new_snapshot(snapshot, step, name, base, labels, metrics)
        result: Future[ModelId] = Future()
        # From here on `cancel` of the future returns False: a put that was sent can't be called back.
        result.set_running_or_notify_cancel()

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(_put(connection.session, caller, made))
            _under_way.add(task)
            task.add_done_callback(end)

        def end(task: asyncio.Task[ModelId]) -> None:
            _under_way.discard(task)
            if task.cancelled():
                # The event loop has ended. Without a result, `result()` would wait for ever.
                result.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(task.result())

        connection.post(begin)
        return result

    def _new_snapshot(
        self,
        snapshot: Snapshot,
        step: int,
        name: str | None,
        base: str | None,
        labels: Sequence[str],
        metrics: Mapping[str, Any] | None,
    ) -> NewSnapshot:
        if not isinstance(snapshot, Snapshot):
            raise InvalidInput(f"a {type(snapshot).__name__} was passed to put_snapshot: pass a Snapshot")
        if type(step) is not int or step < 0:
            raise InvalidInput(f"step={step!r:.40} was passed to put_snapshot: use a whole number of 0 or more")
        if isinstance(labels, str):
            raise InvalidInput(f"labels={labels!r:.60} is one text: pass a list of labels")
        drawn = f"snap-{uuid.uuid4().hex}"
        return NewSnapshot(
            name=ModelId(drawn if name is None else check_name(name)),
            is_new=name is None,
            scope=snapshot_scope(self.scope),
            objective=self.objective,
            graph=snapshot.graph,
            weights=snapshot.weights,
            attached={name: snapshot.attached[name] for name in in_order(snapshot.attached)},
            base=None if base is None else ModelId(check_name(base)),
            labels=tuple(map(check_label, labels)),
            metrics=plain_metrics(dict(metrics or {})),
            step=step,
            extra=plain_extra(snapshot.extra),
        )

    def read_snapshot(self, name: str) -> StoredSnapshot:
        """Return the state of a training with exactly the bytes that were put.

        Returns
        -------
        StoredSnapshot
            Its arrays are read-only. With an asynchronous client, an awaitable of it.

        Raises
        ------
        SnapshotGone
            If it was never stored, or is retired, lost or damaged; `reason` tells which.
        InvalidInput
            If the name is that of a model.
        ShardUnavailable
            If its provider does not answer at the moment.
        """
        wanted = ModelId(check_name(name))
        caller = self.connection.caller()

        async def read(session: Session) -> StoredSnapshot:
            try:
                return await _read(session, caller, wanted)
            # A subclass of CorruptRecord, but nothing is damaged: another version of daskevo can read it.
            except LaterVersion:
                raise
            except tuple(_REASONS) as error:
                reason = next(words for kind, words in _REASONS.items() if isinstance(error, kind))
                raise SnapshotGone(
                    f"the snapshot {wanted!r} can't be read ({reason}): train what it stood for again, from an earlier "
                    f"one. {error}",
                    name=wanted,
                    reason=reason,
                ) from error

        return self._run(read)

    def snapshots(self) -> FoundList[SnapshotSummary]:
        """Return all published snapshots of this handle's scope, oldest first.

        Returns
        -------
        list of SnapshotSummary
            With `partial`, as `models` has it.
        """

        async def ask(session: Session) -> FoundList[SnapshotSummary]:
            answers = await session.directory.all("trainings", timeout_s=self.timeout_s, scope=self.scope)
            found = [SnapshotSummary.of_row(row) for answer in answers for row in answer]
            found.sort(key=lambda summary: (summary.created, summary.name))
            return FoundList(found, left_out(await session.directory.table()))

        return self._run(ask)

    def snapshot_tensors(self, names: Iterable[str]) -> dict[ModelId, dict[tuple[ModelId, int], int]]:
        """Return the stored tensors that snapshots refer to, from which the space freed by retiring some follows.

        Parameters
        ----------
        names:
            Names of snapshots; those that don't exist (any more) are left out.

        Returns
        -------
        dict
            Name -> {(owner, number at the owner): bytes}; an argument of :func:`daskevo.tuning.evictions`.

        Raises
        ------
        ShardUnavailable
            If the provider of one of them does not answer at the moment.
        """
        wanted = [ModelId(check_name(name)) for name in names]

        async def ask(session: Session) -> dict[ModelId, dict[tuple[ModelId, int], int]]:
            replies = await session.send_together([Open(name) for name in wanted])
            for reply in replies:
                # Left out like a snapshot that is gone, its tensors would seem to be free, and evictions would count on
                # their bytes.
                if isinstance(reply, ClusterError):
                    raise reply
            found = [reply.record for reply in replies if isinstance(reply, Opened)]
            return await asyncio.to_thread(lambda: {record.model_id: _tensors_of(record) for record in found})

        return self._run(ask)


def _tensors_of(record: ModelRecord) -> dict[tuple[ModelId, int], int]:
    keys, entries = record.architecture.tensors, record.owner_map.entries
    return {(entry.owner, entry.number): key.spec.nbytes for key, entry in zip(keys, entries, strict=True)}


async def _put(session: Session, caller: Caller, made: NewSnapshot) -> ModelId:
    return (await put_snapshot(session, caller, made)).model_id


async def _read(session: Session, caller: Caller, name: ModelId) -> StoredSnapshot:
    record = await session.open(name)
    arrays = await read_model(session, caller, record)
    return await asyncio.to_thread(_whole, record, arrays)


def _whole(record: ModelRecord, arrays: Mapping[int, np.ndarray[Any, Any]]) -> StoredSnapshot:
    if not is_snapshot(record.architecture):
        raise InvalidInput(f"{record.model_id!r} is a model, no snapshot: use load or read", model_id=record.model_id)
    graph, names = detach(record.architecture)
    # Attached tensors have the last numbers, behind the model's own.
    count = len(arrays) - len(names)
    return StoredSnapshot(
        graph,
        tuple(arrays[number] for number in range(count)),
        {name: arrays[count + place] for place, name in enumerate(names)},
        record.extra,
        name=record.model_id,
        step=record.step,
        metrics=record.metrics,
        base=record.ancestor,
    )
