"""One shard as its provider serves it: the state machine behind a lock, its journal, its tensors.

The order at the edge is the protocol's: decide, append, flush where it must be, check the epoch, apply, carry out the
effects, answer. Whoever waits for the lock sees nothing that is not flushed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from daskevo.errors import CorruptRecord, NotDeployed, RepositoryError, ShardFenced
from daskevo.ownership.messages import (
    Abort,
    Drop,
    DropAttempt,
    FinishRetirement,
    Message,
    Put,
    Refer,
    Release,
    ReleaseLabel,
    Retire,
)
from daskevo.ownership.model_record import ModelRecord
from daskevo.ownership.records import record_from_json
from daskevo.ownership.references import numbers_in
from daskevo.ownership.replies import Refused, Reply, Reserved
from daskevo.ownership.shard import Shard
from daskevo.ownership.state import Effects
from daskevo.store.pack import Entry, parse_header, unpack
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import damaged
from daskevo.store.tiers import DurableTensors, Tensors
from daskevo.types import Attempt, ModelId, TensorSpec, Tick, VertexId

Array = np.ndarray[Any, Any]

_FREEING = (Abort, Drop, DropAttempt, FinishRetirement, Release, ReleaseLabel, Retire)
"""What gives back room: on a full disk too, or nothing could be retired there."""

logger = logging.getLogger(__name__)


class ServedShard:
    """A shard that this process owns.

    Parameters
    ----------
    shard:
        Its state machine.
    folder:
        Its folder, opened and served; None for a repository in memory.
    tensors:
        Of all shards of this provider.
    on_effects:
        Called with the shard and what each applied record asks for beyond files and tensors.
    read_only_files:
        The folder of a shard that is looked at, not owned: nothing is changed.
    """

    def __init__(
        self,
        shard: Shard,
        folder: ShardFolder | None,
        tensors: Tensors,
        on_effects: Callable[[ServedShard, Effects], None],
        read_only_files: ShardFolder | None = None,
    ) -> None:
        self.shard = shard
        self.folder = folder
        self.files = folder or read_only_files
        self._read_only = read_only_files is not None
        self.tensors = tensors
        self._on_effects = on_effects
        self._lock = asyncio.Lock()

    @property
    def number(self) -> int:
        return self.shard.number

    @property
    def epoch(self) -> int:
        return 0 if self.folder is None or self.folder.epoch is None else self.folder.epoch

    async def ask(self, messages: Sequence[Message]) -> list[Reply]:
        """Carry out messages in order and answer them.

        Raises
        ------
        ShardFenced
            If another owner has the shard: nothing of this was answered.
        RootUnusable
            If a record could not be written; it was not applied.
        """
        return [await self._carry_out(message) for message in messages]

    async def _carry_out(self, message: Message) -> Reply:
        async with self._lock:
            decision = self.shard.decide(message)
            if self._read_only and decision.records:
                raise NotDeployed("the repository was opened without a cluster, to be read only: pass client=...")
            if self.folder is not None:
                if decision.records:
                    rows = [record.to_json() for record in decision.records]
                    frees = isinstance(message, _FREEING)
                    await asyncio.to_thread(self.folder.append, rows, flush=decision.flush, frees=frees)
                elif decision.check:
                    await asyncio.to_thread(self.folder.append, (), flush=decision.flush)
            effects = [self.shard.apply(record) for record in decision.records]
        for effect in effects:
            await self.carry_out(effect)
        return decision.reply

    async def carry_out(self, effects: Effects) -> None:
        """Free tensors and files, and hand on what concerns others."""
        for (model_id, attempt), numbers in effects.freed.items():
            self.tensors.free(model_id, attempt, numbers)
        if effects.segments and self.folder is not None:
            await asyncio.to_thread(self.folder.delete, effects.segments)
        self._on_effects(self, effects)

    async def refer(self, message: Refer) -> tuple[Reply, dict[int, Array]]:
        """Reserve tensors and read them: once they are reserved, nothing deletes them."""
        reply = await self._carry_out(message)
        if not isinstance(reply, Reserved):
            return reply, {}
        return reply, await self.read(message.owner, reply.attempt, message.numbers)

    async def read(self, model_id: ModelId, attempt: Attempt, numbers: frozenset[int]) -> dict[int, Array]:
        """Return tensors of one segment, read-only, by number.

        Raises
        ------
        CorruptRecord
            If the segment is damaged, or one of them is not there.
        """
        try:
            found = await asyncio.to_thread(self.tensors.read, [(model_id, attempt, number) for number in numbers])
        except KeyError as error:
            raise CorruptRecord(
                f"tensors of {model_id!r} that its shard {self.number} knows are not there: run daskevo verify",
                model_id=model_id,
                shard=self.number,
            ) from error
        return {number: found[model_id, attempt, number] for number in numbers}

    async def check(self, model_id: ModelId, attempt: Attempt, numbers: frozenset[int]) -> None:
        """Compare tensors with their checksums, on the disk where there is one (not in the cache).

        Raises
        ------
        CorruptRecord, RootUnusable
            If they are not what was written.
        """
        files = self.files
        if files is None:
            await self.read(model_id, attempt, numbers)
            return

        def look() -> None:
            segment = files.open_segment(model_id, attempt)
            lacking = numbers - segment.entries.keys()
            if lacking:
                raise CorruptRecord(f"{segment.path} lacks tensors {sorted(lacking)[:5]}", model_id=model_id)
            segment.read(numbers, mapped=True)

        await asyncio.to_thread(look)

    async def put(self, message: Put, header: Sequence[Any], block: Any) -> Reply:
        """Store a model's own tensors, stage and publish it.

        Raises
        ------
        CorruptRecord
            If the tensors are not those that the record names.
        """
        record = message.record
        arrays = await asyncio.to_thread(_checked, record, header, block)
        looked = self.shard.decide(message)
        if isinstance(looked.reply, Refused) or not looked.records:
            return await self._carry_out(message)
        if arrays:
            message = replace(message, file_bytes=await asyncio.to_thread(self._store, record, arrays))
        named = False
        try:
            reply = await self._carry_out(message)
            named = not isinstance(reply, Refused)
        finally:
            await self._forget_unnamed(record.model_id, record.attempt, record.own, named)
        return reply

    def _store(self, record: ModelRecord, arrays: dict[int, Array]) -> int | None:
        self.tensors.put(record.model_id, record.attempt, arrays)
        if self.folder is None:
            return None
        return self.folder.segment_path(record.model_id, record.attempt).stat().st_size

    async def _forget_unnamed(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int], named: bool) -> None:
        """Take back what `put` stored if no record names it; a fenced owner leaves it to its successor's audit."""
        if named or (model_id, attempt) in self.shard.state.references.alive:
            return
        self.tensors.free(model_id, attempt, numbers)
        if self.folder is not None:
            with contextlib.suppress(ShardFenced):
                await asyncio.to_thread(self.folder.delete, [(model_id, attempt)])

    def adopt(self) -> None:
        """Take the segments of the living into the tiers; blocks on the disk."""
        if not isinstance(self.tensors, DurableTensors):
            return
        for (model_id, attempt), mask in self.shard.state.references.alive.items():
            try:
                self.tensors.adopt(model_id, attempt, numbers_in(mask))
            except RepositoryError as error:
                # One damaged file must not keep the shard's other models away; verify names it.
                logger.warning("daskevo: a segment of shard %d can't be read: %s", self.number, error)

    def close(self) -> None:
        """Stop owning the shard; the next owner opens it as if this one had died."""
        for (model_id, attempt), mask in self.shard.state.references.alive.items():
            self.tensors.free(model_id, attempt, numbers_in(mask))
        if self.folder is not None:
            self.folder.close()


