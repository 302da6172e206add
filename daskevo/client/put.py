"""Put a model: send changed tensors and the record to its shard in one message, and tell the caller all outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daskevo.client.inherit import Reservation
from daskevo.client.put_payload import Payload
from daskevo.client.put_sender import send_put
from daskevo.client.run_script import or_error, run_script
from daskevo.client.session import Session
from daskevo.errors import DaskevoError, InvalidInput, ModelExists, PutFailed, PutUnknown, QuotaReached
from daskevo.graph import ArchitectureGraph
from daskevo.protocol import scripts
from daskevo.protocol.messages import Abort, Put
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerMap
from daskevo.protocol.replies import Refused, Verdict
from daskevo.protocol.scripts import PutOutcome
from daskevo.protocol.steps import Step, Together, Withdraw
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
    """Carry out `scripts.put`: stage and publish a model in one message.

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

    async def carry_out(step: Step) -> Any:
        match step:
            case Together((Put(),)):
                try:
                    # Half of the time limit for the put and half for the abort, so that `put` as a whole keeps to it.
                    return [await send_put(session, message, payload, session.timeout_s / 2)]
                except DaskevoError as error:
                    return [error]
            case Together((Abort() as abort,)):
                return [await or_error(session.within(session.timeout_s / 2).send(abort, Verdict))]
            case Withdraw():
                return await asyncio.to_thread(payload.withdraw)
        return await session.carry_out(step)

    outcome = await run_script(scripts.put(message, reservation.owners, payload.unused), carry_out)
    if outcome.state == "stored":
        return Stored(record)
    return await _not_stored(session, record.model_id, outcome)


async def _not_stored(session: Session, model_id: ModelId, outcome: PutOutcome) -> Stored:
    """Raise the error for a put that this attempt has not stored, unless another one has."""
    answer = outcome.answer
    cause = answer if isinstance(answer, DaskevoError) else None
    if cause is not None and outcome.state == "not sent":
        raise cause
    found = f"home answered {answer}" if cause is None else str(cause)
    if isinstance(answer, Refused):
        found = f"home refused it: {answer.reason}"
    if outcome.state == "unknown" and isinstance(outcome.verdict, DaskevoError):
        raise PutUnknown(
            f"put of {model_id!r} has no answer ({found}), and aborting it neither ({outcome.verdict}): the "
            "coordinator will settle it; ask repository.status whether it was stored",
            model_id=model_id,
        ) from outcome.verdict
    if outcome.state == "unknown":
        raise PutUnknown(
            f"put of {model_id!r} has no answer ({found}), and its home lost what it knew: "
            "ask repository.status whether it was stored",
            model_id=model_id,
        ) from cause
    # The abort was refused or the id is taken: a run of the same task on another worker may have put the model first.
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
    # These name what the caller can do, unlike PutFailed; putting again without that would fail again.
    if isinstance(cause, (QuotaReached, InvalidInput)):
        raise cause
    raise PutFailed(
        f"put of {model_id!r} failed ({found}): nothing is visible and nothing leaks. Put it again",
        **{**({} if cause is None else cause.facts), "model_id": model_id, "reason": found},
    ) from cause
