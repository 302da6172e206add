"""One shard as its provider serves it: the state machine behind a lock, its journal, its tensors.

The order at the edge is the protocol's: decide, append, flush where it must be, check the epoch, apply, carry out the
effects, answer. Whoever waits for the lock sees nothing that is not flushed.

A record in the journal and its effect are one thing. Between them there is one `await`, that of the thread which
appends, flushes and checks (`_change`); between applied and carried out those of the threads that free tensors and
delete files (`carry_out`), and after an abort or a put that of the thread which takes back what no record names
(`_forget_unnamed`). All of them stand in tasks of their own that nobody's time limit or cancellation reaches. Where the
event loop itself ends in between, or a record can't be applied, the shard is given up: opening it tells what counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from daskevo.errors import CorruptRecord, NotDeployed, RepositoryError, RootUnusable, ShardFenced
from daskevo.protocol.audit import drops_all
from daskevo.protocol.messages import (
    Abort,
    Drop,
    DropAttempt,
    FinishRetirement,
    Message,
    Put,
    Release,
    ReleaseLabel,
    Retire,
)
from daskevo.protocol.records import Staged, records_from_json
from daskevo.protocol.references import mask_of, numbers_in
from daskevo.protocol.replies import Refused, Reply
from daskevo.protocol.shard import Decision, Shard
from daskevo.protocol.snapshot import FileView, ShardSnapshot
from daskevo.protocol.state import Effects, Model
from daskevo.provider.damage import Damage, damage_of
from daskevo.provider.outgoing_messages import Outgoing
from daskevo.provider.put_receiver import Brought, named_in, take_in
from daskevo.provider.quota import Quota
from daskevo.provider.upload_buffer import UNLIMITED_BUDGET, Landings
from daskevo.store.segment import Segment
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import damaged
from daskevo.store.tiers import DurableTensors, SpillingTensors, Tensors
from daskevo.types import JSON, Attempt, ModelId, TensorSpec, Tick
from daskevo.wire.to_the_end import to_the_end

Array = np.ndarray[Any, Any]

_FREEING = (Abort, Drop, DropAttempt, FinishRetirement, Release, ReleaseLabel, Retire)
"""What gives back room: on a full disk too, or nothing could be retired there."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


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
    landings:
        What writers are sending to this provider.
    outgoing:
        What it is sending to readers.
    quota:
        Of this provider.
    """

    def __init__(
        self,
        shard: Shard,
        folder: ShardFolder | None,
        tensors: Tensors,
        on_effects: Callable[[ServedShard, Effects], None],
        read_only_files: ShardFolder | None = None,
        landings: Landings | None = None,
        outgoing: Outgoing | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.shard = shard
        self.folder = folder
        self.files = folder or read_only_files
        self._read_only = read_only_files is not None
        self.tensors = tensors
        self._on_effects = on_effects
        self.landings = landings or Landings(tensors)
        self.outgoing = outgoing or Outgoing(UNLIMITED_BUDGET.leaving)
        self.quota = quota or Quota(None, 1, lambda: 1, lambda: 0)
        self._lock = asyncio.Lock()
        self.marking = asyncio.Lock()
        """Held while the marks of its lost tensors are read, changed and written."""
        self.asked = 0
        """Messages about it, since it is served here."""
        self._let_gone = False
        """Whether its tensors may be another opening's by now: nothing of them is freed from here any more."""

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
        if len(messages) > 1 and (answered := await self._answer(messages)) is not None:
            return answered
        return [await to_the_end(self._carry_out(message)) for message in messages]

    async def _answer(self, messages: Sequence[Message]) -> list[Reply] | None:
        """Answer messages none of which changes anything, with one look at the disk; None if one does."""
        async with self._lock:
            decisions = [self.shard.decide(message) for message in messages]
            for message, decision in zip(messages, decisions, strict=True):
                aborts = isinstance(message, Abort) and drops_all((message.model, message.attempt), decision.reply)
                if decision.records or aborts:
                    return None
            if self.folder is not None and any(decision.check for decision in decisions):
                await asyncio.to_thread(self.folder.append, (), flush=any(decision.flush for decision in decisions))
        return [decision.reply for decision in decisions]

    async def snapshot(self, files: tuple[FileView, ...] | None) -> ShardSnapshot:
        """Return what audit and `verify` look at; messages of this shard wait meanwhile, the event loop does not."""
        async with self._lock:
            return await asyncio.to_thread(self.shard.snapshot, files)

    async def _carry_out(self, message: Message) -> Reply:
        async with self._lock:
            decision = self.shard.decide(message)
            if self._read_only and decision.records:
                raise NotDeployed("the repository was opened without a cluster, to be read only: pass client=...")
            effects = await self._change(decision, frees=isinstance(message, _FREEING))
        if isinstance(message, Abort):
            self.landings.forget(self.number, message.model, message.attempt)
        for effect in effects:
            await self.carry_out(effect)
        if isinstance(message, Abort) and drops_all((message.model, message.attempt), decision.reply):
            # Its writer may have died after it wrote the file, and before it said so.
            await self._forget_unnamed(message.model, message.attempt, (), named=False)
        return decision.reply

    async def _change(self, decision: Decision, *, frees: bool) -> list[Effects]:
        """Append, flush, check, apply: what is in the journal is known here when this returns."""
        if self.folder is not None and (decision.records or decision.check):
            rows = [record.to_json() for record in decision.records]
            try:
                await asyncio.to_thread(self.folder.append, rows, flush=decision.flush, frees=frees)
            except asyncio.CancelledError:
                self.folder.give_up("the event loop ended while they were written")
                raise
        try:
            return [self.shard.apply(record) for record in decision.records]
        except BaseException as error:
            if self.folder is None:
                raise
            raise self.folder.give_up(f"they could not be applied ({type(error).__name__}: {error})") from error

    async def renew(self) -> bool:
        """Let the journal start anew from the present state, if it is long; messages wait meanwhile.

        Raises
        ------
        ShardFenced
            If another owner has the shard.
        RootUnusable
            If there is no room: the shard goes on as before.
        """
        folder = self.folder
        if folder is None or not folder.is_long:
            return False

        async def work() -> None:
            async with self._lock:
                head = self.shard.head()
                await asyncio.to_thread(folder.renew, (record.to_json() for record in head))

        # Once begun it ends, whoever is cancelled: a record that is appended beside it would be lost.
        await to_the_end(work())
        return True

    async def carry_out(self, effects: Effects) -> None:
        """Hand on what concerns others, then free tensors and files.

        In this order: a model that is retired is matched no more, and its references go, whatever becomes of its file.
        One that can't be deleted is found by the next audit, since no record names it.
        """
        self._on_effects(self, effects)
        if effects.freed and isinstance(self.tensors, SpillingTensors):
            await asyncio.to_thread(self._free, effects.freed)  # which may remove files
        else:
            self._free(effects.freed)
        await self._delete(effects.segments)

    async def _delete(self, segments: Sequence[tuple[ModelId, Attempt]], *, temporary: bool = False) -> None:
        """Delete files that no record names; those that can't go now are left to the next audit."""
        if not segments or self.folder is None:
            return
        try:
            await asyncio.to_thread(partial(self.folder.delete, segments, temporary=temporary))
        except RootUnusable as error:
            logger.warning("daskevo: files of shard %d are left to the next audit: %s", self.number, error)

    def _free(self, freed: Mapping[tuple[ModelId, Attempt], Iterable[int]]) -> None:
        if self._let_gone:
            return
        for (model_id, attempt), numbers in freed.items():
            self.tensors.free(model_id, attempt, numbers)

    def own(self, model_id: ModelId, attempt: Attempt) -> dict[int, tuple[TensorSpec, str]]:
        """Return what an attempt stored for a model, by number: what each tensor is, and its digest."""
        kept = self._kept(model_id, attempt)
        return {} if kept is None else named_in(kept.record)

    def _kept(self, model_id: ModelId, attempt: Attempt) -> Model | Staged | None:
        """Return what is known of the model that an attempt published or staged."""
        state = self.shard.state
        model = state.models.get(model_id)
        if model is not None and model.record.attempt == attempt:
            return model
        return state.staged.get(model_id, {}).get(attempt)

    async def reading(self, model_id: ModelId, work: Callable[[], T]) -> T:
        """Run what reads a model's tensors in a thread.

        Raises
        ------
        CorruptRecord
            If the segment is damaged, or one of them is not there.
        """
        try:
            return await asyncio.to_thread(work)
        except KeyError as error:
            raise CorruptRecord(
                f"tensors of {model_id!r} that its shard {self.number} knows are not there: run daskevo verify",
                model_id=model_id,
                shard=self.number,
            ) from error

    async def read(self, model_id: ModelId, attempt: Attempt, numbers: frozenset[int]) -> dict[int, Array]:
        """Return tensors of one segment, read-only, by number; raises as `reading` does."""
        keys = [(model_id, attempt, number) for number in numbers]
        found = await self.reading(model_id, lambda: self.tensors.read(keys)) if keys else {}
        return {number: found[model_id, attempt, number] for number in numbers}

    async def segment(self, model_id: ModelId, attempt: Attempt, numbers: Sequence[int]) -> Segment:
        """Return the open segment that holds tensors, of a repository with a root; raises as `reading` does."""
        assert isinstance(self.tensors, DurableTensors)
        segments = self.tensors.segments
        return await self.reading(model_id, lambda: segments.segment(model_id, attempt, numbers))

    async def damage(self, model_id: ModelId, attempt: Attempt, *, mend: bool) -> Damage:
        """Compare living tensors with what the records say: as readers get them, in memory, and on the disk.

        Parameters
        ----------
        mend:
            Have readers served from the disk where that is whole, and memory is not.
        """
        while True:
            alive = self._alive(model_id, attempt)
            named = self.own(model_id, attempt)
            known = {number: named.get(number) for number in alive}
            found = await asyncio.to_thread(damage_of, self.tensors, self.files, (model_id, attempt), known)
            # What was freed while it was looked at is no damage. Tensors only ever die: this ends.
            if self._alive(model_id, attempt) == alive:
                break
        if found.served_wrong and mend:
            try:
                await to_the_end(self._serve_from_disk(model_id, attempt, found.gone))
            except RepositoryError as error:
                found.unread = error.message
        return found

    async def _serve_from_disk(self, model_id: ModelId, attempt: Attempt, gone: Iterable[int]) -> None:
        """Take in anew, from the file, what lives of a segment; none of it dies meanwhile."""
        assert isinstance(self.tensors, DurableTensors)
        async with self._lock:
            whole = self._alive(model_id, attempt).difference(gone)
            if whole and not self._let_gone:
                self.tensors.forget(model_id, attempt, whole)
                await asyncio.to_thread(self.tensors.adopt, model_id, attempt, whole)

    def _alive(self, model_id: ModelId, attempt: Attempt) -> frozenset[int]:
        return numbers_in(self.shard.state.references.alive.get((model_id, attempt), 0))

    async def put(self, message: Put, brought: Brought) -> Reply:
        """Store a model's own tensors, stage and publish it.

        Raises
        ------
        Unseen
            If the tensors aren't there: nothing was changed.
        CorruptRecord
            If they are not those that the record names.
        QuotaReached
            If the repository may not take so much: nothing was stored, and nothing is left of the writer's file.
        """
        return await to_the_end(self._put(message, brought))

    async def _put(self, message: Put, brought: Brought) -> Reply:
        record = message.record
        looked = self.shard.decide(message)
        if isinstance(looked.reply, Refused) or not looked.records:
            return await self._carry_out(message)
        with self.quota.claimed(self.number, self.place, record.model_id, record.own_bytes):
            message = replace(message, file_bytes=await asyncio.to_thread(take_in, self, record, brought))
        named = False
        try:
            reply = await self._carry_out(message)
            named = not isinstance(reply, Refused)
        finally:
            self.landings.forget(self.number, record.model_id, record.attempt)
            await self._forget_unnamed(record.model_id, record.attempt, record.own, named)
        return reply

    @property
    def place(self) -> str:
        """Where tensors of this shard go, for people."""
        return "memory" if self.folder is None else str(self.folder.path)

    async def _forget_unnamed(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int], named: bool) -> None:
        """Take back what `put` stored if no record names it; a fenced owner leaves it to its successor's audit."""
        if named or self._let_gone or (model_id, attempt) in self.shard.state.references.alive:
            return
        self.tensors.free(model_id, attempt, numbers)
        with contextlib.suppress(ShardFenced):
            await self._delete([(model_id, attempt)], temporary=True)

    def adopt(self, step: Callable[[], object] = lambda: None, turn: threading.Lock | None = None) -> None:
        """Take the segments of the living into the tiers; blocks on the disk, where `turn` is not held.

        `step` is called for each, and again for each file that is looked at.

        Only files that hold dead tensors are looked at: of all others the record says what is in them, and opening
        a hundred thousand would take minutes. What is wrong with one its readers are told, and `verify` names it.
        """
        if not isinstance(self.tensors, DurableTensors):
            return
        looked_at, unread = [], []
        with turn or contextlib.nullcontext():
            for (model_id, attempt), mask in self.shard.state.references.alive.items():
                step()
                kept = self._kept(model_id, attempt)
                if kept is not None and kept.file_bytes is not None and mask == mask_of(kept.record.own):
                    sizes = {number: spec.nbytes for number, spec in kept.record.own.items()}
                    self.tensors.segments.expect(model_id, attempt, sizes, kept.file_bytes)
                else:
                    looked_at.append((model_id, attempt, mask))
        for model_id, attempt, mask in looked_at:
            step()
            try:
                self.tensors.adopt(model_id, attempt, numbers_in(mask))
            except RepositoryError as error:
                # One damaged file must not keep the shard's other models away; verify names it.
                unread.append(error)
        if unread:
            many = "a segment" if len(unread) == 1 else f"{len(unread)} segments"
            logger.warning("daskevo: %s of shard %d can't be read: %s", many, self.number, unread[0])

    async def end(self) -> None:
        """Close once what is being written is written; the event loop need not wait for the disk."""
        async with self._lock:
            self._forget_landings()
            if self.folder is not None:
                await asyncio.to_thread(self.folder.close)
            await asyncio.to_thread(self._let_go)

    def close(self) -> None:
        """Stop owning the shard; the next owner opens it as if this one had died. On the event loop."""
        self._forget_landings()
        self.close_unserved()

    def close_unserved(self) -> None:
        """Close a shard that was never served, from any thread: nothing has been sent to it."""
        self._let_go()
        if self.folder is not None:
            self.folder.close()

    def _forget_landings(self) -> None:
        # Not in `_let_go`, which runs in threads: writers that wait for the room are woken by it.
        if not self._let_gone:
            self.landings.forget_shard(self.number)

    def _let_go(self) -> None:
        if self._let_gone:
            return
        for (model_id, attempt), mask in self.shard.state.references.alive.items():
            self.tensors.free(model_id, attempt, numbers_in(mask))
        self._let_gone = True


