"""The coordinator: a Dask SchedulerPlugin around the pure state machine of `daskevo.ownership.coordinator`.

It orders every hold, release and attempt (ticks), alone says who is live, settles attempts whose holder ended, and says
which provider serves which shard. Nothing of models lives here: a restart begins a new generation.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from distributed import SchedulerPlugin

from daskevo.cluster.directory import CALL_TIMEOUT_S, Directory
from daskevo.cluster.queries import TASK_PREFIX
from daskevo.cluster.settings import Settings, check_versions
from daskevo.cluster.transport import NoAnswer, PoolTransport, serve, typed_error, withdraw
from daskevo.errors import (
    ClusterError,
    DaskevoError,
    NoProvider,
    RepositoryError,
    RepositoryTaken,
    ScopeMismatch,
    ShardUnavailable,
)
from daskevo.ownership.attempts import Settle
from daskevo.ownership.audit import drops_all, question_to_home
from daskevo.ownership.coordinator import Coordinator
from daskevo.ownership.holders import ClientHolder, Holder, holder_from_wire
from daskevo.ownership.table import OpenShards, ShardTable
from daskevo.store.lease import Holder as LeaseHolder
from daskevo.store.lease import Lease, take_lease
from daskevo.store.root import Root
from daskevo.types import JSON, ModelId, Objective, Tick, check_name

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 120.0
"""Longest that one provider may take to open its shards."""
_SETTLE_AGAIN_S = 2.0
_OPEN_AGAIN_S = 0.5
_LONGEST_OPEN_PAUSE_S = 30.0
_LEASE_QUESTION_S = 3.0


def plugin_name(key: str) -> str:
    """Return the name under which the coordinator of a repository is registered."""
    return f"daskevo-coordinator-{key}"


class CoordinatorPlugin(SchedulerPlugin):  # type: ignore[misc]
    """One repository's coordinator on the scheduler.

    Parameters
    ----------
    settings:
        What the repository was opened with.
    """

    idempotent = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = plugin_name(settings.key)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self, scheduler: Any) -> None:
        """Take the root's lease and serve; what fails is told to whoever asks first (see `hello`)."""
        # At once, before anything is awaited: two clients that open at the same time start one coordinator.
        scheduler.add_plugin(self, name=self.name)
        self._scheduler = scheduler
        self._ready = asyncio.Event()
        self._failure: DaskevoError | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False
        self._lease: Lease | None = None
        self._root: Root | None = None
        self._scopes: dict[str, str | None] = {}
        self._troubles: dict[int, tuple[str, str]] = {}
        self._addresses: dict[str, str] = {}
        # Of tasks that have begun attempts: a scheduler makes thousands of transitions a second, most of other tasks.
        self._keys: set[Any] = set()
        self._table_changed = asyncio.Event()
        self._settling = asyncio.Event()
        self._core: Coordinator
        serve(scheduler.handlers, "coordinator", self.settings.key, self._methods())
        try:
            await self._open_root()
        except DaskevoError as error:
            self._failure = error
        else:
            self._transport = PoolTransport(scheduler.rpc, scheduler.address, self.settings.key)
            self._directory = Directory(self._transport, self._current_table)
            self._spawn(self._settle_forever())
        finally:
            self._ready.set()

    async def _open_root(self) -> None:
        check_versions(self.settings.versions, f"the scheduler at {self._scheduler.address}")
        if self.settings.root is None:
            # Nothing is read back from memory; the clock only keeps the ticks of two coordinators apart.
            self._core = Coordinator(time.time_ns() // 1_000_000, self.settings.shards, durable=False)
            return
        loop = asyncio.get_running_loop()

        def ask(holder: LeaseHolder) -> str | None:
            return asyncio.run_coroutine_threadsafe(self._identity(holder), loop).result()

        mine = LeaseHolder(self._scheduler.id, self._scheduler.address, _job())

        def take() -> Lease:
            root = Root.create(
                self.settings.root or "", shards=self.settings.shards, durability=self.settings.durability
            )
            return take_lease(root, mine, ask)

        lease = await asyncio.to_thread(take)
        if lease.joined:
            raise RepositoryTaken(
                f"{self.settings.root} is open in this cluster already under another path: use that path",
                root=self.settings.root,
                job=lease.holder.job,
                address=lease.holder.address,
            )
        self._lease, self._root = lease, lease.root
        self._scopes = await asyncio.to_thread(lease.root.scopes)
        self._core = Coordinator(lease.generation, lease.root.shards, durable=True)

    async def _identity(self, holder: LeaseHolder) -> str | None:
        """Ask a lease's address which scheduler it is; None if nobody answers there."""
        if holder.scheduler_id == self._scheduler.id:
            serving = any(
                isinstance(other, CoordinatorPlugin) and other is not self and other.serves(self.settings.root or "")
                for other in self._scheduler.plugins.values()
            )
            return holder.scheduler_id if serving else None
        try:
            reply = await asyncio.wait_for(self._scheduler.rpc(holder.address).identity(), _LEASE_QUESTION_S)
        except (OSError, TimeoutError, ValueError):
            return None
        return reply.get("id") if isinstance(reply, dict) else None

    def serves(self, root: str) -> bool:
        """Whether this coordinator has that folder open."""
        return self._root is not None and self._started and os.path.samefile(self._root.path, root)

    async def before_close(self) -> None:
        """Give the lease back: the next job need not ask an address where nobody answers."""
        self._closed = True
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        withdraw(self._scheduler.handlers, "coordinator", self.settings.key)
        if self._lease is not None:
            try:
                await asyncio.to_thread(self._lease.release)
            except RepositoryError as error:
                logger.warning("daskevo: the lease of %s was not given back: %s", self.settings.root, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("daskevo: background work of the coordinator failed", exc_info=error)

    # -- hooks: Dask swallows their exceptions, so they are kept small -------------------------------------------------

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """End the holders of a task that leaves the state ``processing``, however it leaves it."""
        if start == "processing" and finish != "processing" and key in self._keys and self._started:
            self._keys.discard(key)
            self._end_holders(self._core.holders_of_key(str(key)))

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Let queries follow a provider that its nanny started again: same name, another address.

        Dask turns the name that a task is pinned by into an address when the task is submitted.
        """
        if not self._started:
            return
        name = str(scheduler.workers[worker].name)
        former = self._addresses.get(name)
        if former is None or former == worker:
            return
        for task in scheduler.tasks.values():
            pinned = task.worker_restrictions
            if pinned and former in pinned and str(task.key).startswith(TASK_PREFIX):
                task.worker_restrictions = (pinned - {former}) | {worker}

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """Open the shards of a provider that left elsewhere (its tasks have left ``processing`` before)."""
        if not self._started:
            return
        for name, place in self._core.providers().items():
            if place.address == worker:
                self._core.provider_left(name)
                self._changed()
                self._spawn(self._assign())
                if self.settings.root is None:
                    self._spawn(self._tell_lost())

    def remove_client(self, scheduler: Any, client: str) -> None:
        """End a client that left."""
        if self._started:
            self._core.holder_ended(ClientHolder(client))
            self._settling.set()

    @property
    def _started(self) -> bool:
        return self._ready.is_set() and self._failure is None and not self._closed

    def _end_holders(self, holders: Sequence[Holder]) -> None:
        for holder in holders:
            self._core.holder_ended(holder)
        if holders:
            self._settling.set()

    def _is_live(self, holder: Holder, key: Any) -> bool:
        if isinstance(holder, ClientHolder):
            return holder.client_id in self._scheduler.clients
        task = self._scheduler.tasks.get(key)
        return (
            task is not None
            and str(key) == holder.key
            and task.state == "processing"
            and task.run_id == holder.run_id
            and task.processing_on is not None
            and task.processing_on.address == holder.worker
        )

    # -- served --------------------------------------------------------------------------------------------------------

    def _methods(self) -> dict[str, Any]:
        methods = {
            "hello": self.hello,
            "facts": self._facts,
            "join": self.join,
            "assign": self.assign,
            "table": self.table,
            "worker_names": self.worker_names,
            "begin": self.begin,
            "end": self.end,
            "tick": self.tick,
            "over": self.over,
            "fenced": self.fenced,
            "scope": self.scope,
            "stats": self.stats,
        }
        return {name: self._when_ready(name, method) for name, method in methods.items()}

    def _when_ready(self, name: str, method: Any) -> Any:
        async def call(**arguments: Any) -> Any:
            await self._ready.wait()
            if self._failure is not None:
                if name == "hello":
                    self._give_up()
                raise self._failure
            result = method(**arguments)
            return await result if asyncio.iscoroutine(result) else result

        return call

    def _give_up(self) -> None:
        """Take a coordinator that could not start out again, so that the next `open` begins anew."""
        if self._scheduler.plugins.get(self.name) is self:
            self._scheduler.remove_plugin(self.name)
            withdraw(self._scheduler.handlers, "coordinator", self.settings.key)

    def hello(self, versions: dict[str, str]) -> dict[str, JSON]:
        """Answer a client that opens the repository: who I am, and what it is."""
        check_versions(versions, f"the scheduler at {self._scheduler.address}")
        return self._facts()

    def _facts(self) -> dict[str, JSON]:
        return {
            "generation": self._core.generation,
            "shards": self._core.shards,
            "repository_id": None if self._root is None else self._root.repository_id,
            "durability": "volatile" if self._root is None else self._root.durability,
            "root": self.settings.root,
        }

    def join(self, name: str, address: str) -> dict[str, JSON]:
        """Take a provider in; it gets the shards that nobody has, if shards were given out before."""
        self._core.provider_joined(name, address)
        self._addresses[name] = address
        self._changed()
        if self._assigned:
            self._spawn(self._assign())
        return self._facts()

    _assigned = False
    """Whether `open` has given shards out: until then providers gather, so that the shards are spread over all."""

    async def assign(self, patience_s: float) -> dict[str, JSON]:
        """Give out all shards and wait until they are open; return the table.

        Raises
        ------
        NoProvider, ShardUnavailable, CorruptRecord, RepositoryTaken, RootUnusable
        """
        if not self._core.providers():
            raise NoProvider(
                "no worker of this cluster has the resource 'provider': start one with "
                "`dask worker --resources provider=1`, or use daskevo.local_cluster",
                workers=sorted(str(worker.name) for worker in self._scheduler.workers.values()),
            )
        self._assigned = True
        self._troubles.clear()
        self._spawn(self._assign())
        try:
            async with asyncio.timeout(patience_s):
                while any(place is None for place in self._core.table().places.values()) and not self._troubles:
                    self._table_changed.clear()
                    await self._table_changed.wait()
        except TimeoutError:
            missing = [shard for shard, place in self._core.table().places.items() if place is None]
            raise ShardUnavailable(
                f"{len(missing)} of {self._core.shards} shards were not opened within {patience_s:.0f} s: "
                f"{missing[:5]}...; look into the providers' logs",
                shards=missing,
            ) from None
        if self._troubles:
            shard, (kind, message) = min(self._troubles.items())
            raise typed_error(kind, f"shard {shard}: {message}", {"shard": shard})
        return self._core.table().to_wire()

    async def _assign(self, pause_s: float = _OPEN_AGAIN_S) -> None:
        """Have the shards that nobody has opened; what fails is tried again later."""
        instructions = self._core.assign()
        results = await asyncio.gather(*map(self._have_opened, instructions))
        if not all(results) and self._core.providers() and self._failure is None:
            await asyncio.sleep(pause_s)
            await self._assign(min(pause_s * 2, _LONGEST_OPEN_PAUSE_S))

    async def _have_opened(self, instruction: OpenShards) -> bool:
        name, address = instruction.place.name, instruction.place.address
        try:
            answer = await self._transport.provider(
                address,
                "open_shards",
                timeout_s=OPEN_TIMEOUT_S,
                shards=list(instruction.shards),
                generation=self._core.generation,
                floors=[[shard, list(tick)] for shard, tick in instruction.floors.items()],
            )
        except (NoAnswer, DaskevoError) as error:
            logger.warning("daskevo: provider %s did not open shards %s: %s", name, instruction.shards, error)
            for shard in instruction.shards:
                self._core.not_served(shard, name)
            self._changed()
            return False
        for shard, _ in answer["opened"]:
            self._troubles.pop(shard, None)
            if not self._core.opened(shard, name):
                await self._have_closed(name, address, shard)
        for shard, kind, message in answer["failed"]:
            self._troubles[shard] = kind, message
            self._core.not_served(shard, name)
        self._changed()
        return not answer["failed"]

    async def _have_closed(self, name: str, address: str, shard: int) -> None:
        """A shard was given to another provider while this one opened it; manners only, the epoch fences it."""
        try:
            await self._transport.provider(address, "close_shards", timeout_s=CALL_TIMEOUT_S, shards=[shard])
        except (NoAnswer, DaskevoError) as error:
            logger.info("daskevo: provider %s was not told to close shard %d: %s", name, shard, error)

    def _changed(self) -> None:
        self._table_changed.set()
        self._settling.set()

    async def _current_table(self) -> ShardTable:
        return self._core.table()

    def table(self) -> JSON:
        """Return the shard table."""
        return self._core.table().to_wire()

    def worker_names(self) -> list[list[Any]]:
        """Return ``[name in the table, worker name as Dask has it]`` of all providers: Dask's may be numbers."""
        names = {worker.address: worker.name for worker in self._scheduler.workers.values()}
        return [
            [name, names[place.address]] for name, place in self._core.providers().items() if place.address in names
        ]

    def begin(self, holder: Any, model: str | None, key: Any = None) -> list[int] | None:
        """Give a holder a new attempt; None if it is not live."""
        found = holder_from_wire(holder)
        attempt = self._core.begin(found, None if model is None else ModelId(model), live=self._is_live(found, key))
        if attempt is None:
            return None
        self._keys.add(key)
        return list(attempt)

    def end(self, attempt: Any, settled: bool) -> bool:
        """A holder says that its attempt is over."""
        self._core.end(Tick.parse(attempt), settled=settled)
        if not settled:
            self._settling.set()
        return True

    def tick(self) -> list[int]:
        """Return a new tick."""
        return list(self._core.tick())

    def over(self, attempts: Sequence[Any]) -> list[bool]:
        """Answer the audit."""
        return self._core.over(map(Tick.parse, attempts))

    def fenced(self, shard: int, provider: str, epoch: int, reason: str) -> bool:
        """A provider found that its shard has another owner: have it opened again if it is ours to give."""
        self._core.not_served(shard, provider)
        self._changed()
        self._spawn(self._after_fence())
        return True

    async def _after_fence(self) -> None:
        if self._lease is not None:
            try:
                await asyncio.to_thread(self._lease.check)
            except RepositoryTaken as error:
                # A foreign epoch because another job took the root: nothing is opened against it any more.
                self._failure = error
                self._changed()
                return
            except RepositoryError as error:
                logger.warning("daskevo: the lease of %s can't be read: %s", self.settings.root, error)
        await self._assign()

    async def scope(self, scope: str, objective: str | None) -> str | None:
        """Make a scope known; return its objective."""
        if self._root is not None:
            found = await asyncio.to_thread(self._root.declare_scope, scope, objective)
        else:
            found = _declare(self._scopes, scope, objective)
        self._scopes[scope] = found
        return found

    def stats(self) -> dict[str, JSON]:
        """Return what the coordinator counts."""
        table = self._core.table()
        return {
            **self._facts(),
            "live_attempts": len(self._core.live()),
            "unsettled": self._core.unsettled(),
            "providers": {name: place.address for name, place in self._core.providers().items()},
            "unserved_shards": [shard for shard, place in table.places.items() if place is None],
            "lost_shards": sorted(table.lost),
            "scopes": dict(self._scopes),
        }

    # -- settling ------------------------------------------------------------------------------------------------------

    async def _settle_forever(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._settling.wait(), _SETTLE_AGAIN_S)
            except TimeoutError:
                self._core.resume_settling()
            self._settling.clear()
            due = self._core.take_settling()
            for settle, error in zip(
                due, await asyncio.gather(*map(self._settle, due), return_exceptions=True), strict=True
            ):
                if isinstance(error, Exception):
                    logger.error("daskevo: settling %s failed", settle, exc_info=error)
                    self._core.postpone(settle)

    async def _settle(self, settle: Settle) -> None:
        """Abort at home first; then, if it says so, drop everywhere."""
        question = question_to_home((settle.model, settle.attempt))
        answer = None
        try:
            if question is not None:
                shard = await self._directory.shard_of(question.model)
                (answer,) = await self._directory.ask(shard, [question], CALL_TIMEOUT_S)
            if drops_all((settle.model, settle.attempt), answer):
                await self._directory.everywhere(
                    "drop_attempts", timeout_s=CALL_TIMEOUT_S, attempts=[[settle.model, list(settle.attempt)]]
                )
        except (ClusterError, RepositoryError) as error:
            logger.info("daskevo: settling %s is put off: %s", settle, error)
            self._core.postpone(settle)
        else:
            self._core.settled(settle)

    async def _tell_lost(self) -> None:
        await self._directory.refresh()
        await self._directory.everywhere("forget_lost", timeout_s=CALL_TIMEOUT_S)


def _declare(scopes: dict[str, str | None], scope: str, objective: str | None) -> str | None:
    check_name(scope, "scope")
    wanted = None if objective is None else str(Objective.parse(objective))
    found = scopes.get(scope)
    if wanted is not None and found is not None and wanted != found:
        raise ScopeMismatch(
            f"scope {scope!r} has the objective {found!r}, {wanted!r} was asked for: use another scope",
            scope=scope,
            objective=found,
            asked=wanted,
        )
    return found or wanted


def _job() -> str:
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        if name in os.environ:
            return f"{name}={os.environ[name]}"
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
