"""Names of Dask and dask-jobqueue outside their public API that daskevo uses, in one place and pinned by a test.

Private functions are imported from here. Private methods of classes that daskevo subclasses, and undocumented
attributes of objects that Dask passes in, are listed in tables; ``tests/cluster/test_dask_private.py`` compares them
with the installed versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed.core import Status, send_recv
from distributed.utils import NoOpAwaitable, json_load_robust, sync
from distributed.worker import WORKER_ANY_RUNNING, thread_state

__all__ = [
    "ATTRIBUTES",
    "HEARTBEAT",
    "HOOKS",
    "WORKER_ANY_RUNNING",
    "NoOpAwaitable",
    "json_load_robust",
    "pages",
    "plots",
    "refusal_of",
    "send_recv",
    "sync",
    "task_stream",
    "thread_state",
]

# By name, not imported: dask-jobqueue is an extra.
HOOKS: Mapping[str, tuple[str, ...]] = {
    "distributed.deploy.cluster.Cluster": ("_update_worker_status",),
    "distributed.deploy.spec.SpecCluster": (
        "_close",
        "_correct_state",
        "_correct_state_internal",
        "_futures",
        "_i",
        "_memory_per_worker",
        "_threads_per_worker",
    ),
    "dask_jobqueue.core.JobQueueCluster": ("_job_kwargs", "_name"),
}
"""Private names of Dask's and dask-jobqueue's classes that daskevo's subclasses call, override or read."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "scheduler": (
        *("aliases", "broadcast", "clients", "handlers", "http_application", "plugins", "queued"),
        *("rpc", "tasks", "unrunnable", "workers"),
    ),
    "worker": (
        *("active_threads", "handlers", "memory_manager", "monitor", "plugin_add", "plugin_remove", "plugins"),
        *("rpc", "state"),
    ),
    "worker.memory_manager": (
        *("memory_limit", "memory_monitor_interval", "memory_pause_fraction", "memory_spill_fraction"),
        "memory_target_fraction",
    ),
    "worker.state": ("long_running", "tasks", "total_resources"),
    "client": ("loop", "rpc", "scheduler", "status"),
    "client.rpc": ("connect", "connection_args", "reuse", "status"),
}
"""Attributes of Dask's objects that its documentation does not mention."""

HEARTBEAT = "heartbeat"
"""The method of a Dask worker that logs an OSError itself if the scheduler can't be reached."""

ENCRYPTED = ("tls", "wss")
"""Schemes of addresses whose connections are encrypted."""


def refusal_of(pool: Any, address: str) -> str | None:
    """Return why a connection pool refuses to connect to an address in its present state, or None if it doesn't.

    Dask raises a bare RuntimeError in these cases, which can be told apart only by its text.

    Parameters
    ----------
    pool:
        `Client.rpc`, `Worker.rpc` or `Scheduler.rpc`.
    """
    if pool.status != Status.running:
        return "this process' connections to the cluster are closed"
    if pool.connection_args.get("require_encryption") and address.partition("://")[0] not in ENCRYPTED:
        return "encryption required by Dask's configuration, and this address has none"
    return None


def pages(scheduler: Any) -> list[str]:
    """Return the list of pages that Dask's dashboard links to; append a name to have it linked too."""
    # Imported here, since it needs Bokeh, which only Dask's dashboard needs.
    from distributed.dashboard.scheduler import template_variables

    found: list[str] = template_variables(scheduler)["pages"]
    return found


def plots() -> Any:
    """Return the handler class of the route that lists plots for JupyterLab's Dask extension."""
    from distributed.http.scheduler.info import IndividualPlots

    return IndividualPlots


def task_stream(scheduler: Any) -> Any:
    """Return the plugin that holds what Dask's task stream shows (its `buffer`, and `index`, a count of all that was
    added), or None where nobody has looked at the stream."""
    from distributed.diagnostics.task_stream import TaskStreamPlugin

    return scheduler.plugins.get(TaskStreamPlugin.name)
