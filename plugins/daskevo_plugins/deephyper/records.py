"""What a storage of DeepHyper's holds, as a pure state machine: searches, jobs, and values that nobody reads here.

It lives on Dask's scheduler, where values stay as they came over the wire. Needs neither DeepHyper nor Dask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

OPERATIONS = (
    *("create_search", "create_job", "searches", "search", "search_value", "set_search_value", "jobs_of"),
    *("job", "jobs", "set_job", "set_metadata", "metadata_of_all", "outputs_of_all", "status"),
)


class Records:
    """The searches of one storage.

    A job's id is ``SEARCH.NUMBER``, as in DeepHyper's own storages: its stoppers take it apart.
    """

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}
        self._jobs: dict[str, dict[str, dict[str, Any]]] = {}

    def apply(self, operation: str, arguments: Iterable[Any]) -> object:
        """Do one of `OPERATIONS`; raises KeyError if it, a search, a job or a value is unknown."""
        # Names come over the wire: without the list, any attribute could be called.
        if operation not in OPERATIONS:
            raise KeyError(operation)
        function: Callable[..., Any] = getattr(self, operation)
        return function(*arguments)

    def create_search(self, search: str) -> str:
        self._values[search] = {}
        self._jobs[search] = {}
        return search

    def create_job(self, search: str) -> str:
        jobs = self._jobs[search]
        job = f"{search}.{len(jobs)}"
        jobs[job] = {
            "status": 0,
            "in": None,
            "out": None,
            "metadata": {},
            "intermediate": {"budget": [], "objective": []},
        }
        return job

    def searches(self) -> list[str]:
        return list(self._jobs)

    def search(self, search: str) -> dict[str, Any]:
        return {job.partition(".")[2]: record for job, record in self._jobs[search].items()}

    def search_value(self, search: str, key: str) -> object:
        return self._values[search][key]

    def set_search_value(self, search: str, key: str, value: Any) -> None:
        self._values[search][key] = value

    def jobs_of(self, search: str) -> list[str]:
        return list(self._jobs[search])

    def job(self, job: str) -> Mapping[str, Any]:
        return self._jobs[job.partition(".")[0]][job]

    def jobs(self, jobs: Iterable[str]) -> dict[str, Any]:
        return {job: self.job(job) for job in jobs}

    def set_job(self, job: str, key: str, value: Any) -> None:
        self._jobs[job.partition(".")[0]][job][key] = value

    def set_metadata(self, job: str, key: str, value: Any) -> None:
        self.job(job)["metadata"][key] = value

    def metadata_of_all(self, search: str, key: str) -> list[Any]:
        found = (record["metadata"].get(key) for record in self._jobs[search].values())
        return [value for value in found if value is not None]

    def outputs_of_all(self, search: str) -> list[Any]:
        return [record["out"] for record in self._jobs[search].values() if record["out"] is not None]

    def status(self, job: str) -> int:
        return int(self.job(job)["status"])
