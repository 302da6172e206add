"""Open a root without a cluster: read-only, without reservations, or for a repair, which takes the root's lease first.

Reading uses the newest complete journals, served in this process to the same session code as on a cluster. Models that
are deleted meanwhile, because a job has the root open, raise a typed error.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from distributed.core import ConnectionPool
from distributed.security import Security

from daskevo.client.directory import DAMAGED
from daskevo.client.lease_holders import REPAIR, identity_at
from daskevo.client.session import Caller, Session
from daskevo.client.verify import Verification, differences_now, verify
from daskevo.errors import CorruptRecord, NotDeployed, RootUnusable, ShardDamaged
from daskevo.protocol.audit import Difference
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder
from daskevo.protocol.records import Generation, records_from_json
from daskevo.protocol.shard import Shard
from daskevo.protocol.shard_table import Place, ShardTable
from daskevo.provider.handlers import ProviderHandlers
from daskevo.provider.host import ShardHost
from daskevo.provider.published_models import published, summary_of
from daskevo.provider.served_shard import ServedShard
from daskevo.provider.unreadable_models import leave_out
from daskevo.store.cut_off import read_whole, say_damage
from daskevo.store.lease import Holder, current_lease, take_lease
from daskevo.store.losses import Loss, read_losses
from daskevo.store.repair_lock import only_repair
from daskevo.store.root import Root
from daskevo.store.shard_state import damaged
from daskevo.store.tiers import DurableTensors
from daskevo.types import JSON, Attempt, ModelId, Tick
from daskevo.wire.transport import NoAnswer, answer, method_of, typed_error, value_of

T = TypeVar("T")

logger = logging.getLogger(__name__)

_HERE = REPAIR
_CACHE_BYTES = 64 << 20
_PATIENCE_S = 60.0


class OfflineTransport:
    """Calls to a shard host in this process, and to a minimal replacement of the coordinator.

    Parameters
    ----------
    root:
        The repository.
    generation:
        Present generation; attempts of older ones are over.
    all_over:
        Whether the attempts of this generation are over, too, because no job has the root open.
    """

    def __init__(self, root: Root, generation: int, *, all_over: bool) -> None:
        self.root = root
        self.generation = generation
        self.all_over = all_over
        self.host: ShardHost | None = None
        self.troubles: dict[int, str] = {}

    async def coordinator(self, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        methods: dict[str, Callable[..., Any]] = {
            "table": lambda: self.table().to_wire(),
            "over": self._over,
            "stats": self._stats,
        }
        if method not in methods:
            raise NotDeployed(
                f"{self.root.path} was opened without a cluster, to be read only: pass client=... to daskevo.open to "
                "change something",
                root=str(self.root.path),
            )
        return methods[method](**arguments)

    async def provider(self, address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        if self.host is None or address != _HERE:
            raise NoAnswer(address, method, "without a cluster there is this process alone")
        handler = method_of(ProviderHandlers(self.host).local_methods(), address, method)
        return value_of(await answer(method, handler, arguments))

    def is_here(self, address: str) -> bool:
        return address == _HERE

    def table(self) -> ShardTable:
        """Return the shard table, with all shards but damaged ones in this process."""
        places: dict[int, Place | None] = dict.fromkeys(range(self.root.shards), Place(_HERE, _HERE))
        places.update(dict.fromkeys(self.troubles))
        return ShardTable(0, self.generation, places, {}, self.troubles)

    def _over(self, attempts: Sequence[Any]) -> list[bool]:
        return [self.all_over or tick.generation < self.generation for tick in map(Tick.parse, attempts)]

    def _stats(self) -> dict[str, JSON]:
        return {
            "generation": self.generation,
            "shards": self.root.shards,
            "repository_id": self.root.repository_id,
            "durability": self.root.durability,
            "root": str(self.root.path),
            "live_attempts": 0,
            "unsettled": 0,
            "waiting_retirements": {},
            "unserved_shards": sorted(self.troubles),
            "lost_shards": [],
            "scopes": dict(self.root.scopes()),
        }


class OfflineConnection:
    """Read-only connection to a root without a cluster, in its state at the time of opening.

    Raises
    ------
    RootUnusable, CorruptRecord
        If it can't be read.
    """

    asynchronous = False

    def __init__(self, path: str | os.PathLike[str], timeout_s: float) -> None:
        self.root = Root.open(path)
        lease = current_lease(self.root)
        # If there is a lease, its holder may have live attempts, so attempts of its generation don't count as over.
        generation = 0 if lease is None else lease.generation
        self.transport = transport = OfflineTransport(self.root, generation, all_over=lease is None)
        self.session = Session(transport, timeout_s)
        self.session.reads_without_reserving = True
        # Without a lease nobody writes here: `verify` need not look twice to tell damage from work under way.
        self.session.at_rest = lease is None
        tensors = DurableTensors(_locator(self.root), _CACHE_BYTES)
        transport.host = ShardHost(_HERE, self.root, tensors, self.session)
        self.damage: dict[int, str] = {}
        """Shard -> description of damage, because of which models may be missing."""
        with ThreadPoolExecutor(8) as threads:
            for number, (served, torn) in enumerate(
                threads.map(lambda number: _try_to_look_at(self.root, number, tensors), range(self.root.shards))
            ):
                if torn:
                    self.damage[number] = torn
                if isinstance(served, ShardDamaged):
                    transport.troubles[number] = DAMAGED + served.message
                    self.damage[number] = served.message
                    continue
                summaries = {m: summary_of(r) for m, r in published(served.shard).items()}
                transport.host.models.index_shard(served.shard, summaries)
                transport.host.take(served, summaries)
        # `again` would bring back what an earlier call left out; there was none.
        leave_out(transport.host, transport.table(), _marked(self.root), again=False)
        if self.damage:
            self.session.directory.warns = False
            logger.warning("%s", say_damage(self.root.path, self.damage))

    def caller(self) -> Caller:
        return Caller(ClientHolder("no cluster"))

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(function(*arguments), _loop()).result()

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        _loop().call_soon_threadsafe(function, *arguments)

    def repair(self) -> Verification:
        """Take the root's lease in a new generation, and repair the repository."""
        return repair(self.root, self.session.timeout_s)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all offline connections of this process, which runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="daskevo-offline", daemon=True).start()
    return loop


