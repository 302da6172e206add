"""A storage of DeepHyper's that every worker of a Dask cluster reaches: it lives on the scheduler.

DeepHyper's MemoryStorage is empty wherever it is sent to, so that stoppers and the status of a job do not work on
workers; its others need Redis, Ray or MPI.
"""

from __future__ import annotations

import uuid
from typing import Any

from deephyper.evaluator.storage import Storage
from distributed import Client, default_client, get_worker
from distributed.protocol import to_serialize

from daskevo.errors import ClusterError, InvalidInput, SchedulerUnreachable
from daskevo.wire.dask_private import sync
from daskevo_plugins.deephyper.scheduler_storage import OPERATION, StorageKeeper

TIMEOUT_S = 60.0


class DaskStorage(Storage):  # type: ignore[misc]
    """DeepHyper's storage on Dask's scheduler.

    Parameters
    ----------
    client:
        A synchronous Dask client; the process' own when None.
    name:
        Storages of one name are one storage, also for other clients of the cluster; drawn when None.
    timeout_s:
        Longest that a call waits for the scheduler.

    Notes
    -----
    It can be sent to workers; a call takes about a millisecond. What it holds goes when the last client that opened it
    has been gone for ten minutes, or with the scheduler.

    Raises
    ------
    SchedulerUnreachable
        By every call, if the scheduler doesn't answer.
    ClusterError
        By every call, if the scheduler has no such storage (any more).
    KeyError
        If a search, job or value is unknown.
    """

    def __init__(self, client: Client | None = None, name: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__()
        self.name = name or uuid.uuid4().hex
        self.timeout_s = timeout_s
        self._client = client

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the client, which can't be sent: on a worker its connection to the scheduler is used.
        return _opened, (self.name, self.timeout_s)

    def __repr__(self) -> str:
        return f"DaskStorage(name={self.name!r})"

    def _connect(self) -> None:
        client = self._client or default_client()
        if client.asynchronous:
            raise InvalidInput("DeepHyper's searches are synchronous: give DaskStorage a synchronous Dask client")
        client.register_plugin(StorageKeeper())
        self._client = client
        self._call("open", client.id)
        self.connected = True

    def _call(self, operation: str, *arguments: Any) -> Any:
        message = {"storage": self.name, "operation": operation, "arguments": arguments}
        try:
            reply = self._sent(message)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise SchedulerUnreachable(
                f"the scheduler doesn't answer DeepHyper's storage ({error or type(error).__name__}): what was "
                "finished is in results.csv of the search's log_dir; start the cluster again"
            ) from error
        if not isinstance(reply, dict) or reply.get("missing") == self.name:
            raise ClusterError(
                f"the scheduler has no storage {self.name!r}: it was started again, or all clients that had opened the "
                "storage left; begin the search again"
            )
        if "missing" in reply:
            raise KeyError(reply["missing"])
        return reply["value"]

    def _sent(self, message: dict[str, Any]) -> Any:
        try:
            worker = get_worker()
        except ValueError:
            client = self._client or default_client()
            call = getattr(client.scheduler, OPERATION)
            return client.sync(call, callback_timeout=self.timeout_s, **message)
        # The worker's own connection, which is there: a client would have to be connected first.
        call = getattr(worker.scheduler, OPERATION)
        return sync(worker.loop, call, callback_timeout=self.timeout_s, **message)

    def create_new_search(self) -> str:
        # Not 0, 1, 2, ...: jobs name models, and several storages may use one repository.
        return str(self._call("create_search", f"dh{uuid.uuid4().hex[:10]}"))

    def create_new_job(self, search_id: str) -> str:
        return str(self._call("create_job", search_id))

    def store_search_value(self, search_id: str, key: str, value: Any) -> None:
        self._call("set_search_value", search_id, key, to_serialize(value))

    def load_search_value(self, search_id: str, key: str) -> object:
        return self._call("search_value", search_id, key)

    def store_job(self, job_id: str, key: str, value: Any) -> None:
        # The status is compared on the scheduler's side; all else goes through it without being read, or unpickled,
        # there.
        self._call("set_job", job_id, key, value if key == "status" else to_serialize(value))

    def store_job_in(self, job_id: str, args: tuple[Any, ...] | None = None, kwargs: Any = None) -> None:
        self.store_job(job_id, "in", {"args": args, "kwargs": kwargs})

    def store_job_out(self, job_id: str, value: Any) -> None:
        self.store_job(job_id, "out", value)

    def store_job_metadata(self, job_id: str, key: str, value: Any) -> None:
        self._call("set_metadata", job_id, key, None if value is None else to_serialize(value))

    def load_all_search_ids(self) -> list[str]:
        return list(self._call("searches"))

    def load_all_job_ids(self, search_id: str) -> list[str]:
        return list(self._call("jobs_of", search_id))

    def load_search(self, search_id: str) -> dict[str, Any]:
        return dict(self._call("search", search_id))

    def load_job(self, job_id: str) -> dict[str, Any]:
        return dict(self._call("job", job_id))

    def load_metadata_from_all_jobs(self, search_id: str, key: str) -> list[Any]:
        return list(self._call("metadata_of_all", search_id, key))

    def load_out_from_all_jobs(self, search_id: str) -> list[Any]:
        return list(self._call("outputs_of_all", search_id))

    def load_jobs(self, job_ids: list[str]) -> dict[str, Any]:
        return dict(self._call("jobs", list(job_ids)))

    def store_job_status(self, job_id: str, job_status: int) -> None:
        self.store_job(job_id, "status", int(job_status))

    def load_job_status(self, job_id: str) -> int:
        return int(self._call("status", job_id))


def _opened(name: str, timeout_s: float) -> DaskStorage:
    storage = DaskStorage(name=name, timeout_s=timeout_s)
    storage.connected = True
    return storage
