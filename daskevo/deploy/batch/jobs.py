"""A dask-jobqueue cluster whose jobs are nodes of trainers and providers: scaled by trainers, drained, replaced."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_bytes, parse_timedelta
from distributed.core import Status
from distributed.deploy.cluster import Cluster

from daskevo.deploy.adaptive import AdaptiveTrainers, check_limits
from daskevo.deploy.batch.first_workers import ARRIVE_S, last_words
from daskevo.deploy.batch.job_status import ask_for
from daskevo.deploy.batch.leave_notice import let_go
from daskevo.deploy.batch.log_folder import remove_if_empty
from daskevo.deploy.configured import seconds
from daskevo.deploy.roles import EVALUATION
from daskevo.errors import BatchSystemError, InvalidInput
from daskevo.wire.dask_private import NoOpAwaitable

logger = logging.getLogger(__name__)

RETIRE_S = 60.0
"""Longest wait for workers to leave in order before their job is cancelled all the same."""
UNHEARD_S = 2.0
"""Time after which a failure that no call has raised is logged, in seconds."""
AGAIN_S = 60.0
"""Seconds after which jobs are submitted again to a batch system that did not answer."""
LOOK_AFTER_S = (5.0, 10.0, 30.0, 60.0)
"""After how long the batch system is asked for a job of which nothing has come, again and again at the last."""
SHORT_S = 60.0
SHORT_LIVES = 3
"""A job whose workers were there for less than SHORT_S, and a quarter of their lifetime, so many times in a row is not
submitted again."""


@dataclass
class _JobWorkers:
    """What is known of a job's workers.

    `arrivals`: how many have come so far; `since`: when the first of those came that are there; `came`: their names;
    `short`: how many times in a row they were there for a short time only.
    """

    arrivals: int = 0
    since: float | None = None
    came: set[str] = field(default_factory=set)
    short: int = 0


class BatchCluster:
    """What is mixed into dask-jobqueue's class of a cluster; made by :func:`daskevo.batch_cluster`.

    `scale(n)` counts trainers, `scale(jobs=n)` jobs, without those of providers only. Jobs that wait in the queue go
    first, then those that have nothing to do. Workers leave in order, providers after they have handed their shards
    over, before their job is cancelled. A job that ends by itself, at its lifetime or because it was killed, is
    submitted again.
    """

    kind: str
    """The batch system."""
    trainers_per_job: int
    failures: list[BatchSystemError]
    """What went wrong with jobs since the cluster was made."""
    made: Sequence[Path] = ()
    """Folders that were made for what jobs write."""

    worker_spec: dict[Any, Any]
    workers: dict[Any, Any]
    scheduler: Any
    scheduler_comm: Any
    scheduler_info: Mapping[str, Any]
    status: Any
    loop: Any
    asynchronous: bool
    _i: int

    def __init__(
        self,
        *,
        kind: str,
        trainers: int,
        providers: int,
        provider_jobs: int,
        provider_options: Mapping[str, Any],
        lifetime_s: float,
        **options: Any,
    ) -> None:
        self.kind = kind
        self.trainers_per_job = trainers
        self._workers_per_job = trainers + providers
        self.failures = []
        self._raised: set[int] = set()
        self._short_s = min(SHORT_S, lifetime_s / 4)
        self._job_workers: dict[Any, _JobWorkers] = {}
        self._took_some = False
        self._watched: dict[Any, Any] = {}
        self._asking: set[asyncio.Future[None]] = set()
        self._provider_jobs: set[str] = set()
        try:
            super().__init__(**options)
        except Exception:
            self.status = Status.closed  # a cluster that was never made is not to be closed, nor missed
            raise
        of_providers = {**self._job_kwargs, **provider_options}  # type: ignore[attr-defined]
        for number in range(provider_jobs):
            name = f"{self._name}-providers-{number}"  # type: ignore[attr-defined]
            self._provider_jobs.add(name)
            self.worker_spec[name] = {"cls": self.job_cls, "options": of_providers}  # type: ignore[attr-defined]
        if provider_jobs:
            self.loop.add_callback(self._correct_state)  # type: ignore[attr-defined]

    # How many

    def scale(self, n: int | None = None, jobs: int | None = None, memory: Any = None, cores: int | None = None) -> Any:
        """Have `n` trainers in whole jobs, or so many jobs, or as many as have so much memory (bytes), or cores."""
        if self.status in (Status.closing, Status.closed):
            self.worker_spec.clear()
        else:
            options = self._job_kwargs  # type: ignore[attr-defined]
            wanted = [0 if jobs is None else jobs]
            wanted.append(0 if n is None else math.ceil(n / max(1, self.trainers_per_job)))
            wanted.append(0 if memory is None else math.ceil(parse_bytes(memory) / parse_bytes(options["memory"])))
            wanted.append(0 if cores is None else math.ceil(cores / options["cores"]))
            there = [name for name in self.worker_spec if name not in self._provider_jobs]
            there_since = {name: number for number, name in enumerate(there)}
            spare = len(there) - max(wanted)
            # Of jobs that are alike the youngest go first, as in clusters of Dask's own.
            there.sort(key=lambda name: (self._worth(name), -there_since[name]))
            for name in there[: max(0, spare)]:
                del self.worker_spec[name]
            for _ in range(-spare):
                self.worker_spec.update(self.new_worker_spec())
        self.loop.add_callback(self._correct_state)  # type: ignore[attr-defined]
        return NoOpAwaitable() if self.asynchronous else None

    def adapt(
        self,
        Adaptive: Any = AdaptiveTrainers,
        *,
        minimum: int | None = None,
        maximum: float | None = None,
        minimum_jobs: int | None = None,
        maximum_jobs: int | None = None,
        **options: Any,
    ) -> Any:
        """Have as many trainers as searches could use, from ``minimum`` to ``maximum`` of them, or ``minimum_jobs`` to
        ``maximum_jobs``: whole jobs in any case, so no more trainers than these have.

        Where providers run beside trainers, one job stays at least: without it nobody would keep the models.

        Raises
        ------
        InvalidInput
            If no number of jobs is within these limits.
        """
        check_limits(minimum, maximum)
        check_limits(minimum_jobs, maximum_jobs, "jobs")
        if (minimum is not None and minimum_jobs is not None) or (maximum is not None and maximum_jobs is not None):
            raise InvalidInput("a limit was given both of trainers and of jobs: leave one of them out")
        each = self.trainers_per_job
        least = minimum_jobs if minimum_jobs is not None else math.ceil((minimum or 0) / each)
        if not self._provider_jobs:
            least = max(least, 1)
        most = maximum_jobs
        if maximum is not None:
            most = None if maximum == math.inf else int(maximum // each)
        if most is not None and most < max(least, 1):
            raise InvalidInput(
                f"from {least * each} to {most * each} trainers in whole jobs of {each} are within the limits: ask for "
                f"a maximum of {max(least, 1) * each} trainers, or {max(least, 1)} jobs, or more",
                minimum_jobs=least,
                maximum_jobs=most,
            )
        return super().adapt(  # type: ignore[misc]
            Adaptive=Adaptive, minimum=least * each, maximum=math.inf if most is None else most * each, **options
        )

    def _worth(self, job: Any) -> int:
        """Return 0 for a job that waits in the queue, 1 for one that has nothing to do, 2 for others."""
        present = [worker for worker in self._live().values() if self._job_of(worker.name) == job]
        if not present:
            return 0
        return 1 + any(worker.processing for worker in present if worker.resources.get(EVALUATION))

    def _live(self) -> Mapping[str, Any]:
        return dict(self.scheduler.workers) if self.scheduler is not None else {}

    def _job_of(self, worker: Any) -> Any:
        """Return the job that a worker of this name belongs to."""
        parts = str(worker).split("-")
        # A worker is named by its job and a suffix (see `plan_node`), and a job's name has hyphens itself: the longest
        # prefix that is a job counts.
        prefixes = ("-".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((name for name in prefixes if name in self.worker_spec or name in self.workers), None)

    @property
    def plan(self) -> set[Any]:
        """Names of the trainers that should exist."""
        return self._without_providers(super().plan)  # type: ignore[misc]

    @property
    def requested(self) -> set[Any]:
        """Names of the trainers that were asked for."""
        return self._without_providers(super().requested)  # type: ignore[misc]

    def _without_providers(self, names: Iterable[Any]) -> set[Any]:
        return {name for name in names if name not in self._provider_jobs}

    # What goes wrong

    def raise_failure(self) -> None:
        """Raise the last error, if there is one, in a call that waits for jobs."""
        if self.failures:
            self._raised.add(id(self.failures[-1]))
            raise self.failures[-1]

    def _note(self, error: BatchSystemError) -> None:
        """Keep what went wrong, and log it a moment later unless somebody has raised it or the cluster has ended."""
        self.failures.append(error)
        asyncio.get_running_loop().call_later(UNHEARD_S, self._say, error)

    def _say(self, error: BatchSystemError) -> None:
        if id(error) not in self._raised and self.status is Status.running:
            logger.warning("%s", error)

    # Coming and going

    def new_worker_spec(self) -> dict[Any, Any]:
        """Return the name and the specification of one more job.

        No name is used twice: workers of a job that is leaving may still have it.
        """
        spec: dict[Any, Any] = super().new_worker_spec()  # type: ignore[misc]
        self._i += 1
        return spec

    async def _close(self) -> None:
        await super()._close()  # type: ignore[misc]
        # Now that no job writes there any more.
        remove_if_empty(self.made)
        # Certificates that dask-jobqueue has written for the jobs: files that are removed when they are closed.
        for name in ("ca_file", "cert", "key"):
            if (file := getattr(self, f"_job_{name}", None)) is not None:
                file.close()

    async def _correct_state_internal(self) -> None:
        leaving = set(self.workers) - set(self.worker_spec)
        if leaving and self.status is Status.running:
            await self._drain(leaving)
        try:
            await super()._correct_state_internal()  # type: ignore[misc]
        except BatchSystemError as error:
            self._note(error)
            # A batch system that has taken jobs and doesn't answer now will answer again.
            took_some = self._took_some or any(job.job_id for job in self.workers.values())
            again = took_some and error.facts.get("answered") is False
            # Dask counts a job as there as soon as it was tried. Taken out again, it can be submitted anew, or is given
            # up.
            for name, job in list(self.workers.items()):
                if job.job_id is None:
                    job.status = Status.failed
                    del self.workers[name]
                    if not again:
                        self.worker_spec.pop(name, None)
            if again:
                asyncio.get_running_loop().call_later(AGAIN_S, self._submit_again)
        submitted = {name: job for name, job in self.workers.items() if job.job_id is not None}
        for name, job in submitted.items():
            # By identity: a job that is submitted anew has the name of the one before.
            if self._watched.get(name) is not job:
                asyncio.get_running_loop().call_later(LOOK_AFTER_S[0], self._look, name, job, 0)
        self._watched = submitted
        # Once a job is neither wanted nor there: until then its count of short lives must outlast that it is replaced.
        for name in set(self._job_workers) - set(self.worker_spec) - set(self.workers):
            del self._job_workers[name]

    def _submit_again(self) -> None:
        if self.status is Status.running:
            self._correct_state()  # type: ignore[attr-defined]

    async def _drain(self, jobs: set[Any]) -> None:
        """Have the workers of these jobs leave: trainers first, then providers, which hand their shards over."""
        present = [worker for worker in self._live().values() if self._job_of(worker.name) in jobs]
        for trains in (True, False):
            addresses = [worker.address for worker in present if bool(worker.resources.get(EVALUATION)) is trains]
            if not addresses:
                continue
            try:
                await let_go(self.scheduler_comm, addresses, RETIRE_S)
            except (OSError, TimeoutError) as error:
                logger.warning("%d workers did not leave in order: %s", len(addresses), error)

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Replace a job whose workers have all gone, and are still gone a while later."""
        if op == "add":
            for worker in msg["workers"].values():
                job = self._job_of(worker["name"])
                self._took_some = True
                if job is None:
                    continue
                known = self._job_workers.setdefault(job, _JobWorkers())
                known.arrivals += 1
                known.came.add(str(worker["name"]))
                if known.since is None:
                    known.since = time.monotonic()
                    wait_s = seconds("daskevo.batch.arrive-timeout", ARRIVE_S)
                    asyncio.get_running_loop().call_later(wait_s, self._count, job, known.since, wait_s)
        elif op == "remove":
            job = self._job_of(self.scheduler_info["workers"][msg]["name"])
            # A worker may only have lost its connection: give it the time that Dask gives it.
            delay = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))
            if job in self._job_workers:
                arrivals = self._job_workers[job].arrivals
                asyncio.get_running_loop().call_later(delay, self._replace, job, arrivals, time.monotonic())
        # Not `SpecCluster`'s, which looks for the worker's name among those of jobs: a job here has several workers.
        Cluster._update_worker_status(self, op, msg)

    def _count(self, job: Any, since: float, waited_s: float) -> None:
        """Say of a job, a while after its first worker came, that it has fewer than it should."""
        known = self._job_workers.get(job)
        if known is None or known.since != since or job not in self.worker_spec or self.status is not Status.running:
            return
        expected = 1 if job in self._provider_jobs else self._workers_per_job
        came = sorted(known.came)
        if len(came) < expected:
            number = str(self.workers[job].job_id)
            logger.warning(
                "of job %s %d of %d workers have come in %g s (%s), and it is used with those. %s",
                *(number, len(came), expected, waited_s, ", ".join(came), last_words(self, number)),
            )

    def _look(self, name: Any, job: Any, times: int) -> None:
        """Ask the batch system for a job of which no worker has come yet, seldom: it may wait in the queue for days."""
        if self._is_awaited(name, job):
            asking = asyncio.ensure_future(self._look_at(name, job, times))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)

    def _is_awaited(self, name: Any, job: Any) -> bool:
        known = self._job_workers.get(name)
        return (
            self.workers.get(name) is job and (known is None or known.since is None) and self.status is Status.running
        )

    async def _look_at(self, name: Any, job: Any, times: int) -> None:
        number = str(job.job_id)
        # In a thread: `scontrol` may take seconds, and the scheduler lives on this event loop.
        report = await asyncio.to_thread(ask_for, self.kind, number)
        if not self._is_awaited(name, job):
            return
        if report.state != "over":
            wait_s = LOOK_AFTER_S[min(times + 1, len(LOOK_AFTER_S) - 1)]
            asyncio.get_running_loop().call_later(wait_s, self._look, name, job, times + 1)
            return
        self._submit_instead(
            name, 0.0, f"job {number} ended before a worker of it came: {report.why}. {last_words(self, number)}"
        )

    def _replace(self, job: Any, arrivals: int, lost: float) -> None:
        present = any(self._job_of(worker["name"]) == job for worker in self.scheduler_info["workers"].values())
        known = self._job_workers.get(job)
        if job not in self.workers or present or known is None or self.status is not Status.running:
            return
        if known.arrivals != arrivals:
            return
        known.arrivals += 1  # each of its workers that went has this called: once is enough
        lived_s = 0.0 if known.since is None else lost - known.since
        known.since = None
        number = str(self.workers[job].job_id)
        self._submit_instead(
            job, lived_s, f"the workers of job {number} left after {lived_s:.0f} s. {last_words(self, number)}"
        )

    def _submit_instead(self, job: Any, lived_s: float, found: str) -> None:
        """Submit a job anew whose workers have gone after some seconds, unless that happens again and again."""
        known = self._job_workers.setdefault(job, _JobWorkers())
        known.came.clear()
        known.short = known.short + 1 if lived_s < self._short_s else 0
        # Out of `workers` and still in `worker_spec`: that is what has Dask submit it anew.
        closing = asyncio.ensure_future(self.workers.pop(job).close())
        self._futures.add(closing)  # type: ignore[attr-defined]
        if known.short >= SHORT_LIVES:
            self._note(
                BatchSystemError(
                    f"the workers of job {job} left within {self._short_s:g} s {SHORT_LIVES} times in a row: it is not "
                    f"submitted again. {found}",
                    job=job,
                )
            )
            self.worker_spec.pop(job, None)
        elif known.short:
            logger.warning("%s\nIt is submitted again, %d times in all", found, SHORT_LIVES)
        self._correct_state()  # type: ignore[attr-defined]