def open_shard(
    folder: ShardFolder | None,
    number: int,
    generation: int,
    floor: Tick,
    step: Callable[[], object] = lambda: None,
    turn: threading.Lock | None = None,
) -> Shard:
    """Open a shard, blocking on the disk: read its state, write it as the head of a new journal, serve.

    `step` is called for each record, and may raise: the shard is not served then. `turn` is held by what computes.

    Raises
    ------
    ShardFenced, RepositoryTaken, ShardDamaged, RootUnusable
        As :meth:`daskevo.store.shard_folder.ShardFolder.open` and :class:`daskevo.protocol.shard.Shard`.
    """
    if folder is None:
        return Shard(number, generation, floor=floor)
    opening = folder.open(generation, turn)

    def rows() -> Iterator[JSON]:
        for row in opening.records:
            step()
            yield row

    try:
        try:
            with turn or contextlib.nullcontext():
                shard = Shard(number, generation, records_from_json(rows()), floor)
        except CorruptRecord as error:
            raise damaged(folder.path, error) from error
        if shard.lost:
            logger.warning(
                "daskevo: %d models of shard %d have records that can't be used, and are lost or lack tensors (%s). "
                "Run daskevo verify; the other models are served",
                len(shard.lost),
                number,
                "; ".join(f"{model_id}: {found}" for model_id, found in sorted(shard.lost.items())[:5]),
            )
        with turn or contextlib.nullcontext():
            head = [record.to_json() for record in shard.head()]
        folder.serve(head)
    except BaseException:
        folder.close()
        raise
    return shard
