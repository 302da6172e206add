"""Put a model: send changed tensors and the record to its shard in one message, and handle all outcomes.

After any error, the put is aborted at the model's shard first, and only then are its references dropped (protocol.md):
the model may have been published, and a published model must not lose tensors that it inherits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daskevo.client.inherit import Reservation
from daskevo.client.put_payload import Payload
from daskevo.client.put_sender import send_put
from daskevo.client.reservations import give_back
from daskevo.client.session import Session
from daskevo.errors import (
    ClusterError,
    DaskevoError,
    InvalidInput,
    ModelExists,
    PutFailed,
    PutUnknown,
    QuotaReached,
    RepositoryError,
    ShardDamaged,
)
from daskevo.graph import ArchitectureGraph
from daskevo.protocol.messages import Abort, Drop, Put
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerMap
from daskevo.protocol.replies import Refused, Verdict
from daskevo.types import JSON, ModelId, Objective, Tick

KEPT = "user:kept"
"""Label of a put without labels: published means that at least one label keeps the model."""


@dataclass(frozen=True)
class Stored:
    """Outcome of a successful put.

    Parameters
    ----------
    record:
        Record of the model that is published under this id.
    by_other:
        Whether another attempt has published the id (a task that ran twice); `record` is the record of that attempt.
    """

    record: ModelRecord
    by_other: bool = False


def make_record(
    reservation: Reservation,
    payload: Payload,
    graph: ArchitectureGraph,
    created: Tick,
    *,
    scope: str,
    objective: Objective | None,
    metrics: Mapping[str, JSON],
    step: int,
    parent: ModelId | None,
    extra: JSON,
) -> ModelRecord:
    """Return the record of the model that is being put."""
    ancestor = reservation.ancestor
    return ModelRecord(
        model_id=reservation.model_id,
        attempt=reservation.attempt,
        scope=scope,
        graph=graph.text,
        owner_map=OwnerMap(payload.entries),
        own=dict(payload.own),
        created=created,
        objective=None if objective is None else str(objective),
        quality=None if objective is None else objective.quality(dict(metrics)),
        metrics=dict(metrics),
        step=step,
        parent=parent,
        # A shared prefix without weights, such as an input layer, does not count as inheritance.
        ancestor=ancestor.model_id if ancestor is not None and reservation.entries else None,
        extra=extra,
    )


async def put(
    session: Session, reservation: Reservation, record: ModelRecord, payload: Payload, labels: Sequence[str]
) -> Stored:
    """Stage and publish a model in one message, drop references that it does not use, and end the attempt.

    Raises
    ------
    PutFailed
        If the put failed and its shard has confirmed the abort: nothing is visible, nothing leaks.
    QuotaReached
        The same, because the model exceeds the repository's quota.
    InvalidInput
        The same, because the model's record exceeds the limit.
    PutUnknown
        If the shard answered neither put nor abort: the coordinator settles it, `repository.status` tells the outcome.
    ModelExists
        If the id belongs to a model that has been retired since.
    ShardDamaged
        If the records of the id's shard can't be read: nothing is visible, nothing leaks. Another id may belong to
        another shard.
    """
    message = Put(record, dict.fromkeys(labels or (KEPT,), record.created))
    cause: BaseException | None = None
    try:
        reply = await send_put(session, message, payload, session.timeout_s / 2)
        if isinstance(reply, Verdict) and reply.state in ("published", "retiring", "retired"):
            _finish(session, record, payload)
            return Stored(record)
        found = f"home refused it: {reply.reason}" if isinstance(reply, Refused) else f"home answered {reply}"
    except ShardDamaged as error:
        if not error.sent:
            # No provider has received the put, so the attempt was never staged, and needs no abort before the drops.
            await asyncio.shield(give_back(session, record.model_id, record.attempt, reservation.owners))
            raise
        found, cause = str(error), error
    except DaskevoError as error:
        found, cause = str(error), error
    except BaseException:
        # Cancelled: the put may have been carried out, so the coordinator has to find out.
        await asyncio.shield(session.end(record.attempt, settled=False))
        raise
    return await asyncio.shield(_abort(session, reservation, record, payload, found, cause))


def _finish(session: Session, record: ModelRecord, payload: Payload) -> None:
    """Drop unused references and end the attempt, without waiting.

    The model is published, so nothing has to be settled, and the audit makes up for lost drops.
    """
    drops = (Drop(owner, record.model_id, record.attempt, numbers) for owner, numbers in payload.unused.items())
    session.outbox.add(record.attempt, drops)


async def _abort(
    session: Session,
    reservation: Reservation,
    record: ModelRecord,
    payload: Payload,
    found: str,
    cause: BaseException | None,
) -> Stored:
    """Ask the model's shard for the verdict on this attempt, and act on it, within the second half of the time."""
    model_id, attempt = record.model_id, record.attempt
    try:
        verdict = await session.within(session.timeout_s / 2).send(Abort(model_id, attempt), Verdict)
    except (ClusterError, RepositoryError) as error:
        await session.end(attempt, settled=False)
        raise PutUnknown(
            f"put of {model_id!r} has no answer ({found}), and aborting it neither ({error}): the coordinator will "
            "settle it; ask repository.status whether it was stored",
            model_id=model_id,
        ) from error
    if isinstance(verdict, Refused) or verdict.state == "lost":
        await session.end(attempt, settled=False)
        raise PutUnknown(
            f"put of {model_id!r} has no answer ({found}), and its home lost what it knew: "
            "ask repository.status whether it was stored",
            model_id=model_id,
        ) from cause
    if verdict.state in ("published", "retiring"):
        _finish(session, record, payload)
        return Stored(record)
    # The shard has confirmed that this attempt can never publish. Only now remove the file, drop the references, and
    # end the attempt, in this order.
    if verdict.state == "aborted":
        await asyncio.to_thread(payload.withdraw)
    await give_back(session, model_id, attempt, reservation.owners)
    if verdict.state == "retired":
        return Stored(record)
    standing = await session.standing(model_id)
    if standing.state in ("published", "retiring") and standing.record is not None:
        return Stored(standing.record, by_other=True)
    if standing.state == "retired":
        raise ModelExists(
            f"{model_id!r} was made by another attempt and has been retired since: ids are never used again",
            model_id=model_id,
            state=standing.state,
            record=standing.record,
        ) from cause
    if isinstance(cause, (QuotaReached, InvalidInput)):
        raise cause
    raise PutFailed(
        f"put of {model_id!r} failed ({found}): nothing is visible and nothing leaks. Put it again",
        **{**(cause.facts if isinstance(cause, DaskevoError) else {}), "model_id": model_id, "reason": found},
    ) from cause