class Summary(NamedTuple):
    """What the prefix index and the statistics know of a model: vertex ids, bytes of all its tensors."""

    ids: tuple[VertexId, ...]
    nbytes: int


def summary_of(record: ModelRecord) -> Summary:
    """Read a published model's architecture."""
    graph = record.architecture
    return Summary(graph.ids, graph.nbytes)


def open_shard(folder: ShardFolder | None, number: int, generation: int, floor: Tick) -> Shard:
    """Open a shard, blocking on the disk: read its state, write it as the head of a new journal, serve.

    Raises
    ------
    ShardFenced, RepositoryTaken, ShardDamaged, RootUnusable
        As :meth:`daskevo.store.shard_folder.ShardFolder.open` and :class:`daskevo.ownership.shard.Shard`.
    """
    if folder is None:
        return Shard(number, generation, floor=floor)
    opening = folder.open(generation)
    try:
        shard = Shard(number, generation, [record_from_json(row) for row in opening.records], floor)
    except CorruptRecord as error:
        raise damaged(folder.path, error) from error
    folder.serve(record.to_json() for record in shard.head())
    return shard


def _checked(record: ModelRecord, header: Sequence[Any], block: Any) -> dict[int, Array]:
    entries: tuple[Entry, ...] = parse_header(list(header), np.asarray(block).nbytes)
    brought = {entry.number: (entry.spec, entry.digest) for entry in entries}
    named: dict[int, tuple[TensorSpec, str]] = {
        number: (spec, record.owner_map.entries[number].digest) for number, spec in record.own.items()
    }
    if brought != named:
        wrong = sorted(number for number in brought.keys() | named.keys() if brought.get(number) != named.get(number))
        raise CorruptRecord(
            f"the put of {record.model_id!r} brings other tensors than its record names, numbers {wrong[:5]}",
            model_id=record.model_id,
        )
    return unpack(list(header), block)


def published(shard: Shard) -> Mapping[ModelId, ModelRecord]:
    """Return the records of a shard's published models."""
    return {model_id: model.record for model_id, model in shard.state.models.items() if model.state == "published"}
