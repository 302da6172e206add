"""The coordinator: a Dask SchedulerPlugin around the pure state machine of `daskevo.protocol.coordinator`.

It numbers every hold, release and attempt (ticks), decides which holders are live, settles attempts whose holder ended,
and assigns shards to providers. It stores nothing about models: a restarted coordinator begins a new generation.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import dask
from distributed import SchedulerPlugin

from daskevo.client.connection import REPOSITORIES
from daskevo.client.directory import CALL_TIMEOUT_S, Directory
from daskevo.client.query_futures import TASK_PREFIX
from daskevo.deploy.configured import seconds
from daskevo.deploy.roles import PROVIDER, start_line
from daskevo.deploy.settings import RepositorySettings, check_versions
from daskevo.errors import (
    ClusterError,
    DaskevoError,
    InvalidInput,
    NoProvider,
    RepositoryError,
    RepositoryTaken,
    RootUnusable,
)
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.holders import ClientHolder, Holder, TaskHolder, holder_from_wire
from daskevo.protocol.shard_table import ShardTable
from daskevo.store.lease import Lease
from daskevo.store.root import Root
from daskevo.types import JSON, ModelId, Tick
from daskevo.wire.to_the_end import begin
from daskevo.wire.transport import PoolTransport, serve, withdraw
from daskevo_plugins import metrics
from daskevo_plugins.background_tasks import Background
from daskevo_plugins.coordinator.attempt_settler import Settler
from daskevo_plugins.coordinator.provider_registry import ProviderRegistry
from daskevo_plugins.coordinator.root_lease import lease_root
from daskevo_plugins.coordinator.scopes import Scopes
from daskevo_plugins.coordinator.worker_setup import WorkerSetup

logger = logging.getLogger(__name__)

_COMPARE_EVERY_S = 10.0
"""Interval at which holders are compared with the scheduler's own state; an audit compares them too."""
CLOSE_AFTER_LAST_CLIENT = "daskevo.close-after-last-client"
"""Key in Dask's configuration: time from the last client's leaving to the closing of a repository; null: never."""
_EQUIP_AGAIN_S = (1.0, 10.0, 60.0, 300.0)
"""Pauses before the plugin is sent again to a new worker that failed to set it up; the last one repeats."""
_CLOSING_S = 5.0
"""Time limit for each step of closing, so that a scheduler that shuts down is not held up."""


_closings: dict[tuple[str, str], asyncio.Task[None]] = {}
"""Coordinators being closed, by scheduler and repository: a new one starts only after the old one has ended."""


def plugin_name(key: str) -> str:
    """Return the name under which the coordinator of a repository is registered."""
    return f"daskevo-coordinator-{key}"


