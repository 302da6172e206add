"""Opening a repository: on a cluster, for a look without one, inside a task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from daskevo.client.connection import ClientConnection, WorkerConnection, provider_plugin, worker_here
from daskevo.deploy.configuration import warn_of_unknown
from daskevo.deploy.configured import seconds
from daskevo.deploy.deployment import deploy
from daskevo.deploy.settings import RepositorySettings, check_settings, quota_bytes, versions
from daskevo.errors import InvalidInput, NotDeployed
from daskevo.offline.root import OfflineConnection
from daskevo.protocol.scopes import check_scope
from daskevo.repository.handle import Repository
from daskevo.store.files import Durability
from daskevo.types import Objective
from daskevo.wire.transport import repository_key, root_path

if TYPE_CHECKING:
    from distributed import Client

TIMEOUT = "daskevo.timeout"
"""Where Dask's configuration has the longest wait of each step, if `timeout_s` is left out."""
TIMEOUT_S = 30.0


def open_repository(
    root: str | os.PathLike[str] | None,
    scope: str = "default",
    *,
    client: Client | None = None,
    objective: str | None = None,
    memory: int | float | None = None,
    shards: int = 64,
    durability: Durability | None = None,
    quota: int | str | None = None,
    timeout_s: float | None = None,
) -> Repository:
    """Open a repository of models, made if it isn't there.

    Parameters
    ----------
    root:
        Its folder, on a file system that the scheduler and all workers see. None: in the providers' memory, spilling to
        their scratch folders, gone with them; tensors travel in messages. Large models on one host are faster in a
        folder of its memory (``/dev/shm/...``), which is yours to delete and has no budget.
    scope:
        Models whose data and task are the same, so that they are matched and their qualities compare.
    client:
        A Dask client: coordinator and providers are deployed on its cluster if they aren't yet. None: a look at the
        root without a cluster, read-only.
    objective:
        ``max METRIC`` or ``min METRIC``: which metric is the quality in this scope. None: as it was declared before.
    memory:
        Budget for tensors in memory per provider: bytes, or a share of the worker's limit. A third or so when None.
    shards:
        Number of shards of a new repository: 64 is good for tens of providers.
    durability:
        Of a new root, which keeps it. ``"written"``, what a root has when None: what was answered survives any
        process. ``"synced"``: the host too, at the price of fsyncs. ``"volatile"``: nothing is promised; all that
        there is without a root. See docs/durability.md.
    quota:
        Most bytes that all tensors of the repository may take, on disk or in memory: a number, or a text as Dask has
        them (``"500 GB"``). Each shard has the same part of it. A put beyond is `QuotaReached` before anything is
        written, until models are retired. It holds while the cluster does: pass it again to the next one.
    timeout_s:
        Longest wait, in seconds, of each step with this handle for somebody who gives no answer. None: what
        ``daskevo.timeout`` says in Dask's configuration (such as ``"2 minutes"``), or 30. Where a repository of many
        models takes longer to open, it is waited for as long as its providers get further.

    Returns
    -------
    Repository
        With an asynchronous client, an awaitable of it.

    Raises
    ------
    SchedulerUnreachable, NoProvider, VersionMismatch
        If the cluster can't take it.
    RootUnusable, RepositoryTaken, CorruptRecord, ShardUnavailable
        If the root can't be used.
    ScopeMismatch
        If the scope has another objective.
    DurabilityMismatch
        If the root was made with another durability than the one that is asked for.
    InvalidInput
        If an argument can't be.
    """
    warn_of_unknown()
    check_scope(scope)
    timeout_s = _timeout(timeout_s)
    wanted = None if objective is None else Objective.parse(objective)
    if root is not None and not isinstance(root, (str, os.PathLike)):
        raise InvalidInput(f"root={root!r} was asked for: use a path, or None for a repository in memory")
    path = None if root is None else root_path(root)
    check_settings(path, shards, durability, memory)
    if client is None:
        if path is None:
            raise InvalidInput("without a cluster there is no repository in memory: pass client=..., or a root")
        return _open_offline(path, scope, wanted, durability, timeout_s)
    limit = quota_bytes(quota)
    settings = RepositorySettings(repository_key(root), path, shards, durability, memory, scope, versions(), limit)

    async def open_on_cluster() -> Repository:
        await deploy(client, settings, timeout_s)
        connection = ClientConnection(client, settings.key, timeout_s)
        found = await connection.session.transport.coordinator(
            "scope", timeout_s=timeout_s, scope=scope, objective=None if wanted is None else str(wanted)
        )
        return Repository(settings, scope, None if found is None else Objective.parse(found), timeout_s, connection)

    return client.sync(open_on_cluster)  # type: ignore[no-any-return]


def _open_offline(
    path: str, scope: str, wanted: Objective | None, durability: Durability | None, timeout_s: float
) -> Repository:
    connection = OfflineConnection(path, timeout_s)
    connection.root.check_durability(durability)
    declared = connection.root.scopes().get(scope)
    objective = wanted if declared is None else Objective.parse(declared)
    settings = RepositorySettings(
        repository_key(path), path, connection.root.shards, connection.root.durability, None, scope, versions()
    )
    return Repository(settings, scope, objective, timeout_s, connection)


def get_repository(scope: str | None = None, *, timeout_s: float | None = None) -> Repository:
    """Return the repository inside a task, as it is open on this cluster.

    Parameters
    ----------
    scope:
        The scope; that of the first `daskevo.open` when None.
    timeout_s:
        Longest wait of each step with this handle, as in `daskevo.open`.

    Raises
    ------
    NotDeployed
        Outside a task, if no repository is open, or if several are: hand the handle to the task then.
    """
    worker = worker_here()
    if worker is None:
        raise NotDeployed("daskevo.get_repository is for code inside a Dask task; elsewhere use daskevo.open")
    timeout_s = _timeout(timeout_s)
    plugin = provider_plugin(worker, None)
    settings: RepositorySettings = plugin.settings
    chosen = settings.scope if scope is None else check_scope(scope)
    connection = WorkerConnection(worker, plugin, timeout_s)
    found = connection.run(_scope, connection, chosen, timeout_s)
    return Repository(settings, chosen, None if found is None else Objective.parse(found), timeout_s)


def _timeout(timeout_s: float | None) -> float:
    if timeout_s is None:
        return seconds(TIMEOUT, TIMEOUT_S)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < 1e9:
        raise InvalidInput(f"timeout_s={timeout_s!r} was asked for: use a number of seconds above 0")
    return timeout_s


async def _scope(connection: WorkerConnection, scope: str, timeout_s: float) -> str | None:
    found = await connection.session.transport.coordinator("scope", timeout_s=timeout_s, scope=scope, objective=None)
    return None if found is None else str(found)
