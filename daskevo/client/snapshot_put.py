"""Put snapshots: reserve tensors that an earlier snapshot has with the same bytes, and store only the rest.

Tensors of the earlier snapshot are not read: its record has the digests. Tensors that can't be reserved any more are
stored again, so a put never fails because the earlier snapshot is retired meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from daskevo.client.inherit import Reservation
from daskevo.client.put import make_record, put
from daskevo.client.put_payload import prepare, prepared, withdrawn_on_error
from daskevo.client.put_sender import folder_of_home
from daskevo.client.renewal import renew
from daskevo.client.reservations import give_back
from daskevo.client.session import Caller, Session
from daskevo.errors import (
    ClusterError,
    CorruptRecord,
    DaskevoError,
    ModelExists,
    ModelLost,
    ModelRetired,
    ShardDamaged,
)
from daskevo.graph import ArchitectureGraph
from daskevo.graph.attached import attach
from daskevo.protocol.messages import Message, Open, Status
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.protocol.records import BEGINNING
from daskevo.protocol.replies import Reply, Standing
from daskevo.store.digests import digests
from daskevo.store.pack import portable
from daskevo.types import JSON, ModelId, Objective, TensorSpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NewSnapshot:
    """A snapshot to put.

    Parameters
    ----------
    name:
        Its id.
    is_new:
        Whether the name was drawn at random, so that it can't be taken.
    graph:
        Graph of the model, or None.
    weights:
        The model's tensors, in the order of its graph.
    attached:
        Further tensors by name, in the order in which they are attached. Neither these nor `weights` may be changed
        until the put is answered.
    base:
        The earlier snapshot, or None.
    """

    name: ModelId
    is_new: bool
    scope: str
    objective: Objective | None
    graph: ArchitectureGraph | None
    weights: tuple[Array, ...]
    attached: Mapping[str, Array]
    base: ModelId | None
    labels: tuple[str, ...]
    metrics: Mapping[str, JSON]
    step: int
    extra: JSON


async def put_snapshot(session: Session, caller: Caller, made: NewSnapshot) -> ModelRecord:
    """Put a snapshot and return its record.

    If a snapshot with the same content is stored under the name, by an earlier run of the task, return its record.

    Raises
    ------
    UnknownModel
        If the base never existed.
    ModelExists
        If the name is taken by other content, or was retired.
    AttemptOver
        If the caller has ended.
    QuotaReached, PutFailed, PutUnknown, ShardDamaged
        As for every put.
    """
    taken, base = await _look(session, made)
    comparing = asyncio.to_thread(_compare, made, base, taken)
    compared, created, folder = await asyncio.gather(comparing, session.tick(), folder_of_home(session, made.name))
    if taken is not None:
        return _the_same(compared, taken)
    # `renew` reserves entries of an earlier attempt again; here there was none, so the attempt is a placeholder.
    wanted = Reservation(made.name, BEGINNING, ancestor=base, entries=compared.entries)
    reservation = await renew(session, caller, wanted)
    try:
        payload = await prepared(prepare, reservation, compared.tensors, made.step, folder, compared.hashed)
        async with withdrawn_on_error(payload):
            record = make_record(
                reservation,
                payload,
                compared.graph,
                created,
                scope=made.scope,
                objective=made.objective,
                metrics=made.metrics,
                step=made.step,
                parent=None,
                extra=made.extra,
            )
            # Training continued from the base even if it has changed every tensor, so record the ancestor in any case.
            record = replace(record, ancestor=made.base)
    except DaskevoError:
        await asyncio.shield(give_back(session, made.name, reservation.attempt, reservation.owners))
        raise
    except BaseException:
        # Cancelled: drops here would take as long as their answers, so leave them to the coordinator.
        await asyncio.shield(session.end(reservation.attempt, settled=False))
        raise
    stored = await put(session, reservation, record, payload, made.labels)
    if stored.by_other:
        return _the_same(await asyncio.to_thread(_compare, made, None, stored.record), stored.record)
    return stored.record


class _Compared(NamedTuple):
    """A snapshot compared with its base.

    It has the snapshot's graph and its text, portable tensors by number, digests if there was anything to compare with,
    and the base's entries of tensors that both share.
    """

    graph: ArchitectureGraph
    text: str
    tensors: Mapping[int, Array]
    hashed: Mapping[int, str]
    entries: dict[int, OwnerEntry]


def _compare(made: NewSnapshot, base: ModelRecord | None, taken: ModelRecord | None) -> _Compared:
    """Compare a snapshot with its base; blocks while it hashes all tensors, if there is anything to compare with."""
    graph = attach(made.graph, {name: TensorSpec.of(array) for name, array in made.attached.items()})
    tensors = {number: portable(array) for number, array in enumerate((*made.weights, *made.attached.values()))}
    hashed = {} if base is None and taken is None else digests(tensors)
    return _Compared(graph, graph.text, tensors, hashed, {} if base is None else shared(graph, hashed, base))


async def _look(session: Session, made: NewSnapshot) -> tuple[ModelRecord | None, ModelRecord | None]:
    """Return the record that is stored under the name, and that of the base if it can be reserved from; or None."""
    messages: list[Message] = [] if made.is_new else [Status(made.name)]
    if made.base is not None:
        messages.append(Open(made.base))
    # Without the base only more bytes are stored, so don't wait long for it; the status of the name is indispensable.
    patient = [isinstance(message, Status) for message in messages]
    replies = await session.send_together(messages, patient) if messages else []
    taken = None if made.is_new else _taken(made.name, replies[0])
    base = None if made.base is None else await _opened(session, made.base, replies[-1])
    return taken, base


def _taken(name: ModelId, reply: Reply | DaskevoError) -> ModelRecord | None:
    if isinstance(reply, DaskevoError):
        raise reply
    if not isinstance(reply, Standing):
        raise CorruptRecord(f"the status of {name!r} was answered with {reply}", model_id=name)
    if reply.state in ("retiring", "retired"):
        raise ModelExists(
            f"{name!r} is {reply.state} already: names are never used again, choose another",
            model_id=name,
            state=reply.state,
            record=reply.record,
        )
    return reply.record if reply.state == "published" else None


async def _opened(session: Session, base: ModelId, reply: Reply | DaskevoError) -> ModelRecord | None:
    try:
        if isinstance(reply, DaskevoError):
            raise reply
        return await session.opened(base, reply)
    except (ModelRetired, ModelLost, ShardDamaged, ClusterError):
        return None  # stores all tensors; an unknown base is a mistake of the caller, and raises


def shared(graph: ArchitectureGraph, hashed: Mapping[int, str], base: ModelRecord) -> dict[int, OwnerEntry]:
    """Return the entries of tensors that an earlier snapshot has too, by number in the new one.

    Parameters
    ----------
    graph:
        Graph of the new snapshot.
    hashed:
        Digests of all its tensors.
    """
    keys = base.architecture.tensors
    there: dict[tuple[str, TensorSpec], OwnerEntry] = {}
    for key, entry in zip(keys, base.owner_map.entries, strict=True):
        # By content, not by name or position: a snapshot may share a tensor with the base's under another number. The
        # specification counts too, since tensors of other shapes may have the same bytes.
        there.setdefault((entry.digest, key.spec), entry)
    found = {number: there.get((hashed[number], key.spec)) for number, key in enumerate(graph.tensors)}
    return {number: entry for number, entry in found.items() if entry is not None}


def _the_same(compared: _Compared, record: ModelRecord) -> ModelRecord:
    there = [entry.digest for entry in record.owner_map.entries]
    if record.graph == compared.text and there == [compared.hashed[number] for number in compared.tensors]:
        return record
    raise ModelExists(
        f"{record.model_id!r} is stored already, with another content: names are never used again, choose another",
        model_id=record.model_id,
        state="published",
        record=record,
    )
