"""One shard as its provider serves it: the state machine behind a lock, its journal and its tensors.

Each message goes through the steps of the protocol in this order: decide, append, flush where required, check the
epoch, apply, carry out the effects, answer. The lock is held until the records are flushed and applied, so a message
that waits for it never sees state that is not flushed.

A record in the journal must never stay without its effect. The steps await at these places only: appending, flushing
and checking in a thread (`_change`); freeing tensors and deleting files in threads (`carry_out`); and after an abort or
a put, removing data that no record names (`_forget_unnamed`). All of them run in tasks of their own, which no
time limit or cancellation of a caller reaches. If the event loop itself ends in between, or a record can't be applied,
the shard is given up: its next opening reads from the journal which records are in effect.
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
from daskevo.provider.upload_buffer import UNLIMITED_BUDGET, UploadBuffers
from daskevo.store.segment import Segment
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import damaged
from daskevo.store.tiers import DurableTensors, SpillingTensors, Tensors
from daskevo.types import JSON, Attempt, ModelId, TensorSpec, Tick
from daskevo.wire.to_the_end import to_the_end

Array = np.ndarray[Any, Any]

_FREEING = (Abort, Drop, DropAttempt, FinishRetirement, Release, ReleaseLabel, Retire)
"""Messages that free space. They may use the journal's reserve, so that models can be retired on a full disk."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ServedShard:
    """A shard that this process owns and serves.

    Parameters
    ----------
    shard:
        Its state machine.
    folder:
        Its folder, opened and served; None for a repository in memory.
    tensors:
        Tensors of all shards of this provider.
    on_effects:
        Called with the shard and the effects of each applied record, for those beyond files and tensors.
    read_only_files:
        The folder of a shard that is only inspected, not owned: nothing is changed.
    uploads:
        Tensors that writers are sending to this provider.
    outgoing:
        Tensors that this provider is sending to readers.
    quota:
        The provider's quota.
    """

    def __init__(
        self,
        shard: Shard,
        folder: ShardFolder | None,
        tensors: Tensors,
        on_effects: Callable[[ServedShard, Effects], None],
        read_only_files: ShardFolder | None = None,
        uploads: UploadBuffers | None = None,
        outgoing: Outgoing | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.shard = shard
        self.folder = folder
        self.files = folder or read_only_files
        self._read_only = read_only_files is not None
        self.tensors = tensors
        self._on_effects = on_effects
        self.uploads = uploads or UploadBuffers(tensors)
        self.outgoing = outgoing or Outgoing(UNLIMITED_BUDGET.leaving)
        self.quota = quota or Quota(None, 1, lambda: 1, lambda: 0)
        self._lock = asyncio.Lock()
        self.marking = asyncio.Lock()
        """Held while the marks of the shard's lost tensors are read, changed and written."""
        self.asked = 0
        """Number of messages about the shard since it is served here."""
        self._let_gone = False
        """Whether the tensors are freed; a later opening of the shard may have loaded them again under the same keys,
        so this object must free nothing more."""

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
            If another provider owns the shard: none of the messages is answered.
        RootUnusable
            If a record could not be written; it was not applied.
        """
        # A message of its own gains nothing: it is checked once either way.
        if len(messages) > 1 and (answered := await self._answer(messages)) is not None:
            return answered
        return [await to_the_end(self._carry_out(message)) for message in messages]

    async def _answer(self, messages: Sequence[Message]) -> list[Reply] | None:
        """Answer messages that change nothing, with one check of the epoch for all; None if one of them changes state.

        Nothing has been carried out then, and each message has to be decided again.
        """
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
        """Take a snapshot for audit and `verify`, in a thread; messages to this shard wait meanwhile."""
        async with self._lock:
            return await asyncio.to_thread(self.shard.snapshot, files)

    async def _carry_out(self, message: Message) -> Reply:
        async with self._lock:
            decision = self.shard.decide(message)
            if self._read_only and decision.records:
                raise NotDeployed("the repository was opened without a cluster, to be read only: pass client=...")
            effects = await self._change(decision, frees=isinstance(message, _FREEING))
        # Whatever the verdict, what has arrived for its put is of no use any more.
        if isinstance(message, Abort):
            self.uploads.forget(self.number, message.model, message.attempt)
        for effect in effects:
            await self.carry_out(effect)
        if isinstance(message, Abort) and drops_all((message.model, message.attempt), decision.reply):
            # The writer may have died between writing the file and sending the put: no record names that file.
            await self._forget_unnamed(message.model, message.attempt, (), named=False)
        return decision.reply

    async def _change(self, decision: Decision, *, frees: bool) -> list[Effects]:
        """Append, flush, check the epoch and apply; journal and state agree when this returns."""
        if self.folder is not None and (decision.records or decision.check):
            rows = [record.to_json() for record in decision.records]
            try:
                await asyncio.to_thread(self.folder.append, rows, flush=decision.flush, frees=frees)
            except asyncio.CancelledError:
                # Whether the thread has written the records is not known here, so the state may lag behind the
                # journal. `to_the_end` shields from callers, so only the end of the event loop comes here.
                self.folder.give_up("the event loop ended while they were written")
                raise
        try:
            return [self.shard.apply(record) for record in decision.records]
        except BaseException as error:
            if self.folder is None:
                raise
            raise self.folder.give_up(f"they could not be applied ({type(error).__name__}: {error})") from error

    async def renew(self) -> bool:
        """Replace a long journal by one that starts with the present state; messages wait meanwhile.

        Returns
        -------
        Whether the journal was long, and has been replaced.

        Raises
        ------
        ShardFenced
            If another provider owns the shard.
        RootUnusable
            If there is no space: the shard goes on with the old journal.
        """
        folder = self.folder
        if folder is None or not folder.is_long:
            return False

        async def work() -> None:
            async with self._lock:
                head = self.shard.head()
                await asyncio.to_thread(folder.renew, (record.to_json() for record in head))

        # Not cancellable: the lock would be released while the thread still copies the state, and a record appended
        # to the old journal then would be lost.
        await to_the_end(work())
        return True

    async def carry_out(self, effects: Effects) -> None:
        """Report effects to the host, then free tensors and delete files.

        The host comes first, so that a retired model leaves the index and gives up its references even if its file
        can't be deleted. The next audit finds such a file, since no record names it.
        """
        self._on_effects(self, effects)
        if effects.freed and isinstance(self.tensors, SpillingTensors):
            await asyncio.to_thread(self._free, effects.freed)  # spilled tensors are files, whose deletion blocks
        else:
            self._free(effects.freed)
        await self._delete(effects.segments)

    async def _delete(self, segments: Sequence[tuple[ModelId, Attempt]], *, temporary: bool = False) -> None:
        """Delete files that no record names; leave those that can't be deleted to the next audit."""
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
        """Return specification and digest of each tensor that an attempt stored for a model, by number."""
        kept = self._kept(model_id, attempt)
        return {} if kept is None else named_in(kept.record)

    def _kept(self, model_id: ModelId, attempt: Attempt) -> Model | Staged | None:
        """Return the model that an attempt published or staged, if it is known."""
        state = self.shard.state
        model = state.models.get(model_id)
        if model is not None and model.record.attempt == attempt:
            return model
        return state.staged.get(model_id, {}).get(attempt)

    async def reading(self, model_id: ModelId, work: Callable[[], T]) -> T:
        """Run `work`, which reads a model's tensors, in a thread.

        Raises
        ------
        CorruptRecord
            If the segment is damaged, or a tensor is missing.
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
        """Return tensors of one segment, read-only, by number; raise the errors of `reading`."""
        keys = [(model_id, attempt, number) for number in numbers]
        found = await self.reading(model_id, lambda: self.tensors.read(keys)) if keys else {}
        return {number: found[model_id, attempt, number] for number in numbers}

    async def segment(self, model_id: ModelId, attempt: Attempt, numbers: Sequence[int]) -> Segment:
        """Return the open segment that holds tensors, of a repository with a root; raise the errors of `reading`."""
        assert isinstance(self.tensors, DurableTensors)
        segments = self.tensors.segments
        return await self.reading(model_id, lambda: segments.segment(model_id, attempt, numbers))

    async def damage(self, model_id: ModelId, attempt: Attempt, *, mend: bool) -> Damage:
        """Compare living tensors with their records, both in memory, as readers get them, and on the disk.

        Parameters
        ----------
        mend:
            Serve readers from the disk where the copy in memory is damaged and the one on the disk is not.
        """
        while True:
            alive = self._alive(model_id, attempt)
            named = self.own(model_id, attempt)
            known = {number: named.get(number) for number in alive}
            found = await asyncio.to_thread(damage_of, self.tensors, self.files, (model_id, attempt), known)
            # A tensor freed during the comparison would look damaged, so compare again. Tensors of an attempt are only
            # ever freed, never added, so the loop ends.
            if self._alive(model_id, attempt) == alive:
                break
        if found.served_wrong and mend:
            try:
                await to_the_end(self._serve_from_disk(model_id, attempt, found.gone))
            except RepositoryError as error:
                found.unread = error.message
        return found

    async def _serve_from_disk(self, model_id: ModelId, attempt: Attempt, gone: Iterable[int]) -> None:
        """Load a segment's living tensors from the file again; the lock keeps them from being freed meanwhile."""
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
            If the tensors have not arrived here: nothing was changed.
        CorruptRecord
            If they differ from those that the record names.
        QuotaReached
            If the model would exceed the quota: nothing was stored, and the writer's file is deleted.
        """
        return await to_the_end(self._put(message, brought))

    async def _put(self, message: Put, brought: Brought) -> Reply:
        record = message.record
        # Decided without the lock, only to spare refused and repeated puts the work; `_carry_out` decides again.
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
            self.uploads.forget(self.number, record.model_id, record.attempt)
            await self._forget_unnamed(record.model_id, record.attempt, record.own, named)
        return reply

    @property
    def place(self) -> str:
        """Where tensors of this shard are stored, for messages to users."""
        return "memory" if self.folder is None else str(self.folder.path)

    async def _forget_unnamed(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int], named: bool) -> None:
        """Remove data that `put` stored if no record names it; a fenced owner leaves it to the next owner's audit."""
        if named or self._let_gone or (model_id, attempt) in self.shard.state.references.alive:
            return
        self.tensors.free(model_id, attempt, numbers)
        with contextlib.suppress(ShardFenced):
            await self._delete([(model_id, attempt)], temporary=True)

    def adopt(self, step: Callable[[], object] = lambda: None, turn: threading.Lock | None = None) -> None:
        """Register the segments of living models with the storage tiers; blocks on the disk, without holding `turn`.

        `step` is called for each segment, and again for each file that is opened.

        Only files that also hold dead tensors are opened. Of all others the record says what they contain, and opening
        a hundred thousand files would take minutes. Damage in them is reported to their readers, and by `verify`.
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
                # One damaged file must not keep the shard's other models from being served; verify reports it.
                unread.append(error)
        if unread:
            many = "a segment" if len(unread) == 1 else f"{len(unread)} segments"
            logger.warning("daskevo: %s of shard %d can't be read: %s", many, self.number, unread[0])

    async def end(self) -> None:
        """Close after running writes have ended, without blocking the event loop on the disk."""
        async with self._lock:
            self._forget_uploads()
            if self.folder is not None:
                await asyncio.to_thread(self.folder.close)
            await asyncio.to_thread(self._let_go)

    def close(self) -> None:
        """Stop owning the shard, at once; the next owner opens it as after a crash. Must run on the event loop."""
        self._forget_uploads()
        self.close_unserved()

    def close_unserved(self) -> None:
        """Close a shard that was never served, from any thread: no writer has sent anything to it."""
        self._let_go()
        if self.folder is not None:
            self.folder.close()

    def _forget_uploads(self) -> None:
        # Not in `_let_go`, which runs in threads: this wakes writers that wait for memory, on the event loop.
        if not self._let_gone:
            self.uploads.forget_shard(self.number)

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
    """Open a shard, blocking on the disk: read its state and write it as the head of a new journal.

    `step` is called for each record, and may raise to give up the opening. `turn` is held while this computes.

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
