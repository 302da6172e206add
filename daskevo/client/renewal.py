"""Renew a reservation: begin a new attempt for a model whose attempt has ended, and reserve its tensors again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from daskevo.client.deferred_messages import send_drops
from daskevo.client.inherit import Reservation
from daskevo.client.session import Caller, Session
from daskevo.errors import ClusterError, RepositoryError
from daskevo.protocol.messages import Drop, Refer, Status
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.protocol.replies import Refused, Reserved, Standing
from daskevo.types import ModelId


async def renew(session: Session, caller: Caller, reservation: Reservation) -> Reservation:
    """Begin a new attempt for a model whose attempt has ended, and reserve the tensors that are still the same.

    The put stores tensors that are gone meanwhile itself, and also those that differ: after the loss of a shard in
    memory, another model may have the owner's id. Tensors are not read; the digests are in the owner's record.
    """
    attempt = await session.begin(caller, reservation.model_id)
    inherited = reservation.by_owner

    async def again(owner: ModelId) -> tuple[ModelId, frozenset[int]]:
        numbers = frozenset(inherited[owner])
        try:
            reserved, record = await _refer_again(session, Refer(owner, reservation.model_id, attempt, numbers))
            same = frozenset(n for n in reserved if _is_still(record, inherited[owner][n]))
            if reserved - same:
                await send_drops(session.directory, [Drop(owner, reservation.model_id, attempt, reserved - same)])
        except (ClusterError, RepositoryError):
            return owner, frozenset()
        return owner, same

    try:
        still = dict(await asyncio.gather(*map(again, inherited)))
    except BaseException:
        # The task may have been cancelled while reserving: only the coordinator can find out what is reserved.
        await asyncio.shield(session.end(attempt, settled=False))
        raise
    kept = {
        number: entry for number, entry in reservation.entries.items() if entry.number in still.get(entry.owner, ())
    }
    return replace(reservation, attempt=attempt, entries=kept)


async def _refer_again(session: Session, message: Refer) -> tuple[frozenset[int], ModelRecord | None]:
    """Reserve those tensors of one owner that still exist; return their numbers, and the owner's record."""
    shard = await session.directory.shard_of(message.owner)
    # A refusal names the missing tensors; each repetition asks for fewer, so the loop ends.
    while True:
        reply, standing = await session.directory.ask(shard, [message, Status(message.owner)], session.timeout_s)
        if isinstance(reply, Reserved) and isinstance(standing, Standing):
            return message.numbers, standing.record
        missing = reply.missing if isinstance(reply, Refused) and reply.reason == "gone" else message.numbers
        if not message.numbers & missing or not message.numbers - missing:
            return frozenset(), None
        message = replace(message, numbers=message.numbers - missing)


def _is_still(record: ModelRecord | None, entry: OwnerEntry) -> bool:
    """Whether an owner's record still has the tensor that was inherited from it."""
    entries = () if record is None else record.owner_map.entries
    if entry.number >= len(entries):
        return False
    found = entries[entry.number]
    return (found.owner, found.number, found.digest) == (entry.owner, entry.number, entry.digest)
