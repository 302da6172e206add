"""Read models or some of their tensors: reserve them under a reader's attempt, read them, and drop the references."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from daskevo.client.reservations import refer_all
from daskevo.client.run_script import run_script
from daskevo.client.session import Caller, Session
from daskevo.client.tensor_reader import Array, Gone, WantedTensors, by_reference, wanted_of
from daskevo.errors import CorruptRecord, DaskevoError, ModelLost, RepositoryError, ShardDamaged
from daskevo.protocol import scripts
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.steps import Begin, Reserve, Step
from daskevo.store.losses import Loss
from daskevo.types import ModelId


async def read_model(
    session: Session, caller: Caller, record: ModelRecord, numbers: Iterable[int] | None = None
) -> dict[int, Array]:
    """Return tensors of a published model by number, read-only; `numbers` None: all.

    Raises
    ------
    ModelRetired
        If the model was retired meanwhile, and tensors have been freed.
    ModelLost
        If tensors that it inherits were lost with a provider's memory, or have been replaced by others.
    AttemptOver
        If the caller has ended.
    """
    wanted = range(len(record.owner_map.entries)) if numbers is None else list(numbers)
    entries = {number: record.owner_map.entries[number] for number in wanted}
    # Decoded in a thread: a large graph takes milliseconds, in which the event loop would answer nobody.
    graph = await asyncio.to_thread(lambda: record.architecture)
    owners = wanted_of(graph, entries.items())
    if session.reads_without_reserving:
        results = await asyncio.gather(*(_read(session, record, owner, wanted) for owner, wanted in owners.items()))
    else:
        results = await _read_reserved(session, caller, record, owners)
    found = {
        (owner, number): array
        for owner, arrays in zip(owners, results, strict=True)
        for number, array in arrays.items()
    }
    return {number: found[entry.owner, entry.number] for number, entry in entries.items()}


async def _read_reserved(
    session: Session, caller: Caller, record: ModelRecord, owners: Mapping[ModelId, Mapping[int, WantedTensors]]
) -> list[dict[int, Array]]:
    results: list[dict[int, Array] | Gone | DaskevoError] = []

    async def carry_out(step: Step) -> Any:
        match step:
            case Begin():
                return await session.begin(caller, None)
            case Reserve(_, attempt, _):
                # In place: the script only hears whether all went well, and `results` also tells why not.
                results[:] = await refer_all(session, None, attempt, owners)
                return not any(isinstance(result, BaseException) for result in results)
        return await session.carry_out(step)

    await run_script(scripts.read(owners), carry_out)
    for owner, result in zip(owners, results, strict=True):
        if isinstance(result, Gone):
            raise await _gone(session, record, owner, result.reason) from result
        if isinstance(result, CorruptRecord):
            raise await _marked(session, record, owner, owners[owner]) or result
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


async def _gone(session: Session, record: ModelRecord, owner: ModelId, reason: str) -> RepositoryError:
    # The table of before may not tell yet that a provider has died: its death is why the tensors are gone.
    table = await session.directory.refresh()
    if owner in table.lost_owners(record.owner_map, record.attempt):
        provider = table.lost_with[shard_of(owner, table.shards)]
        return ModelLost(
            f"{record.model_id!r} can't be read: {_whose(record, owner)} were in the memory of {provider}, a provider "
            "that has died or left",
            model_id=record.model_id,
            owner=owner,
            provider=provider,
            tensors=sorted(record.owner_map.owners[owner]),
        )
    standing = await session.standing(record.model_id)
    if standing.state == "published":
        return await _marked(session, record, owner) or _lost(record, owner, reason)
    return await session.missing(record.model_id, "retired")


async def _marked(
    session: Session, record: ModelRecord, owner: ModelId, wanted: Collection[int] | None = None
) -> ModelLost | None:
    """Return the error for a model with tensors that a repair has marked as lost; None if there are none."""
    numbers = record.owner_map.owners[owner] if wanted is None else wanted
    shard = await session.directory.shard_of(owner)
    try:
        marks = await session.directory.call(shard, "lost_of", timeout_s=session.timeout_s, model=owner)
    except RepositoryError:
        return None  # the caller's own error about the tensors tells more than this one
    for mark in map(Loss.from_json, marks):
        gone = sorted(mark.numbers & frozenset(numbers))
        if gone:
            return ModelLost(
                f"{record.model_id!r} can't be read: tensors {gone} of {owner!r} are gone ({mark.found}), as a repair "
                f"found at {mark.since}. Restore the shard of {owner!r} from a copy, or retire {record.model_id!r}",
                model_id=record.model_id,
                owner=owner,
                since=mark.since,
                tensors=gone,
            )
    return None


def _lost(record: ModelRecord, owner: ModelId, reason: str) -> ModelLost:
    return ModelLost(
        f"{record.model_id!r} can't be read: {_whose(record, owner)} are not there ({reason}). Restore the shard of "
        f"{owner!r} from a copy, or retire {record.model_id!r}; repository.verify() names what else is missing",
        model_id=record.model_id,
        owner=owner,
    )


def _whose(record: ModelRecord, owner: ModelId) -> str:
    return "its own tensors" if owner == record.model_id else f"it inherits from {owner!r}, whose tensors"


async def _read(
    session: Session, record: ModelRecord, owner: ModelId, wanted: Mapping[int, WantedTensors]
) -> dict[int, Array]:
    shard = await session.directory.shard_of(owner)
    try:
        answer = await session.directory.call(
            shard, "look_at", timeout_s=session.timeout_s, model=owner, numbers=sorted(wanted)
        )
        return by_reference(answer, owner, wanted)
    except ShardDamaged:
        raise
    except CorruptRecord as error:
        raise (await _marked(session, record, owner, wanted) or error) from error
    except Gone as gone:
        raise (await _marked(session, record, owner, wanted) or _lost(record, owner, gone.reason)) from gone
