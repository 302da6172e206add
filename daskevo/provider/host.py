"""The shards of one provider: opening, serving, closing them when they move, giving them up when fenced.

This module does not import distributed; the session brings the transport. So the same host runs in a Dask worker and,
without a cluster, in the repair of a root. The operations that other processes call are in `handlers`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from daskevo.client.session import Session
from daskevo.deploy.settings import MemoryBudget
from daskevo.errors import (
    ClusterError,
    CorruptRecord,
    RepositoryError,
    RootUnusable,
    ShardFenced,
)
from daskevo.protocol.state import Effects
from daskevo.provider.active_messages import ActiveMessages
from daskevo.provider.call_counts import Tally
from daskevo.provider.maintenance import audit_opened, keep_order
from daskevo.provider.outgoing_messages import Outgoing
from daskevo.provider.published_models import PublishedModels, Summary, published, summary_of
from daskevo.provider.quota import Quota
from daskevo.provider.retire import Retirements
from daskevo.provider.served_shard import ServedShard, open_shard
from daskevo.provider.shard_openings import SHORT_TURNS, Openings, ShardOpening
from daskevo.provider.upload_buffer import UNLIMITED_BUDGET, UploadBuffers
from daskevo.store.losses import Loss
from daskevo.store.root import Root
from daskevo.store.shard_state import damaged
from daskevo.store.tiers import Tensors
from daskevo.types import ModelId, Tick

logger = logging.getLogger(__name__)

ENDING_S = 5.0
"""Longest time that a shard which moves to another provider waits for running messages, in seconds. Messages that take
longer find the shard closed."""
CLOSING_S = 5.0
"""Longest wait for cancelled background work, in seconds."""


class ShardHost:
    """The shards of one provider.

    Parameters
    ----------
    name:
        Name of the worker in the coordinator's table.
    root:
        The repository's folder; None for a repository in memory.
    tensors:
        Storage of the tensors of all shards.
    session:
        Sends messages to other shards and the coordinator.
    budget:
        Limits of tensors and messages in this process' memory, in bytes.
    quota_bytes:
        Limit of all tensors of the repository; None: no quota.
    shards_in_all:
        Number of shards of the repository, over which the quota is divided.
    alone:
        Whether this process is a provider and nothing else.
    """

    def __init__(
        self,
        name: str,
        root: Root | None,
        tensors: Tensors,
        session: Session,
        budget: MemoryBudget = UNLIMITED_BUDGET,
        *,
        quota_bytes: int | None = None,
        shards_in_all: int = 1,
        alone: bool = False,
    ) -> None:
        self.name = name
        self.root = root
        self.tensors = tensors
        self.session = session
        self.uploads = UploadBuffers(tensors, budget)
        self.outgoing = Outgoing(budget.leaving)
        self.quota = Quota(quota_bytes, shards_in_all, lambda: len(self.shards), lambda: tensors.stored_bytes)
        self.models = PublishedModels()
        self.tally = Tally()
        self.shards: dict[int, ServedShard] = {}
        self._under_way = ActiveMessages()
        self._closing: dict[int, asyncio.Future[None]] = {}
        self._forgetting = asyncio.Lock()
        """One thread at a time removes models from the index: each more computing thread delays the event loop."""
        self.lost_in_memory: dict[int, list[Loss]] = {}
        """Lost tensors that a repair found, by shard, of a repository without a root."""
        self.openings = Openings(self._open, alone=alone)
        self._failing: dict[int, str] = {}
        self.background: set[asyncio.Task[None]] = set()
        self.retirements = Retirements(session, self._is_served, self.fenced, self._spawn)
        self._closed = False
        self._auditing = asyncio.Lock()
        """Audits of newly opened shards run one after the other."""

    # -- opening and closing -------------------------------------------------------------------------------------------

    async def open_shards(
        self, shards: Sequence[int], generation: int, floors: Sequence[Any], patience_s: float = math.inf
    ) -> dict[str, Any]:
        """Open shards, several at a time, in threads; openings that already run go on.

        Parameters
        ----------
        patience_s:
            Time after which the coordinator wants an answer, in seconds. An opening that it does not ask for again is
            given up: the shard has been assigned to another provider, whose epoch counts.

        Returns
        -------
        ``{"opened": [[shard, epoch], ...], "failed": [[shard, kind of error, message], ...], "under_way": [[shard,
        number of the opening, records and models done], ...]}``. Without a limit in `patience_s`, ``under_way`` is
        empty.
        """
        found = await self.openings.ask(
            shards, generation, {number: Tick.parse(tick) for number, tick in floors}, patience_s
        )
        failed = []
        for number, error in found["failed"]:
            if isinstance(error, CorruptRecord) and self.root is not None:
                error = damaged(self.root.shard(number).path, error)
            failed.append([number, type(error).__name__, error.message])
        self._say_failed([number for number, _ in found["opened"]], failed)
        return {**found, "failed": failed}

    def _say_failed(self, opened: Sequence[int], failed: Sequence[Sequence[Any]]) -> None:
        """Log shards that can't be opened, once for each kind of error: the coordinator retries all the time."""
        new: dict[str, list[tuple[int, str]]] = {}
        for number, kind, message in failed:
            if self._failing.get(number) != kind:
                new.setdefault(kind, []).append((number, message))
            self._failing[number] = kind
        for troubles in new.values() if not self._closed else ():
            numbers = sorted(number for number, _ in troubles)
            logger.warning("daskevo: %s can't open shards %s: %s", self.name, numbers, min(troubles)[1])
        back = sorted(number for number in opened if self._failing.pop(number, None) is not None)
        if back:
            logger.warning("daskevo: %s has opened shards %s after all", self.name, back)

    @property
    def is_settled(self) -> bool:
        """Whether this provider has shards and is opening none."""
        return bool(self.shards) and not self.openings

    async def close_shards(self, shards: Sequence[int], generation: float = math.inf) -> None:
        """Stop serving shards that move to another provider: refuse new messages, and wait for running ones.

        Parameters
        ----------
        generation:
            Generation of the coordinator that asks. Shards opened for a later coordinator are not closed.
        """
        for number in shards:
            if number in self.shards and self.shards[number].shard.heeds(generation):
                self._leave(self.shards[number])
                await asyncio.sleep(0)  # `_leave` lists the shard's models, which blocks the event loop for a while
        # Wait also for shards that an earlier message began to close, whose sender has timed out.
        await asyncio.gather(*(asyncio.shield(self._closing[number]) for number in shards if number in self._closing))

    def _leave(self, served: ServedShard) -> None:
        """Stop serving a shard and matching its models; close it when its running messages have ended."""
        # Removed first, so that messages from here on find no shard and ask its next owner.
        del self.shards[served.number]
        models = list(published(served.shard))
        self._closing[served.number] = asyncio.ensure_future(self._close_shard(served, models))

    async def _close_shard(self, served: ServedShard, models: Sequence[ModelId]) -> None:
        try:
            with SHORT_TURNS:
                # Removing each model from the index takes time for each model: in a thread, and one shard at a time.
                async with self._forgetting:
                    await asyncio.to_thread(self._forget, models)
                await self._under_way.ended(served, ENDING_S)
                await served.end()
        finally:
            self._closing.pop(served.number, None)

    def pulse(self) -> dict[str, Any]:
        """Answer a heartbeat with the numbers of the shards served here, and news of retirements."""
        return {"shards": sorted(self.shards), "retirements": self.retirements.news()}

    def go_on_retiring(self) -> None:
        """Try at once again what retirements wait for, and continue those that nothing runs."""
        self.retirements.go_on()
        for served in self.in_order():
            self.take_up_retirements(served)

    async def _open(self, opening: ShardOpening) -> ServedShard:
        number, generation = opening.shard, opening.generation
        known = self.shards.get(number)
        if known is not None and known.shard.state.generation == generation:
            return known  # the coordinator sent the message again
        if known is not None and not known.shard.heeds(generation):
            raise ShardFenced(
                f"shard {number} was opened for a coordinator of generation {known.shard.state.generation}: "
                f"that of generation {generation} is past",
                shard=number,
            )
        if known is not None:
            self._leave(known)
        # The former opening must have freed its tensors: the next one registers them under the same keys.
        if number in self._closing:
            await asyncio.shield(self._closing[number])
        self._refuse_closed(number)
        opening.refuse_late()  # opening takes the shard from its owner, so a request given up meanwhile must not do it
        folder = None if self.root is None else self.root.shard(number)

        def read() -> tuple[ServedShard, dict[ModelId, Summary]]:
            shard = open_shard(folder, number, generation, opening.floor, opening.step, opening.turn)
            found = ServedShard(
                shard,
                folder,
                self.tensors,
                self._on_effects,
                uploads=self.uploads,
                outgoing=self.outgoing,
                quota=self.quota,
            )
            try:
                found.adopt(opening.step, opening.turn)
                with opening.turn:
                    summaries = {}
                    for model_id, record in published(shard).items():
                        summaries[model_id] = summary_of(record)
                        opening.step()
            except BaseException:
                found.close_unserved()
                raise
            return found, summaries

        served, summaries = await asyncio.get_running_loop().run_in_executor(self.openings.threads, read)
        try:
            # In a thread, since a shard may have ten thousand models. Safe without a lock: no message reaches the
            # shard before `take`, so its models can't change meanwhile.
            await asyncio.to_thread(self.models.index_shard, served.shard, summaries)
            # Both may have changed while the threads worked.
            self._refuse_closed(number)
            opening.refuse_late()
        except BaseException:
            await asyncio.to_thread(self._forget, list(summaries))
            await served.end()
            raise
        self.take(served, summaries)
        # In the background: the coordinator waits for the shard, not for deleted files and the audit.
        self._spawn(self._after_opening(served))
        return served

    def _refuse_closed(self, number: int) -> None:
        if self._closed:
            raise ShardFenced(f"{self.name} is closing", shard=number)

    def take(self, served: ServedShard, summaries: Mapping[ModelId, Summary]) -> None:
        """Start serving a shard whose models are in the index."""
        self.models.count(summaries)
        self.shards[served.number] = served

    async def _after_opening(self, served: ServedShard) -> None:
        await self._carried_out(served, served.shard.opening)
        self.take_up_retirements(served)
        async with self._auditing:
            await audit_opened(self, [served.number])

    async def _carried_out(self, served: ServedShard, effects: Effects) -> None:
        try:
            await served.carry_out(effects)
        except ShardFenced as error:
            self.fenced(served, error)

    def _forget(self, models: Iterable[ModelId]) -> None:
        """Remove models from the index."""
        for model_id in models:
            self.models.remove(model_id)

    def fenced(self, served: ServedShard, error: ShardFenced) -> None:
        """Stop serving a shard that another provider has opened, and tell the coordinator."""
        if not self._is_served(served):
            return
        logger.warning("daskevo: %s stops serving shard %d: %s", self.name, served.number, error)
        epoch = served.epoch
        self._leave(served)
        self._spawn(self._tell_fenced(served.number, epoch, error))

    async def _tell_fenced(self, number: int, epoch: int, error: ShardFenced) -> None:
        await self.session.transport.coordinator(
            "fenced", timeout_s=10.0, shard=number, provider=self.name, epoch=epoch, reason=error.message
        )

    async def close(self) -> None:
        """Stop serving all shards; the next owner continues from the journals as they are."""
        self._closed = True
        # Background work and openings end before the shards close: they still write into their journals.
        for task in list(self.background):
            task.cancel()
        if self.background:
            await asyncio.wait(list(self.background), timeout=CLOSING_S)
        await self.openings.end(CLOSING_S)
        if self._closing:
            await asyncio.wait(list(self._closing.values()), timeout=CLOSING_S)
        for served in list(self.shards.values()):
            del self.shards[served.number]
            self._forget(list(published(served.shard)))
            served.close()

    # -- background ----------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[None]] | None = None) -> None:
        if self._closed:
            work.close()  # a coroutine that is never awaited would warn
            return
        task = asyncio.get_running_loop().create_task(work)
        self.background.add(task)
        task.add_done_callback(self._done)
        if group is not None:
            group.add(task)
            task.add_done_callback(group.discard)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.background.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        if isinstance(error, (ClusterError, RepositoryError)):
            logger.info("daskevo: %s leaves work to the next audit: %s", self.name, error)
        else:
            logger.error("daskevo: background work of %s failed", self.name, exc_info=error)

    async def at_rest(self, timeout_s: float) -> None:
        """Wait until no background work is left, of a host on which `start` was not called.

        Raises
        ------
        TimeoutError
            After `timeout_s` seconds.
        """
        async with asyncio.timeout(timeout_s):
            while self.background:
                await asyncio.wait(list(self.background))

    def start(self) -> None:
        """Start background work: compiling the index, audits every ten minutes, compaction of folders."""
        self._spawn(asyncio.to_thread(self.models.index.warm))
        self._spawn(keep_order(self))

    def _on_effects(self, served: ServedShard, effects: Effects) -> None:
        if not self._is_served(served):
            return  # the next owner carries out the effects when it opens the shard, and indexes its models
        for model_id in effects.unpublished:
            self.models.remove(model_id)
        if effects.published is not None:
            model = served.shard.state.models[effects.published]
            # A later message may have retired it before this effect was carried out.
            if model.state == "published":
                self.models.add(model.record)
        self.retirements.begin(served, effects.retire)

    def take_up_retirements(self, served: ServedShard) -> None:
        """Continue retirements that nothing runs: the provider that began them has gone, or its attempt failed."""
        self.retirements.begin(served, served.shard.retiring())

    def _is_served(self, served: ServedShard) -> bool:
        return self.shards.get(served.number) is served

    async def with_shard(self, shard: int, work: Callable[[ServedShard], Coroutine[Any, Any, Any]]) -> Any:
        """Run work on a shard; return None, without running it, if this provider does not serve the shard.

        Raises
        ------
        ShardFenced
            If another provider has taken the shard meanwhile: the last records may be in effect or not.
        """
        served = self.shards.get(shard)
        if served is None:
            return None
        served.asked += 1
        try:
            with self._under_way.one(served):
                return await work(served)
        except RootUnusable as error:
            error.facts.setdefault("shard", shard)
            raise
        except ShardFenced as error:
            self.fenced(served, error)
            raise

    def in_order(self) -> list[ServedShard]:
        """Return the served shards, sorted by number."""
        return [served for _, served in sorted(self.shards.items())]
