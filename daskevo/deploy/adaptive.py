"""Adaptive scaling: as many trainers as searches have evaluations to run, within limits.

For `daskevo.local_cluster`, and for clusters of trainers beside providers as dask-jobqueue makes them:
``cluster.adapt(Adaptive=AdaptiveTrainers, minimum=4, maximum=64)``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from distributed.deploy.adaptive import Adaptive
from distributed.protocol.pickle import dumps

from daskevo.deploy.roles import EVALUATION, PROVIDER
from daskevo.deploy.scaling_signal import TrainerDemand
from daskevo.errors import InvalidInput


def check_limits(minimum: Any, maximum: Any, what: str = "trainers") -> None:
    """Check the limits of the number of trainers; None: no limit.

    Raises
    ------
    InvalidInput
        If it can't.
    """
    least = 0 if minimum is None else minimum
    most = math.inf if maximum is None else maximum
    good = type(least) is int and (type(most) is int or most == math.inf) and 0 <= least <= most and most >= 1
    if not good:
        raise InvalidInput(
            f"minimum={minimum!r:.40} and maximum={maximum!r:.40} of {what} were asked for: use whole numbers, a "
            "minimum from 0, and a maximum that is at least 1 and no smaller",
            minimum=str(minimum),
            maximum=str(maximum),
        )


class AdaptiveTrainers(Adaptive):  # type: ignore[misc]
    """`distributed.deploy.Adaptive` that counts trainers only, and requests as many as searches can use.

    `minimum` and `maximum` are numbers of trainers; `interval` (seconds) and `wait_count` are Dask's. A trainer with an
    evaluation is never closed, nor one that shares a batch job with such a trainer. A provider that shares a job with
    trainers goes with that job, in order where it is one of `daskevo.batch_cluster`; providers of their own stay. With
    a minimum of 0 a search that has no trainer waits for one, as long as the cluster is adaptive.

    The cluster's `scale` must count trainers: true where all of its workers are trainers, and of `local_cluster`.
    """

    # Dask's `Adaptive` asks for it when it is deleted, also if `__init__` has refused the limits.
    state: Any = "inactive"
    _idle: frozenset[Any] = frozenset()
    _registered = False

    def __init__(self, cluster: Any, *, minimum: Any = None, maximum: Any = None, **options: Any) -> None:
        check_limits(minimum, maximum)
        super().__init__(cluster, minimum=minimum, maximum=maximum, **options)

    async def target(self) -> int:
        """Return how many trainers searches can use, and record which are idle."""
        if not self._registered:
            # A bare call to the scheduler: `Client.register_plugin`, which pickles plugins itself, needs a client.
            await self.scheduler.register_scheduler_plugin(
                plugin=dumps(TrainerDemand()), name=TrainerDemand.name, idempotent=True
            )
            self._registered = True
        answer = await self.scheduler.daskevo_trainers()
        self._idle = frozenset(answer["idle"])
        return int(answer["wanted"])

    @property
    def plan(self) -> set[Any]:
        """Names of the trainers that should exist."""
        return {name for name in self.cluster.plan if name not in self._others()}

    @property
    def requested(self) -> set[Any]:
        """Names of the requested trainers."""
        return {name for name in self.cluster.requested if name not in self._others()}

    def _others(self) -> set[Any]:
        """Names of workers that are providers only."""
        resources = {
            name: spec.get("options", {}).get("resources") or {}
            for name, spec in getattr(self.cluster, "worker_spec", {}).items()
        }
        return {name for name, found in resources.items() if PROVIDER in found and EVALUATION not in found}

    def _jobs(self) -> Mapping[Any, list[Any]]:
        """Names of trainers, grouped by what starts and closes together: a batch job, or a single trainer."""
        job_of: dict[Any, Any] = {}
        for job, spec in getattr(self.cluster, "worker_spec", {}).items():
            job_of.update((str(job) + suffix, job) for suffix in spec.get("group", ()))
        jobs: dict[Any, list[Any]] = defaultdict(list)
        for name in self.plan:
            jobs[job_of.get(name, name)].append(name)
        return jobs

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Return recommendations as Dask's class does, but close whole jobs only, and never go below the target."""
        # A cluster that is still starting or closing workers: let it come to rest, as Dask's own class does.
        if len(self.plan) != len(self.requested):
            await self.cluster
        spare = len(self.plan) - target
        if spare <= 0:
            self.close_counts.clear()
            return {"status": "up", "n": target} if spare else {"status": "same"}
        arrived = self.observed
        closed = []
        # Jobs that wait in the batch system's queue go first.
        for job, names in sorted(self._jobs().items(), key=lambda item: not arrived.isdisjoint(item[1])):
            if len(names) <= spare and all(name in self._idle or name not in arrived for name in names):
                spare -= len(names)
                closed.append(job)
        # A job has to be spare `wait_count` times in a row: one that is needed in between begins from 0.
        counts = {job: self.close_counts[job] + 1 for job in closed}
        self.close_counts.clear()
        self.close_counts.update(counts)
        ripe = [job for job, count in counts.items() if count >= self.wait_count]
        return {"status": "down", "workers": ripe} if ripe else {"status": "same"}

    async def scale_down(self, workers: list[Any]) -> None:
        """Close these jobs, except those in which an evaluation has begun meanwhile."""
        members = self._jobs()
        # The scheduler decides, without a pause between looking and closing: here a task could begin in between.
        retired = await self.scheduler.daskevo_retire_trainers(jobs=[members[job] for job in workers])
        closed = [job for job, yes in zip(workers, retired, strict=True) if yes]
        if closed:
            await self.cluster.scale_down(closed)
