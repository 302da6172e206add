"""Connections to a repository from a Dask client and from a task on a worker.

A `Repository` handle works in both places. The differences are here: the holder of attempts, the event loop, and how a
synchronous call waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from distributed import Client, Worker, default_client, get_worker

from daskevo.client.session import Caller, Session
from daskevo.deploy.deployment import scheduler_address
from daskevo.deploy.plugin_classes import plugin_class
from daskevo.deploy.roles import has_role
from daskevo.deploy.settings import RepositorySettings
from daskevo.errors import InvalidInput, NotDeployed
from daskevo.protocol.holders import ClientHolder, TaskHolder
from daskevo.wire.dask_private import send_recv, sync, thread_state
from daskevo.wire.transport import PoolTransport

T = TypeVar("T")

REPOSITORIES = "daskevo_repositories"
"""Operation of the scheduler that returns the settings of all open repositories."""
_SENT_WITHIN_S = 10.0
"""Longest wait for the coordinator to install a repository's plugin on a worker, in seconds."""
_PAUSE_S = 0.02


class Connection(Protocol):
    """A way to the repository's coordinator and providers."""

    session: Session

    @property
    def asynchronous(self) -> bool:
        """Whether calls return awaitables (an asynchronous Dask client in its event loop)."""
        ...

    def caller(self) -> Caller:
        """Return the holder of attempts that are begun by the calling thread."""
        ...

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run a coroutine function on the event loop and return its result.

        If `asynchronous`, an awaitable of the result is returned, as with Dask's own methods; the signature does not
        show that.
        """
        ...

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Schedule a function on the event loop, before all later calls of `run`, without waiting for it."""
        ...


class ClientConnection:
    """Connection of a Dask client.

    Parameters
    ----------
    client:
        The client; its attempts end with it.
    key:
        The repository's key.
    timeout_s:
        Longest wait of a step for a shard, in seconds.
    """

    def __init__(self, client: Client, key: str, timeout_s: float) -> None:
        self.client = client
        self.session = Session(PoolTransport(client.rpc, scheduler_address(client), key), timeout_s)

    @property
    def asynchronous(self) -> bool:
        return bool(self.client.asynchronous)

    def caller(self) -> Caller:
        return Caller(ClientHolder(self.client.id))

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        # The event loop of a closed client would raise a RuntimeError that names neither.
        scheduler_address(self.client)
        if self.asynchronous:
            return function(*arguments)  # type: ignore[return-value]
        return waited_for(self.client.loop, function, *arguments)

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        if self.asynchronous:
            # Called on the event loop itself: a callback would run after the next awaited call has begun.
            function(*arguments)
        else:
            self.client.loop.add_callback(function, *arguments)


class WorkerConnection:
    """Connection of a task.

    Parameters
    ----------
    worker:
        The Dask worker that runs the task.
    plugin:
        The repository's provider plugin on that worker.
    timeout_s:
        Longest wait of a step for a shard, in seconds.
    """

    asynchronous = False

    def __init__(self, worker: Worker, plugin: Any, timeout_s: float) -> None:
        self.worker = worker
        self.session: Session = plugin.session.within(timeout_s)

    def caller(self) -> Caller:
        return task_caller(self.worker)

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        return waited_for(self.worker.loop, function, *arguments)

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        self.worker.loop.add_callback(function, *arguments)


