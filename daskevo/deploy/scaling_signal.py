"""Demand for trainers, kept on the scheduler: searches report it, and clusters that scale ask for it.

Dask's own measure can't say it (`Scheduler.adaptive_target`): a search has one task per free trainer under way and
no more, and the threads of providers count there as trainers' do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from distributed import SchedulerPlugin

from daskevo.deploy.roles import EVALUATION, PROVIDER

ADAPTIVE_S = 60.0
"""A cluster counts as adaptive for this time after its last request, in seconds."""


class TrainerDemand(SchedulerPlugin):  # type: ignore[misc]
    """The number of evaluations that could run, by search, and the idle trainers.

    Registered by searches and by adaptive clusters, whichever comes first; there is one per scheduler.
    """

    name = "daskevo-trainer-demand"
    idempotent = True

    def start(self, scheduler: Any) -> None:
        """Handle messages of searches and clusters."""
        self._scheduler = scheduler
        self._wanted: dict[tuple[str, str], int] = {}
        self._asked: float | None = None
        scheduler.handlers["daskevo_want_trainers"] = self.want
        scheduler.handlers["daskevo_trainers"] = self.trainers
        scheduler.handlers["daskevo_retire_trainers"] = self.retire

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Drop a client's searches when it disconnects."""
        self._wanted = {search: wanted for search, wanted in self._wanted.items() if search[0] != client}

    def want(self, client: str, search: str, evaluations: int) -> bool:
        """Record how many evaluations a search could run at once; return whether the cluster is adaptive."""
        # A message that arrives after its client has left would keep trainers for a search that nobody runs.
        if evaluations and client in self._scheduler.clients:
            self._wanted[client, search] = evaluations
        else:
            self._wanted.pop((client, search), None)
        return self._asked is not None and time.monotonic() - self._asked < ADAPTIVE_S

    def trainers(self) -> dict[str, Any]:
        """Return ``wanted``, a number of trainers, and ``idle``, the names of trainers that can be closed.

        A trainer that is a provider too is never idle: its shards are needed.
        """
        self._asked = time.monotonic()
        trainers = list(self._trainers())
        slots = sum(int(worker.resources[EVALUATION]) for worker in trainers)
        # Not the sum of both: the tasks of a search are part of what it says that it could run.
        evaluations = max(sum(self._wanted.values()), self._tasks(trainers))
        each = slots / len(trainers) if trainers else 1
        return {"wanted": math.ceil(evaluations / each), "idle": [w.name for w in trainers if self._is_idle(w)]}

    async def retire(self, jobs: Sequence[Sequence[Any]]) -> list[bool]:
        """Close the trainers of each job, unless one of them has got work meanwhile; return the closed ones."""
        by_name = {worker.name: worker for worker in self._trainers()}
        there = [[by_name[name] for name in job if name in by_name] for job in jobs]
        idle = [all(map(self._is_idle, workers)) for workers in there]
        # From here to where the scheduler takes them for leaving nothing is awaited: no task comes in between.
        leaving = [w.address for workers, closed in zip(there, idle, strict=True) if closed for w in workers]
        if leaving:
            await self._scheduler.retire_workers(workers=leaving, close_workers=True, remove=True)
        return idle

    def _trainers(self) -> Iterator[Any]:
        return (worker for worker in self._scheduler.workers.values() if worker.resources.get(EVALUATION))

    def _tasks(self, trainers: Sequence[Any]) -> int:
        """Count evaluations that are Dask tasks, of any client: refining reports no other demand."""
        waiting = [*self._scheduler.unrunnable, *self._scheduler.queued]
        tasks = [task for worker in trainers for task in worker.processing] + waiting
        return sum(EVALUATION in (task.resource_restrictions or ()) for task in tasks)

    def _is_idle(self, worker: Any) -> bool:
        # A task that has seceded is no longer in `processing`, and still runs.
        return not (worker.processing or worker.long_running or worker.resources.get(PROVIDER))
