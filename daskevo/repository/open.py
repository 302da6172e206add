"""Open a repository: on a cluster, without a cluster for reading, and inside a task."""

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
from daskevo.store.root import check_durability
from daskevo.types import Objective
from daskevo.wire.transport import repository_key, root_path

if TYPE_CHECKING:
    from distributed import Client

TIMEOUT = "daskevo.timeout"
"""Key in Dask's configuration of the longest wait of each step, used if `timeout_s` is None."""
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
        Its folder, on a file system that the scheduler and all workers see. None: in the providers' memory, with
        spilling to their scratch folders; it is lost with them, and tensors are sent in messages. Large models on one
        host are faster in a folder of its memory (``/dev/shm/...``), which you have to delete, and which has no budget.
    scope:
        Name of a set of models with the same data and task, so that they can be matched and their qualities compared.
    client:
        A Dask client; coordinator and providers are deployed on its cluster if needed. None: open the root read-only,
        without a cluster.
    objective:
        ``max METRIC`` or ``min METRIC``: the metric that is the quality in this scope. None: as declared before.
    memory:
        Memory budget for tensors per provider: bytes, or a share of the worker's limit. None: about a third.
    shards:
        Number of shards of a new repository; 64 is good for tens of providers.
    durability:
        Durability of a new root, which never changes. ``"written"`` (the default with a root): answered changes survive
        the death of processes. ``"synced"``: also a crash of the host, at the cost of fsyncs. ``"volatile"``: nothing
        is promised; the only one without a root. See docs/durability.md.
    quota:
        Limit of the bytes of all tensors of the repository, on disk or in memory: a number, or a text in Dask's form
        (``"500 GB"``). Each shard has an equal part of it. A put beyond it raises `QuotaReached` before anything is
        written, until models are retired. It is valid for this cluster only: pass it again to the next one.
    timeout_s:
        Longest wait of each step with this handle for an answer, in seconds. None: the value of ``daskevo.timeout`` in
        Dask's configuration (such as ``"2 minutes"``), or 30. If opening a repository of many models takes longer, it
        is waited for as long as its providers make progress.

    Returns
    -------
    Repository
        With an asynchronous client, an awaitable of it.

    Raises
    ------
    SchedulerUnreachable, NoProvider, VersionMismatch
        If the cluster can't serve it.
    RootUnusable, RepositoryTaken, CorruptRecord, ShardUnavailable
        If the root can't be used.
    ScopeMismatch
        If the scope has another objective.
    DurabilityMismatch
        If the root has another durability.
    InvalidInput
        If an argument is not valid.
    """
    # Again at each opening: a program may have set a misspelt name since daskevo was imported.
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
        # The coordinator must be there before its scope can be asked for.
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
    check_durability(connection.root.path, connection.root.durability, durability)
    # Nothing is written without a cluster, so an objective that isn't declared yet holds for this handle only.
    declared = connection.root.scopes().get(scope)
    objective = wanted if declared is None else Objective.parse(declared)
    settings = RepositorySettings(
        repository_key(path), path, connection.root.shards, connection.root.durability, None, scope, versions()
    )
    return Repository(settings, scope, objective, timeout_s, connection)


def get_repository(scope: str | None = None, *, timeout_s: float | None = None) -> Repository:
    """Return the repository that is open on this cluster, inside a task.

    Parameters
    ----------
    scope:
        The scope; that of the first `daskevo.open` when None.
    timeout_s:
        Longest wait of each step with this handle, in seconds, as in `daskevo.open`.

    Raises
    ------
    NotDeployed
        Outside a task; if no repository is open; or if several are: pass the handle to the task then.
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