def waited_for(loop: Any, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Run a coroutine function on an event loop of another thread, and return its result.

    Any exception in the waiting thread cancels the work; Dask's own `sync` does so for Ctrl-C only, not for exceptions
    of other signal handlers. Otherwise the work might reserve tensors that the caller never gives back.
    """
    work = _Work(function, arguments)
    try:
        return sync(loop, work.run)  # type: ignore[no-any-return]
    except BaseException:
        work.left = True
        loop.add_callback(work.cancel)
        raise


class _Work:
    """A coroutine function that runs on an event loop while another thread waits for it."""

    def __init__(self, function: Callable[..., Coroutine[Any, Any, Any]], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments
        self._task: asyncio.Task[Any] | None = None
        self.left = False

    async def run(self) -> Any:
        self._task = asyncio.current_task()
        if self.left:
            raise asyncio.CancelledError  # `cancel` came before there was a task to cancel
        return await self._function(*self._arguments)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def task_caller(worker: Worker) -> Caller:
    """Return the holder for the run of the task that this thread executes.

    The run id is read once per run: the thread of a cancelled task would later read the id of the task's next run.

    Raises
    ------
    InvalidInput
        Outside the thread of a task.
    """
    key = worker.active_threads.get(threading.get_ident())
    if key is None:
        raise InvalidInput(
            "models can be inherited and put in a task's own thread only, so that they end with the task: call the "
            "repository there and hand results to other threads"
        )
    started = (key, thread_state.start_time)
    known = getattr(thread_state, "daskevo_caller", None)
    if known is None or known[0] != started:
        holder = TaskHolder(str(key), worker.state.tasks[key].run_id, worker.address)
        known = thread_state.daskevo_caller = (started, Caller(holder, key))
    return known[1]


def is_in_task() -> bool:
    """Whether this thread runs a task."""
    return worker_here() is not None


def worker_here() -> Worker | None:
    """Return the worker whose task this thread runs, or None."""
    # Dask sets this in threads that run a task. `get_worker` goes by a context variable, of which threads that a task
    # starts may have a copy: attempts begun there would have no task to end with.
    if not hasattr(thread_state, "start_time"):
        return None
    try:
        return get_worker()
    except ValueError:
        return None


def _plugins(worker: Worker) -> dict[str, Any]:
    """Return the provider plugins on a worker, by repository key."""
    prefix = "daskevo-provider-"
    return {
        name.removeprefix(prefix): plugin
        for name, plugin in list(worker.plugins.items())
        if name.startswith(prefix) and hasattr(plugin, "session")
    }


async def _fetched(worker: Worker, key: str | None) -> dict[str, Any]:
    """Install the plugins of all open repositories, or of `key` only, on a worker; return all plugins by key."""
    for value in await _repositories(worker):
        settings = RepositorySettings(**value)
        if key not in (None, settings.key):
            continue
        plugin = plugin_class("provider")(settings)
        if has_role(worker.state.total_resources):
            # On workers with a role the coordinator installs the plugin: wait for it.
            deadline = time.monotonic() + _SENT_WITHIN_S
            while settings.key not in _plugins(worker) and time.monotonic() < deadline:
                await asyncio.sleep(_PAUSE_S)
        # A worker without a role gets nothing from the coordinator. A second plugin of this name would replace the
        # first one.
        elif plugin.name not in worker.plugins:
            await worker.plugin_add(plugin=plugin, name=plugin.name)
            transport = PoolTransport(worker.rpc, worker.scheduler.address, settings.key)
            # So that the coordinator takes the plugin back when it closes the repository.
            await transport.coordinator("equipped", timeout_s=_SENT_WITHIN_S, address=worker.address)
    return _plugins(worker)


async def _repositories(worker: Worker) -> list[dict[str, Any]]:
    comm = await worker.rpc.connect(worker.scheduler.address)
    try:
        return await send_recv(comm, op=REPOSITORIES) or []
    finally:
        worker.rpc.reuse(worker.scheduler.address, comm)


def connect(key: str, timeout_s: float, client: Client | None = None) -> Connection:
    """Return the connection of the task that this thread runs, or else of `client` or the default client.

    Raises
    ------
    NotDeployed
        If the worker doesn't know the repository, or there is no client.
    SchedulerUnreachable
        If the client is closed.
    """
    worker = worker_here()
    if worker is not None:
        return WorkerConnection(worker, provider_plugin(worker, key), timeout_s)
    try:
        client = default_client(client)
    except ValueError as error:
        raise NotDeployed(
            "this process has no Dask client: connect one to the cluster that has the repository open, or call "
            "daskevo.open with client=None to look at a root without a cluster"
        ) from error
    return ClientConnection(client, key, timeout_s)


def provider_plugin(worker: Worker, key: str | None) -> Any:
    """Return a repository's plugin on the worker of this task: that of `key`, or the only one if `key` is None.

    Workers without a role have no plugin until one of their tasks needs it; then it is installed here.

    Raises
    ------
    NotDeployed
        If there is none, or `key` is None and there are several.
    """
    found = _plugins(worker)
    if key not in found and (key is not None or not found):
        found = sync(worker.loop, _fetched, worker, key)
    if key is not None and key in found:
        return found[key]
    if key is None and len(found) == 1:
        return next(iter(found.values()))
    raise NotDeployed(
        f"worker {worker.name!r} knows {len(found)} repositories"
        + ("" if key is None else ", not this one")
        + ": call daskevo.open on the client first, and hand its repository to the task",
        worker=str(worker.name),
    )
