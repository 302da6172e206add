"""A Dask task on a trainer: its worker and versions, its messages to the run, and whether it was cancelled."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from daskevo.deploy.settings import check_versions

if TYPE_CHECKING:
    from daskevo.repository import Repository


class Sayer:
    """Sends messages of this task, also from other threads than the task's, in the order of the calls.

    Parameters
    ----------
    key:
        Of the task.
    topic:
        The Dask topic to send to.
    """

    def __init__(self, key: str, topic: str) -> None:
        self._key = key
        self._topic = topic
        self._worker = _worker()

    def __call__(self, what: str, **facts: Any) -> None:
        if (worker := self._worker) is not None:
            said = {"key": self._key, "what": what, "time": time.time(), "worker": str(worker.name)}
            worker.log_event(self._topic, {**said, **facts})


def _worker() -> Any:
    """Return the Dask worker of this task, or None outside of one."""
    from distributed import get_worker

    with suppress(ValueError):
        return get_worker()
    return None


def worker_name() -> str | None:
    """Return the name of this task's worker, or None outside of one."""
    worker = _worker()
    return None if worker is None else str(worker.name)


def check_trainer(repository: Repository | None) -> None:
    """Check that this worker trains with the versions that the run's repository was opened with.

    Opening a repository compares those of the trainers that are there; others come later.

    Raises
    ------
    VersionMismatch
        The run then gives this worker no task any more.
    """
    if repository is not None:
        check_versions(repository.settings.versions, f"worker {worker_name()!r}", trains=True)


def cancelled(key: str) -> bool:
    """Tell whether the scheduler has cancelled the task. Dask does not stop its thread, so the task must check."""
    worker = _worker()
    if worker is None:
        return False
    task = worker.state.tasks.get(key)
    # A cancelled task that still runs is forgotten by the worker, or in a state of its own.
    return task is None or task.state not in ("executing", "long-running")
