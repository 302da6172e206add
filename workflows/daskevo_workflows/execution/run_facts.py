"""Facts about a run besides its identity: its repository, workers, machine and versions."""

from __future__ import annotations

import os
import platform
import socket
from typing import TYPE_CHECKING

from daskevo.deploy.worker_list import workers_of
from daskevo.extras import other_backend, versions_of
from daskevo.types import JSON

if TYPE_CHECKING:
    from daskevo.repository import Repository

PACKAGES = ("daskevo", "dask", "distributed", "keras", "tensorflow", "numpy", "optuna")


def about_run(repository: Repository) -> dict[str, JSON]:
    """Return repository, workers, machine and versions for the record of a run that starts or resumes."""
    workers = workers_of(repository.client)
    return {
        "repository": None if repository.root is None else str(repository.root),
        "repository_id": repository.stats()["repository_id"],
        "scope": repository.scope,
        "workers": sorted(str(worker["name"]) for worker in workers.values()),
        "machine": {
            "host": socket.gethostname(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
        "versions": {"python": platform.python_version(), **versions_of(PACKAGES), **other_backend()},
    }
