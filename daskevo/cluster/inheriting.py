"""Inherit: begin, match, open, and reserve with the read in one message; gone, and the next best match is tried.

Each try of an ancestor is an attempt of its own: under the same one, a late drop of the first try would take the second
try's reservation (protocol.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np

from daskevo.catalogue import Match
from daskevo.cluster.arriving import Gone, Wanted, arrived, wanted_of
from daskevo.cluster.matching import Question, best_matches
from daskevo.cluster.session import Caller, Session
from daskevo.errors import ClusterError, ModelExists, ModelRetired, RepositoryError, ShardUnavailable
from daskevo.graph import ArchitectureGraph, Prefix, longest_common_prefix
from daskevo.ownership.messages import Drop, Refer, Status
from daskevo.ownership.model_record import ModelRecord
from daskevo.ownership.owner_map import OwnerEntry
from daskevo.ownership.replies import Refused, Reserved, Standing, reply_from_wire
from daskevo.types import Attempt, ModelId

Array = np.ndarray[Any, Any]

SILENT_OWNERS = 3
"""After so many ancestors whose owners gave no answer nothing is inherited: all others may need the same provider."""


class _Unheard(Gone):
    """An owner of what was to be inherited gave no answer."""


@dataclass
class Reservation:
    """What one attempt to make a model has: its ancestor, and the inherited tensors, reserved at their owners.

    Parameters
    ----------
    entries:
        Tensor number of the child -> the ancestor's entry for it.
    arrays:
        Tensor number of the child -> its value, read-only.
    tried:
        Ancestors that were the best match but could not be inherited from -> why.
    silent:
        What did not answer the query: provider or shard -> why.
    seconds:
        Where the time went: ``match_s``, ``reserve_s``.
    """

    model_id: ModelId
    attempt: Attempt
    ancestor: ModelRecord | None = None
    ancestor_graph: ArchitectureGraph | None = None
    prefix: Prefix = field(default_factory=lambda: Prefix(()))
    entries: dict[int, OwnerEntry] = field(default_factory=dict)
    arrays: dict[int, Array] = field(default_factory=dict)
    tried: dict[ModelId, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def owners(self) -> dict[ModelId, frozenset[int]]:
        """Owner -> its numbers that are reserved."""
        return {owner: frozenset(entries) for owner, entries in self.by_owner.items()}

    @property
    def by_owner(self) -> dict[ModelId, dict[int, OwnerEntry]]:
        """Owner -> number in its own enumeration -> the entry that was inherited."""
        owners: dict[ModelId, dict[int, OwnerEntry]] = {}
        for entry in self.entries.values():
            owners.setdefault(entry.owner, {})[entry.number] = entry
        return owners


async def check_id_is_free(session: Session, model_id: ModelId) -> None:
    """Ask home first, so that a task that is run again after its put trains nothing.

    Raises
    ------
    ModelExists
        With the record of the model that has this id as `record`.
    """
    standing = await session.standing(model_id)
    if standing.state in ("published", "retiring", "retired"):
        raise ModelExists(
            f"{model_id!r} is {standing.state} already: ids are never used again. If this task was run twice, its "
            "result is this error's `record`; otherwise choose another id",
            model_id=model_id,
            state=standing.state,
            record=standing.record,
        )


async def reserve_best(
    session: Session,
    caller: Caller,
    model_id: ModelId,
    graph: ArchitectureGraph,
    scope: str,
    *,
    weigh: str = "vertex",
    match: Match | None = None,
    ancestor: ModelId | Literal[False] | None = None,
) -> Reservation:
    """Reserve and read the longest prefix of the best ancestor.

    Parameters
    ----------
    match:
        Answer of an earlier query: tried first, then the next best.
    ancestor:
        The only model to inherit from; False: none, the model gets an attempt and nothing else.

    Returns
    -------
    A reservation without ancestor if no model of the scope shares a tensor-bearing prefix.

    Raises
    ------
    UnknownModel, ModelRetired, ModelLost
        If `ancestor` was named and can't be inherited from.
    AttemptOver
        If the holder has ended.
    """
    tried: dict[ModelId, str] = {}
    silent: Mapping[str, str] = {}
    seconds = {"match_s": 0.0, "reserve_s": 0.0}
    unheard = 0
    while True:
        attempt = await session.begin(caller, model_id)
        try:
            started = perf_counter()
            record: ModelRecord | None
            if ancestor is False or unheard >= SILENT_OWNERS:
                record = None
            elif ancestor is not None:
                record = await session.open(ancestor)
            elif match is not None:
                record = await _open_match(session, match, tried)
                match = None
                if record is None:
                    await session.end(attempt, settled=True)
                    continue
            else:
                record, silent = await _best(session, graph, scope, weigh, tried)
            seconds["match_s"] += perf_counter() - started
            reservation = Reservation(model_id, attempt, tried=tried, silent=silent, seconds=seconds)
            if record is None:
                return reservation
            started = perf_counter()
            await _reserve(session, reservation, graph, record, patient=ancestor is not None)
            seconds["reserve_s"] += perf_counter() - started
        except Gone as gone:
            tried[record.model_id] = gone.reason  # type: ignore[union-attr]
            unheard += isinstance(gone, _Unheard)
            if ancestor:
                raise ModelRetired(
                    f"{ancestor!r} can't be inherited from: {gone.reason}", model_id=ancestor, reason=gone.reason
                ) from None
        except BaseException:
            # Also cancelled in the middle of a refer: only the coordinator can still tell what was reserved.
            await asyncio.shield(session.end(attempt, settled=False))
            raise
        else:
            return reservation


async def _open_match(session: Session, match: Match, tried: dict[ModelId, str]) -> ModelRecord | None:
    try:
        return await session.open(match.model_id, patient=False)
    except (ShardUnavailable, RepositoryError) as error:
        tried[match.model_id] = str(error)
        return None


async def _best(
    session: Session, graph: ArchitectureGraph, scope: str, weigh: str, tried: dict[ModelId, str]
) -> tuple[ModelRecord | None, Mapping[str, str]]:
    question = Question.of(graph, weigh, tried)
    answer = await best_matches(session.directory, scope, [question], timeout_s=session.timeout_s / 2, records=True)
    (match,) = answer.matches
    return (None if match is None else answer.records[match.model_id]), answer.silent


async def _reserve(
    session: Session, reservation: Reservation, graph: ArchitectureGraph, record: ModelRecord, *, patient: bool
) -> None:
    """Refer to all wanted tensors at their owners, in parallel, and read them; all or nothing."""
    other, prefix = await asyncio.to_thread(_prefix, graph, record)
    pairs = prefix.tensors(graph, other)
    entries = {mine: record.owner_map.entries[theirs] for mine, theirs in pairs}
    read: dict[tuple[ModelId, int], Array] = {}
    owners = wanted_of(graph, entries.items())
    results = await asyncio.gather(
        *(
            refer(
                session,
                Refer(owner, reservation.model_id, reservation.attempt, frozenset(wanted)),
                wanted,
                patient=patient,
            )
            for owner, wanted in owners.items()
        ),
        return_exceptions=True,
    )
    trouble = [result for result in results if isinstance(result, BaseException)]
    if trouble:
        for error in trouble:
            if not isinstance(error, (Gone, ClusterError, RepositoryError)):
                raise error
        await give_back(session, reservation.model_id, reservation.attempt, owners)
        unheard = [error for error in trouble if isinstance(error, ClusterError)]
        raise _Unheard(str(unheard[0])) if unheard else Gone(str(trouble[0]))
    for owner, arrays in zip(owners, results, strict=True):
        read.update(((owner, number), array) for number, array in arrays.items())  # type: ignore[union-attr]
    reservation.ancestor, reservation.ancestor_graph, reservation.prefix = record, other, prefix
    reservation.entries = entries
    reservation.arrays = {mine: read[entry.owner, entry.number] for mine, entry in entries.items()}


async def give_back(session: Session, model_id: ModelId, attempt: Attempt, owners: Iterable[ModelId]) -> None:
    """Give back an attempt that was never staged: drops at every owner asked, then end."""
    heard = await session.give_back(Drop(owner, model_id, attempt) for owner in owners)
    await session.end(attempt, settled=heard)


def _prefix(graph: ArchitectureGraph, record: ModelRecord) -> tuple[ArchitectureGraph, Prefix]:
    other = ArchitectureGraph.from_json(record.graph)
    return other, longest_common_prefix(graph, other)


async def refer(
    session: Session, message: Refer, wanted: Mapping[int, Wanted], *, patient: bool = True
) -> dict[int, Array]:
    """Reserve tensors of one owner and read them, in one message: number in the owner -> value, read-only.

    Who is not `patient` waits only a moment for an owner whose provider was silent lately.

    Raises
    ------
    Gone
        If one of them is not there, or another than is wanted.
    ShardUnavailable
        If the owner's shard gave no answer in time.
    """
    shard = await session.directory.shard_of(message.owner)
    answer = await session.directory.call(
        shard, "refer", timeout_s=session.timeout_s, patient=patient, message=message.to_wire()
    )
    reply = reply_from_wire(answer["reply"])
    if isinstance(reply, Refused):
        raise Gone(f"tensors of {message.owner!r} are {reply.reason}")
    if not isinstance(reply, Reserved):
        raise await session.missing(message.owner, "unknown")
    return await arrived(answer, message.owner, wanted)


async def renew(session: Session, caller: Caller, reservation: Reservation) -> Reservation:
    """Begin a new attempt for a model whose old one is over: reserve again what is still there, and still the same.

    What has gone meanwhile, the put stores itself. So does it with a tensor that is another now: after the loss of a
    shard in memory the owner's id may be that of another model. Nothing is read: the digests are in the owner's record.
    """
    attempt = await session.begin(caller, reservation.model_id)
    inherited = reservation.by_owner

    async def again(owner: ModelId) -> tuple[ModelId, frozenset[int]]:
        numbers = frozenset(inherited[owner])
        try:
            reserved, record = await _refer_again(session, Refer(owner, reservation.model_id, attempt, numbers))
            same = frozenset(n for n in reserved if _is_still(record, inherited[owner][n]))
            if reserved - same:
                await session.give_back([Drop(owner, reservation.model_id, attempt, reserved - same)])
        except (ClusterError, RepositoryError):
            return owner, frozenset()
        return owner, same

    still = dict(await asyncio.gather(*map(again, inherited)))
    kept = {
        number: entry for number, entry in reservation.entries.items() if entry.number in still.get(entry.owner, ())
    }
    return replace(reservation, attempt=attempt, entries=kept)


async def _refer_again(session: Session, message: Refer) -> tuple[frozenset[int], ModelRecord | None]:
    """Reserve those tensors of one owner that are there; return their numbers, and the owner's record."""
    shard = await session.directory.shard_of(message.owner)
    while True:
        reply, standing = await session.directory.ask(shard, [message, Status(message.owner)], session.timeout_s)
        if isinstance(reply, Reserved) and isinstance(standing, Standing):
            return message.numbers, standing.record
        missing = reply.missing if isinstance(reply, Refused) and reply.reason == "gone" else message.numbers
        if not message.numbers & missing or not message.numbers - missing:
            return frozenset(), None
        message = replace(message, numbers=message.numbers - missing)


def _is_still(record: ModelRecord | None, entry: OwnerEntry) -> bool:
    """Whether an owner's record names the tensor that was inherited from it."""
    entries = () if record is None else record.owner_map.entries
    if entry.number >= len(entries):
        return False
    found = entries[entry.number]
    return (found.owner, found.number, found.digest) == (entry.owner, entry.number, entry.digest)
