"""Query the scheduler for the present workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def workers_of(client: Any) -> Mapping[str, Any]:
    """Return the scheduler's data of all workers, by address.

    Not by `client.scheduler_info`: its answer may be overwritten, before it is read, by the client's own regular look
    at the scheduler, which asks for no workers; all would seem to be gone.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    """
    workers: Mapping[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return workers