def _locator(root: Root) -> Callable[[ModelId, Attempt], Path]:
    return lambda model_id, attempt: root.shard(shard_of(model_id, root.shards)).segment_path(model_id, attempt)


def _marked(root: Root) -> list[Loss]:
    """Return the losses that a repair has marked; `verify` reports marks that can't be read."""
    losses: list[Loss] = []
    for number in range(root.shards):
        with contextlib.suppress(CorruptRecord, RootUnusable):
            losses += read_losses(root.shard(number).path)
    return losses


def _try_to_look_at(root: Root, number: int, tensors: DurableTensors) -> tuple[ServedShard | ShardDamaged, str]:
    """Return a shard or its damage, and a description of its cut-off last record, if there is one."""
    try:
        content, torn = read_whole(root.path, number)
        return _look_at(root, number, () if content is None else content.records, tensors), torn
    except CorruptRecord as error:
        return damaged(root.shard(number).path, error), ""


def _look_at(root: Root, number: int, rows: Sequence[JSON], tensors: DurableTensors) -> ServedShard:
    records = records_from_json(rows)
    # The last one: under a later generation, what is staged would be freed in this view.
    generation = max((record.generation for record in records if isinstance(record, Generation)), default=0)
    shard = Shard(number, generation, records)
    served = ServedShard(shard, None, tensors, lambda served, effects: None, read_only_files=root.shard(number))
    served.adopt()
    return served


def repair(root: Root, timeout_s: float) -> Verification:
    """Repair a root that no job has open, in a new generation, and return the result of its verification.

    Damaged shards are left as they are, and nothing is removed on which only they could give a verdict.

    Raises
    ------
    RepositoryTaken
        If a job has it open (verify through that one), or another repair is running; `SchedulerUnaskable` if this
        process can't find out.
    RootUnusable, CorruptRecord
        If it can't be read or written.
    """
    with only_repair(root):
        return asyncio.run(_repair(root, timeout_s))


async def _repair(root: Root, timeout_s: float) -> Verification:
    loop = asyncio.get_running_loop()

    # `take_lease` blocks, so it runs in a thread, from which it asks on this loop.
    def ask(holder: Holder) -> str | None:
        return asyncio.run_coroutine_threadsafe(_identity(holder), loop).result()

    mine = Holder(scheduler_id=f"repair-{os.getpid()}", address=_HERE, job=f"repair by {getpass.getuser()}")
    # Before taking the lease and opening shards, which repair some of the differences by themselves.
    before = await asyncio.to_thread(_found_before, root, timeout_s)
    lease = await asyncio.to_thread(take_lease, root, mine, ask)
    transport = OfflineTransport(root, lease.generation, all_over=True)
    session = Session(transport, timeout_s)
    session.at_rest = True
    host = ShardHost(_HERE, root, DurableTensors(_locator(root), _CACHE_BYTES), session)
    transport.host = host
    try:
        result = await host.open_shards(range(root.shards), lease.generation, [])
        for number, kind, message in result["failed"]:
            if kind != ShardDamaged.__name__:
                raise typed_error(kind, message, {"shard": number})
            transport.troubles[number] = DAMAGED + message
        # Openings leave retirements and audits to the background: `verify` must not report what they have not done yet.
        await host.at_rest(_PATIENCE_S)
        return await verify(session, repair=True, before=before)
    finally:
        # First, so that nothing is written any more when another job takes the lease.
        await host.close()
        await asyncio.to_thread(lease.release)


def _found_before(root: Root, timeout_s: float) -> list[Difference]:
    look = OfflineConnection(root.path, timeout_s)
    look.transport.all_over = True  # or this repair gets no lease
    look.session.at_rest = True
    found: list[Difference] = look.run(differences_now, look.session)
    return found


async def _identity(holder: Holder) -> str | None:
    async with ConnectionPool(connection_args=Security().get_connection_args("client")) as pool:
        return await identity_at(holder, pool)