class CoordinatorPlugin(SchedulerPlugin):  # type: ignore[misc]
    """The coordinator of one repository on the scheduler.

    Parameters
    ----------
    settings:
        Settings that the repository was opened with.
    opener:
        Id of the `open` call that starts it.
    """

    idempotent = True

    def __init__(self, settings: RepositorySettings, opener: str) -> None:
        self.settings = settings
        self.opener = opener
        self.name = plugin_name(settings.key)

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self, scheduler: Any) -> None:
        """Take the root's lease and serve; a failure is raised to the first client that asks (see `hello`)."""
        # Register before the first await: two clients that open at the same time must start only one coordinator.
        scheduler.add_plugin(self, name=self.name)
        self._scheduler = scheduler
        self._ready = asyncio.Event()
        self._failure: DaskevoError | None = None
        self._background = Background()
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self._equips = False
        """Whether workers are given the plugin; not before a client has found that it can open the repository."""
        self._opened = False
        self._openers = {self.opener}
        """Calls of `open` that are under way: the failure of one must not close the repository for another."""
        self._leaving: object = None
        """A token for the latest time that the last client left."""
        self._worker_setup = WorkerSetup(scheduler, self.settings)
        self._lease: Lease | None = None
        self._root: Root | None = None
        self._scopes = Scopes(None, self._check_lease)
        self._addresses: dict[str, str] = {}
        # Keys of tasks that began attempts, as text -> as Dask has them. `transition` is called thousands of times a
        # second, mostly for other tasks, so it must find out quickly that a key does not matter.
        self._keys: dict[str, Any] = {}
        # Client id -> the scheduler's state object (each connection has a new one), and the holder of that connection.
        self._connections: dict[str, tuple[Any, ClientHolder]] = {}
        self._connection_numbers = itertools.count()
        self._untold = False
        self._telling = asyncio.Lock()
        self._core: Coordinator
        methods, key = self._methods(), self.settings.key
        # Until the previous coordinator has ended, serve nothing that its worker plugins could use to join this one.
        serve(scheduler.handlers, "coordinator", key, {name: methods[name] for name in ("hello", "abandon")})
        scheduler.handlers[REPOSITORIES] = self._repositories
        try:
            if (before := _closings.get((scheduler.id, key))) is not None:
                await asyncio.wait([before])
            serve(scheduler.handlers, "coordinator", key, methods)
            await self._open_root()
        except DaskevoError as error:
            self._failure = error
        else:
            self._transport = PoolTransport(scheduler.rpc, scheduler.address, self.settings.key)
            self._directory = Directory(self._transport, self._current_table)
            self._settler = Settler(self._core, self._directory)
            self._registry = ProviderRegistry(
                self._core, scheduler, self._transport, self._background, self._table_changed
            )
            self._background.spawn(self._settler.run())
            self._background.spawn(self._compare_now_and_then())
            self._registry.start()
            metrics.offer(self)
            self._show_pages()
        finally:
            self._ready.set()

    async def _open_root(self) -> None:
        check_versions(self.settings.versions, f"the scheduler at {self._scheduler.address}")
        if self.settings.root is None:
            # Nothing is read back from memory; the clock only keeps the generations of two coordinators apart.
            self._core = Coordinator(time.time_ns() // 1_000_000, self.settings.shards, durable=False)
            return
        lease = await lease_root(self.settings, self._scheduler, self._is_served_by_another)
        self._lease, self._root = lease, lease.root
        self._scopes = Scopes(lease.root, self._check_lease)
        try:
            await self._scopes.read()
        except DaskevoError:
            await self._give_lease_back()
            raise
        self._core = Coordinator(lease.generation, lease.root.shards, durable=True)

    def _is_served_by_another(self) -> bool:
        return any(
            # By the folder, not by the key: two paths may lead to the same root.
            isinstance(other, CoordinatorPlugin) and other is not self and other.serves(self.settings.root or "")
            for other in self._scheduler.plugins.values()
        )

    def _show_pages(self) -> None:
        """Add the repository and lineage pages to the dashboard, also without a search."""
        try:
            # Imported here: a missing dashboard package on the scheduler must not prevent opening the repository.
            from daskevo_plugins.dashboard.plugin import show_pages
        except ImportError as error:
            logger.info("daskevo: no pages on the dashboard: %s", error)
        else:
            show_pages(self._scheduler)

    def serves(self, root: str) -> bool:
        """Tell whether this coordinator has that root folder open."""
        return self._root is not None and self._started and os.path.samefile(self._root.path, root)

    async def before_close(self) -> None:
        """Give the lease back, so that the next job need not ask at an address where nobody answers."""
        self._closed = True
        await self._background.end(_CLOSING_S)
        withdraw(self._scheduler.handlers, "coordinator", self.settings.key)
        metrics.withdraw(self)
        await self._give_lease_back()

    async def _give_lease_back(self) -> None:
        if self._lease is None:
            return
        try:
            # A file system that does not answer must not keep the scheduler from closing.
            await asyncio.wait_for(asyncio.to_thread(self._lease.release), _CLOSING_S)
        except RuntimeError:
            # The interpreter is shutting down (a second Ctrl-C) and starts no more threads.
            with contextlib.suppress(RepositoryError):
                self._lease.release()
        except (RepositoryError, TimeoutError) as error:
            logger.warning("daskevo: the lease of %s was not given back: %r", self.settings.root, error)

    # -- hooks: Dask logs and ignores their exceptions, so they are kept small -----------------------------------------

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """End the holders of a task when it leaves the state ``processing`` for any reason."""
        if start == "processing" and finish != "processing" and self._started and str(key) in self._keys:
            # A run of a task is a holder of its own; a second run begins attempts, and is entered, anew.
            del self._keys[str(key)]
            self._end_holders(self._core.holders_of_key(str(key)))

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Set up the plugin on a new worker, and move pinned queries to a provider that its nanny restarted.

        Dask resolves a worker name that a task is pinned to when the task is submitted; a restarted worker has the same
        name at another address. The hook can't wait for the worker, which answers only once it has started.
        """
        if self._started:
            self._redirect(scheduler, worker)
            if self._equips:
                self._background.spawn(self._equip_new(worker))

    async def _equip_new(self, worker: str) -> None:
        """Send the plugin to a worker until it takes it or leaves: a new worker may be busy or suspended at first."""
        for pause_s in itertools.chain(_EQUIP_AGAIN_S, itertools.repeat(_EQUIP_AGAIN_S[-1])):
            troubles = await self._worker_setup.equip([worker])
            if worker not in troubles or worker not in self._scheduler.workers:
                return
            logger.warning("daskevo: worker %s takes no part in the repository: %s", worker, troubles[worker])
            await asyncio.sleep(pause_s)

    def _redirect(self, scheduler: Any, worker: str) -> None:
        name = str(scheduler.workers[worker].name)
        former = self._addresses.get(name)
        if former is None or former == worker:
            return
        for task in scheduler.tasks.values():
            pinned = task.worker_restrictions
            if pinned and former in pinned and str(task.key).startswith(TASK_PREFIX):
                task.worker_restrictions = (pinned - {former}) | {worker}

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """Open a leaving provider's shards elsewhere; its tasks have left ``processing`` before this hook is called."""
        self._worker_setup.left(worker)
        if self._started and self._registry.removed(worker) and self.settings.root is None:
            self._background.spawn(self._tell_lost())

    def log_event(self, topic: str, msg: Any) -> None:
        """Learn from a status event that a provider is about to leave while it still runs."""
        if isinstance(msg, dict) and msg.get("action") == "worker-status-change" and self._started:
            self._registry.status_changed(topic, msg["status"])

    def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
        """Keep providers and workers with tasks when the cluster scales down."""
        return [worker for worker in workers if not worker.resources.get(PROVIDER) and not worker.processing]

    def remove_client(self, scheduler: Any, client: str) -> None:
        """End a client's attempts when it disconnects; start the wait for closing if it was the last one."""
        if self._started:
            self._end_holders(self._core.holders_of_client(client))
            self._connections.pop(client, None)
            if not self._users() and dask.config.get(CLOSE_AFTER_LAST_CLIENT, None) is not None:
                self._leaving = leaving = object()
                self._background.spawn(self._close_if_left(leaving))

    @property
    def _started(self) -> bool:
        return self._ready.is_set() and self._failure is None and not self._closed

    def _end_holders(self, holders: Sequence[Holder]) -> None:
        for holder in holders:
            self._core.holder_ended(holder)
        if holders:
            self._settler.wake()

    def _compare(self) -> None:
        """End holders that the scheduler no longer knows.

        Normally the hooks have ended them. But Dask logs an exception of a hook and goes on, and does not call the hook
        again for the same event.
        """
        gone = [holder for holder in self._core.holders() if not self._is_live(holder, self._key_of(holder))]
        if gone:
            logger.warning("daskevo: attempts of %d holders went on after their end: they are settled now", len(gone))
            self._end_holders(gone)
        live = {holder.key for holder in self._core.holders() if isinstance(holder, TaskHolder)}
        self._keys = {name: key for name, key in self._keys.items() if name in live}
        clients = self._scheduler.clients
        self._connections = {client: known for client, known in self._connections.items() if client in clients}

    def _key_of(self, holder: Holder) -> Any:
        return self._keys.get(holder.key) if isinstance(holder, TaskHolder) else None

    async def _compare_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_COMPARE_EVERY_S)
            self._compare()

    def _connection(self, client_id: str) -> ClientHolder:
        """Return the holder of a client's current connection; end the attempts of its previous connection."""
        state = self._scheduler.clients.get(client_id)
        known, holder = self._connections.get(client_id, (None, None))
        if holder is None or state is not known:
            if holder is not None:
                self._end_holders([holder])
            holder = ClientHolder(client_id, next(self._connection_numbers))
            self._connections[client_id] = state, holder
        return holder

    def _is_live(self, holder: Holder, key: Any) -> bool:
        """Tell whether the scheduler knows a holder: this connection of a client, or this run of a task."""
        if isinstance(holder, ClientHolder):
            return holder.client_id in self._scheduler.clients and holder == self._connection(holder.client_id)
        task = self._scheduler.tasks.get(key)
        return (
            task is not None
            and str(key) == holder.key
            and task.state == "processing"
            and task.run_id == holder.run_id
            and task.processing_on is not None
            and task.processing_on.address == holder.worker
        )

    # -- methods called by clients and workers -------------------------------------------------------------------------

    def _methods(self) -> dict[str, Any]:
        methods = {
            "hello": self.hello,
            "equip": self.equip,
            "equipped": self.equipped,
            "abandon": self.abandon,
            "close": self.close_for_all,
            "facts": self._facts,
            "join": self.join,
            "leave": self.leave,
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
                # The failed coordinator stays until one client has seen why; the next `open` starts another one.
                if name == "hello":
                    self._give_up(self._failure)
                    withdraw(self._scheduler.handlers, "coordinator", self.settings.key)
                raise self._failure
            result = method(**arguments)
            return await result if asyncio.iscoroutine(result) else result

        return call

    def _give_up(self, failure: DaskevoError) -> None:
        """Stop for good and keep the reason for those who ask; the next `open` starts another coordinator."""
        self._failure = failure
        self._background.cancel()
        metrics.withdraw(self)
        if self._scheduler.plugins.get(self.name) is self:
            self._scheduler.remove_plugin(self.name)

    def _repositories(self) -> list[dict[str, Any]]:
        """Return the settings of all repositories open on this scheduler."""
        return [
            asdict(other.settings)
            for other in self._scheduler.plugins.values()
            if isinstance(other, CoordinatorPlugin) and other._started
        ]

    async def equip(self) -> list[list[str]]:
        """Set up the plugin on all workers with a role; return ``[name, address, error]`` of those where it failed."""
        self._equips = True
        # Noted before the plugin is sent: a worker that leaves meanwhile is no longer among the scheduler's.
        names = {address: str(worker.name) for address, worker in self._scheduler.workers.items()}
        troubles = await self._worker_setup.equip()
        # A worker that has left meanwhile is not an error.
        return [
            [names[address], address, trouble]
            for address, trouble in troubles.items()
            if address in self._scheduler.workers
        ]

    def equipped(self, address: str) -> bool:
        """Note that a worker has fetched the plugin itself."""
        self._worker_setup.has_it(address)
        return True

    async def abandon(self, opener: str) -> bool:
        """Undo a failed opening, unless the repository is open or another client is just opening it."""
        self._openers.discard(opener)
        if self._opened or self._openers:
            return False
        await self._close()
        return True

    async def close_for_all(self, client: str, force: bool) -> bool:
        """Close the repository for all clients of this cluster.

        Raises
        ------
        ClusterError
            If other clients have attempts under way, unless `force`.
        """
        others = [holder for holder in self._core.holders() if getattr(holder, "client_id", None) != client]
        if others and not force:
            raise ClusterError(
                f"{self.settings.root or 'the repository in memory'} is in use: {len(others)} tasks or clients "
                f"inherit, read or put just now, {others[0]} among them. Wait for them, or close(force=True)"
            )
        await self._close()
        return True

    def _users(self) -> list[str]:
        """Return the clients, except Dask's own and those that workers open for their tasks."""
        return [
            client
            for client in self._scheduler.clients
            if client != "fire-and-forget" and not client.startswith("Client-worker-")
        ]

    async def _close_if_left(self, leaving: object) -> None:
        """Close the repository if no client returns for a while; a client with a broken connection does."""
        await asyncio.sleep(seconds(CLOSE_AFTER_LAST_CLIENT, default_s=0.0))
        # If a client returned and left again, that leaving has its own wait.
        if leaving is self._leaving and not self._users() and not self._closed:
            logger.info("daskevo: the last client has left: %s is closed", self.settings.root or "the repository")
            begin(self._close())

    async def _close(self) -> None:
        """Stop serving at once and remove the plugin from workers; cancelling the caller does not stop this."""
        if self._closing is None:
            self._closing = self._begin_closing()
        await asyncio.shield(self._closing)

    def _begin_closing(self) -> asyncio.Task[None]:
        self._closed = True
        if self._scheduler.plugins.get(self.name) is self:
            self._scheduler.remove_plugin(self.name)
        withdraw(self._scheduler.handlers, "coordinator", self.settings.key)
        metrics.withdraw(self)
        place = self._scheduler.id, self.settings.key
        _closings[place] = closing = begin(self._end())
        closing.add_done_callback(lambda task: _closings.pop(place))
        return closing

    async def _end(self) -> None:
        await self._background.end(_CLOSING_S)
        # Workers close their journals before the lease lets the next job open them.
        await self._worker_setup.take_back()
        await self._give_lease_back()

    async def hello(self, versions: dict[str, str], opener: str) -> dict[str, JSON]:
        """Answer a client that opens the repository with its facts.

        Raises
        ------
        VersionMismatch
        RepositoryTaken
            If another job took the root; the next `open` finds out who has it then.
        RootUnusable
            If the root was removed; the next `open` creates a new one.
        """
        # Before the first await, during which another client's failed opening could close the repository.
        self._openers.add(opener)
        try:
            return await self._greet(versions)
        except BaseException:
            self._openers.discard(opener)
            raise

    async def _greet(self, versions: dict[str, str]) -> dict[str, JSON]:
        check_versions(versions, f"the scheduler at {self._scheduler.address}")
        if self._root is not None and await asyncio.to_thread(self._root.is_replaced):
            gone = RootUnusable(
                f"repository {self._root.repository_id}, which was open here, is not in {self._root.path} any more",
                folder=str(self._root.path),
                needed_bytes=None,
                free_bytes=None,
                errno=None,
            )
            logger.warning("daskevo: %s: it is opened anew", gone)
            self._give_up(gone)
            raise gone
        await self._check_lease()
        return self._facts()

    async def _check_lease(self) -> None:
        """Stop and raise RepositoryTaken if another job has taken the root meanwhile."""
        if self._lease is not None:
            try:
                await asyncio.to_thread(self._lease.check)
            except RepositoryTaken as error:
                logger.warning("daskevo: this cluster gives the repository up: %s", error)
                self._give_up(error)
                raise

    def _facts(self) -> dict[str, JSON]:
        return {
            "generation": self._core.generation,
            "shards": self._core.shards,
            "repository_id": None if self._root is None else self._root.repository_id,
            "durability": "volatile" if self._root is None else self._root.durability,
            "root": self.settings.root,
            "quota_bytes": self.settings.quota,
        }

    def join(self, name: str, address: str) -> dict[str, JSON]:
        """Add a provider; once shards have been assigned it gets those that nobody serves."""
        self._addresses[name] = address
        self._worker_setup.joined(address)
        self._registry.join(name, address)
        return self._facts()

    async def leave(self, name: str, address: str, patience_s: float) -> bool:
        """Move the shards of a provider that is about to close; return whether others have them in time."""
        return await self._registry.leave(name, address, patience_s)

    async def assign(self, opener: str, patience_s: float) -> dict[str, JSON]:
        """Assign all shards, wait until they are open, and return the table.

        Raises
        ------
        NoProvider, ShardUnavailable, CorruptRecord, RepositoryTaken, RootUnusable
        """
        if not self._core.providers():
            raise NoProvider(
                "no worker of this cluster has the resource 'provider', so nobody can hold models: "
                + start_line(self._scheduler.address, PROVIDER),
                workers=sorted(str(worker.name) for worker in self._scheduler.workers.values()),
            )
        self._registry.given_out = True
        self._registry.reopen()
        await self._registry.assigner.wait_until_open(patience_s)
        # Every shard is served or known to be damaged now. From here on, a shard without files counts as lost, not new.
        if self._root is not None:
            await asyncio.to_thread(self._root.mark_served)
        await self._tell_marked()
        self._opened = True
        self._openers.discard(opener)
        return self._registry.assigner.table().to_wire()

    async def _current_table(self) -> ShardTable:
        return self._registry.assigner.table()

    def table(self) -> JSON:
        """Return the shard table."""
        return self._registry.assigner.table().to_wire()

    def worker_names(self) -> list[list[Any]]:
        """Return ``[name in the table, worker name as Dask has it]`` of all providers; Dask's names may be numbers."""
        names = {worker.address: worker.name for worker in self._scheduler.workers.values()}
        return [
            [name, names[place.address]] for name, place in self._core.providers().items() if place.address in names
        ]

    def begin(self, holder: Any, model: str | None, key: Any = None) -> list[int] | None:
        """Start a new attempt of a holder; return None if the holder is not live."""
        found = holder_from_wire(holder)
        if isinstance(found, ClientHolder):
            # Its connection of now: the client may have reconnected since it made its holder.
            found = self._connection(found.client_id)
        attempt = self._core.begin(found, None if model is None else ModelId(model), live=self._is_live(found, key))
        if attempt is None:
            return None
        if isinstance(found, TaskHolder):
            self._keys[found.key] = key
        return list(attempt)

    def end(self, attempts: Sequence[Any], settled: bool) -> bool:
        """End attempts at the word of their holders."""
        for attempt in attempts:
            self._core.end(Tick.parse(attempt), settled=settled)
        if not settled:
            self._settler.wake()
        return True

    def tick(self) -> list[int]:
        """Return a new tick."""
        return list(self._core.tick())

    def over(self, attempts: Sequence[Any]) -> list[bool]:
        """Tell an audit which attempts are over."""
        self._compare()
        return self._core.over(map(Tick.parse, attempts))

    def fenced(self, shard: int, provider: str, epoch: int, reason: str) -> bool:
        """Handle a provider's report that its shard has another owner: reopen the shard if it is ours to assign."""
        if shard >= self._core.shards:
            raise InvalidInput(f"shard {shard} can't be fenced: this repository has {self._core.shards}")
        self._core.not_served(shard, provider)
        self._registry.assigner.changed()
        self._background.spawn(self._after_fence())
        return True

    async def _after_fence(self) -> None:
        try:
            # A foreign epoch may mean that another job took the root; then nothing may be opened against it.
            await self._check_lease()
        except RepositoryTaken:
            return
        except RepositoryError as error:
            logger.warning("daskevo: the lease of %s can't be read: %s", self.settings.root, error)
        await self._registry.assigner.assign()

    async def scope(self, scope: str, objective: str | None) -> str | None:
        """Declare a scope; return its objective."""
        return await self._scopes.declare(scope, objective)

    def stats(self) -> dict[str, JSON]:
        """Return the coordinator's counts."""
        table = self._core.table()
        return {
            **self._facts(),
            "live_attempts": len(self._core.live()),
            "unsettled": self._core.unsettled(),
            "waiting_retirements": self._registry.retirements.waiting,
            "providers": {name: place.address for name, place in self._core.providers().items()},
            "unserved_shards": [shard for shard, place in table.places.items() if place is None],
            "lost_shards": sorted(table.lost),
            "scopes": dict(self._scopes.known),
        }

    def metrics(self) -> Iterator[tuple[str, tuple[str, ...], Any]]:
        """Yield the values for ``/metrics`` (see :mod:`daskevo_plugins.metrics`)."""
        if not self._started:
            return
        labels, stats = (self.settings.root or "memory",), self.stats()
        for name, value in (
            ("generation", stats["generation"]),
            ("providers", len(stats["providers"])),
            ("shards", stats["shards"]),
            ("unserved_shards", len(stats["unserved_shards"])),
            ("lost_shards", len(stats["lost_shards"])),
            ("live_attempts", stats["live_attempts"]),
            ("unsettled_attempts", stats["unsettled"]),
            ("waiting_retirements", len(stats["waiting_retirements"])),
        ):
            yield f"daskevo_coordinator_{name}", labels, value

    async def shown(self, models: int, timeout_s: float) -> dict[str, Any] | None:
        """Return what the dashboard shows of the repository: counts of the coordinator and of each provider.

        Parameters
        ----------
        models:
            Approximate number of models to list, over all providers.
        timeout_s:
            Longest wait for a provider's answer.

        Returns
        -------
        dict
            ``coordinator`` (as `stats`), ``providers`` (name -> :func:`daskevo.provider.stats.shown`), ``silent`` (name
            -> why); None if it does not serve (yet).
        """
        if not self._started:
            return None
        await self._directory.refresh()
        here = await self._directory.providers()
        live = [list(attempt) for attempt in self._core.live()]
        answers, silent = await self._directory.everywhere(
            "shown", timeout_s=timeout_s, patient=False, models=max(20, models // max(1, len(here))), live=live
        )
        return {"coordinator": self.stats(), "providers": answers, "silent": silent}

    def _table_changed(self) -> None:
        self._settler.wake()
        self._registry.retirements.go_on()
        if self._registry.given_out and self._registry.assigner.is_open:
            self._background.spawn(self._tell_marked())

    async def _tell_marked(self) -> None:
        """Remove models that a repair marked as lost from all indexes; a provider knows only marks in its own shards.

        Calls that overlap share one round, which covers everything opened before it began.
        """
        self._untold = True
        async with self._telling:
            if not self._untold:
                return
            self._untold = False
            try:
                await self._directory.refresh()
                answers, _ = await self._directory.everywhere("losses", timeout_s=CALL_TIMEOUT_S, patient=False)
                if any(answers.values()):
                    await self._directory.everywhere("forget_lost", timeout_s=CALL_TIMEOUT_S, patient=False)
            except (ClusterError, RepositoryError) as error:
                logger.info("daskevo: not everyone heard which models are marked as lost: %s", error)

    async def _tell_lost(self) -> None:
        try:
            await self._directory.refresh()
            await self._directory.everywhere("forget_lost", timeout_s=CALL_TIMEOUT_S)
        except ClusterError as error:
            # A provider that is closing can no longer ask which models were lost.
            logger.info("daskevo: not everyone heard that shards are lost: %s", error)
