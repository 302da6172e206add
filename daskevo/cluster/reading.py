"""Reading whole models and parts of them: reserved under a reader's attempt, read, and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from daskevo.cluster.inheriting import Array, Gone, by_owner, refer
from daskevo.cluster.session import Caller, Session
from daskevo.errors import ModelLost, RepositoryError
from daskevo.ownership.messages import Drop, Refer
from daskevo.ownership.model_record import ModelRecord
from daskevo.store.pack import unpack
from daskevo.types import ModelId


async def read_model(
    session: Session, caller: Caller, record: ModelRecord, numbers: Iterable[int] | None = None
) -> dict[int, Array]:
    """Return tensors of a published model by their number in it, read-only.

    Raises
    ------
    ModelRetired
        If it was retired meanwhile, and tensors of it have gone.
    ModelLost
        If tensors that it inherits went with the memory of a provider that died.
    AttemptOver
        If the caller has ended.
    """
    wanted = range(len(record.owner_map.entries)) if numbers is None else list(numbers)
    entries = {number: record.owner_map.entries[number] for number in wanted}
    owners = by_owner(entries.values())
    if session.reads_without_reserving:
        results = await asyncio.gather(*(_read(session, owner, needed) for owner, needed in owners.items()))
    else:
        results = await _read_reserved(session, caller, record, owners)
    found = {
        (owner, number): array
        for owner, arrays in zip(owners, results, strict=True)
        for number, array in arrays.items()
    }
    return {number: found[entry.owner, entry.number] for number, entry in entries.items()}


async def _read_reserved(
    session: Session, caller: Caller, record: ModelRecord, owners: dict[ModelId, frozenset[int]]
) -> list[dict[int, Array]]:
    attempt = await session.begin(caller, None)
    try:
        results = await asyncio.gather(
            *(refer(session, Refer(owner, None, attempt, needed)) for owner, needed in owners.items()),
            return_exceptions=True,
        )
    except BaseException:
        await asyncio.shield(session.end(attempt, settled=False))
        raise
    heard = await asyncio.shield(session.give_back(Drop(owner, None, attempt) for owner in owners))
    await session.end(attempt, settled=heard)
    for owner, result in zip(owners, results, strict=True):
        if isinstance(result, Gone):
            raise await _gone(session, record, owner) from result
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


async def _gone(session: Session, record: ModelRecord, owner: ModelId) -> RepositoryError:
    table = await session.directory.refresh()
    if owner in table.lost_owners(record.owner_map, record.attempt):
        return ModelLost(
            f"{record.model_id!r} can't be read: it inherits from {owner!r}, whose shard was in the memory of a "
            "provider that died",
            model_id=record.model_id,
            owner=owner,
        )
    return await session.missing(record.model_id, "retired")


async def _read(session: Session, owner: ModelId, numbers: frozenset[int]) -> dict[int, Array]:
    shard = await session.directory.shard_of(owner)
    answer = await session.directory.call(
        shard, "read", timeout_s=session.timeout_s, model=owner, attempt=None, numbers=sorted(numbers)
    )
    if "arrays" in answer:
        return answer["arrays"]  # type: ignore[no-any-return]
    return unpack(answer["header"], answer["block"])
