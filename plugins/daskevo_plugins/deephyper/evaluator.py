"""DeepHyper's searches on a Dask cluster: each evaluation is a Dask task on a trainer."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deephyper.evaluator import Evaluator, HPOJob, Job, JobStatus, RunningJob
from deephyper.evaluator.storage import MemoryStorage, Storage
from distributed import CancelledError, Client, KilledWorker, default_client

from daskevo.deploy.roles import EVALUATION
from daskevo.errors import InvalidInput, NoTrainer, SchedulerUnreachable
from daskevo_plugins.deephyper.outcomes import checked, failure, failure_of
from daskevo_plugins.deephyper.storage import DaskStorage

logger = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often an evaluation that goes on is looked at: whether any trainer is left."""
SUBMISSIONS = 3
"""Tries of an evaluation whose task was lost with the connection to the scheduler."""


class DaskEvaluator(Evaluator):  # type: ignore[misc]
    """Evaluate run functions on the trainers of a Dask cluster.

    Parameters
    ----------
    run_function:
        ``run(job)``, as for any evaluator of DeepHyper's; it must be there for workers to import, or be sent with
        cloudpickle.
    client:
        A synchronous Dask client; the process' own when None.
    num_workers:
        Evaluations at a time; as many as the trainers take when None.
    resources:
        What an evaluation takes of a worker. When None, ``{"evaluation": 1}`` where workers offer that (the trainers of
        `daskevo.local_cluster`), else one thread.
    callbacks, run_function_kwargs, search_id:
        As DeepHyper takes them.
    storage:
        A new :class:`DaskStorage` when None. One that workers can reach: in a MemoryStorage stoppers see nothing.
    grace_s:
        When the search's time is over, a running evaluation's status becomes ``CANCELLING``, which its run function
        must look at (:func:`daskevo_plugins.deephyper.follow` does). It is waited for so many seconds, for ever when
        None, as DeepHyper's own evaluators do; then its task is taken back, and it has failed with ``F_TIMEOUT``.
    patience_s:
        How long to wait when there is no trainer at all; for ever when None, for clusters that scale down to none.

    Notes
    -----
    A run function that raises has failed with ``F_`` and the name of the exception, and the search goes on; the message
    is in the metadata ``error``. So has one whose result isn't a number (``F_objective``) or is NaN or infinite
    (``F_not_finite``). Dask runs an evaluation again if its worker dies, elsewhere or on the worker's successor; after
    so many deaths as Dask's ``distributed.scheduler.allowed-failures`` says (3), it has failed with ``F_trainer_lost``.

    Raises
    ------
    InvalidInput
        If a parameter can't be used.
    NoTrainer
        If there are no trainers, by `search` too.
    SchedulerUnreachable
        By `search`, if the scheduler is gone.
    """

    def __init__(
        self,
        run_function: Callable[..., Any],
        client: Client | None = None,
        num_workers: int | None = None,
        resources: Mapping[str, float] | None = None,
        callbacks: list[Any] | None = None,
        run_function_kwargs: dict[str, Any] | None = None,
        storage: Storage | None = None,
        search_id: str | None = None,
        grace_s: float | None = None,
        patience_s: float | None = 60.0,
    ) -> None:
        self._client = client if client is not None else default_client()
        if self._client.asynchronous:
            raise InvalidInput("DeepHyper's searches are synchronous: give DaskEvaluator a synchronous Dask client")
        if isinstance(storage, MemoryStorage):
            raise InvalidInput("a MemoryStorage is empty on workers: use DaskStorage, or one that they can reach")
        if num_workers is not None and (type(num_workers) is not int or num_workers < 1):
            raise InvalidInput(f"num_workers={num_workers!r:.40}: use a whole number from 1, or None")
        self.resources = self._usual_resources() if resources is None else dict(resources)
        slots = self._slots()
        if not slots and num_workers is None:
            raise NoTrainer(f"no worker offers {self.resources}: start trainers, or say how many with num_workers")
        self.grace_s = grace_s
        self.patience_s = patience_s
        # Two evaluators on one cluster count their jobs alike.
        self._prefix = f"deephyper-{uuid.uuid4().hex[:8]}"
        self._looked = self._seen = time.monotonic()
        super().__init__(
            run_function=run_function,
            num_workers=num_workers or slots,
            callbacks=callbacks,
            run_function_kwargs=run_function_kwargs,
            storage=DaskStorage(self._client) if storage is None else storage,
            search_id=search_id,
        )

    async def execute(self, job: Job) -> Job:
        """Run one job on a trainer (DeepHyper calls this)."""
        # Of DeepHyper's Evaluator: `num_workers` evaluations at a time.
        async with self.sem:
            job.status = JobStatus.RUNNING
            task = Evaluation(
                job.run_function,
                job.create_running_job(self._stopper),
                dict(self.run_function_kwargs),
                isinstance(job, HPOJob),
            )
            outcome = await self._outcome(job, task)
            if job.status is JobStatus.CANCELLING:
                job.status = JobStatus.CANCELLED
            return self._update_job_when_done(job, outcome)

    async def _outcome(self, job: Job, task: Evaluation) -> Any:
        for number in range(SUBMISSIONS):
            future = self._client.submit(
                evaluate,
                task,
                # Another key for each try: Dask would return the task of before, lost as it is.
                key=f"{self._prefix}-{job.id}-{number}",
                resources=self.resources or None,
                pure=False,
            )
            try:
                if not await self._ended(job, future):
                    return failure("TIMEOUT", f"it went on for {self.grace_s:g} s after the search's time was over")
                what, found = await asyncio.get_running_loop().run_in_executor(None, _taken, future)
            finally:
                # Also when the search is closed: nobody waits for it any more.
                if not future.done():
                    future.cancel()
            if what == "value":
                return found
            if what == "died":
                return failure("trainer_lost", str(found))
            if what == "error":
                # Not the run function's: it could not be sent, or not be read there, and no other will be.
                raise found
            logger.info("the task of job %s was lost: %s", job.id, found)
        return failure("cancelled", f"its task was cancelled {SUBMISSIONS} times")

    async def _ended(self, job: Job, future: Any) -> bool:
        """Wait for a task; False if it outlasted the search's time and its grace."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def told(_: Any) -> None:
            # In a thread of Dask's; DeepHyper may have closed its loop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, done)

        future.add_done_callback(told)
        overdue: float | None = None
        while True:
            await asyncio.wait({done}, timeout=self._until_next_look(overdue))
            if done.done():
                return True
            if overdue is None and self.timeout is not None and self.time_left <= 0:
                job.status = JobStatus.CANCELLING
                overdue = time.monotonic()
            if overdue is not None and self.grace_s is not None and time.monotonic() - overdue >= self.grace_s:
                return False
            self._look()

    def _until_next_look(self, overdue: float | None) -> float:
        if overdue is None and self.timeout is not None:
            return float(min(LOOK_S, max(0.0, self.time_left)))
        if overdue is not None and self.grace_s is not None:
            return min(LOOK_S, max(0.0, overdue + self.grace_s - time.monotonic()))
        return LOOK_S

    def _look(self) -> None:
        """See whether the scheduler and any trainer are there."""
        now = time.monotonic()
        # All evaluations that wait call this: one of them asks the scheduler for all.
        if now - self._looked < LOOK_S / 2:
            return
        self._looked = now
        if self._slots() or self.patience_s is None:
            self._seen = time.monotonic()
        elif now - self._seen > self.patience_s:
            raise NoTrainer(
                f"evaluations wait, and for {now - self._seen:.0f} s no worker has offered "
                f"{self.resources or 'threads'}: what was finished is in results.csv of the search's log_dir"
            )

    def _usual_resources(self) -> dict[str, float]:
        offered = any(EVALUATION in (worker.get("resources") or {}) for worker in self._workers())
        return {EVALUATION: 1} if offered else {}

    def _slots(self) -> int:
        """Return how many evaluations the workers take at a time."""
        return sum(_slots(worker, self.resources) for worker in self._workers())

    def _workers(self) -> Sequence[Mapping[str, Any]]:
        try:
            # Not `client.scheduler_info`, which the client overwrites now and then with an answer without workers.
            found = self._client.sync(self._client.scheduler.identity, n_workers=-1, callback_timeout=60)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise SchedulerUnreachable(
                f"the scheduler does not answer ({error or type(error).__name__}); what was finished is in results.csv "
                "of the search's log_dir"
            ) from error
        return list(found["workers"].values())


def _slots(worker: Mapping[str, Any], resources: Mapping[str, float]) -> int:
    if worker.get("status", "running") in ("closing", "closing_gracefully", "closed", "failed"):
        return 0
    offered = worker.get("resources") or {}
    most = [int(offered.get(name, 0) // amount) for name, amount in resources.items() if amount > 0]
    return min([int(worker["nthreads"]), *most])


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _taken(future: Any) -> tuple[str, Any]:
    # In a thread: if the worker that has the result dies just now, this waits until Dask has had it made again.
    try:
        return "value", future.result()
    except KilledWorker as error:
        return "died", error
    except (CancelledError, asyncio.CancelledError) as error:
        return "cancelled", error
    except Exception as error:  # noqa: BLE001 - handed to the loop, which raises it
        return "error", error


@dataclass(repr=False)
class Evaluation:
    """What goes to a trainer. No RunningJob goes alone: its repr, which Dask makes for messages, asks the storage."""

    run_function: Callable[..., Any]
    job: RunningJob
    options: dict[str, Any]
    is_checked: bool

    def __repr__(self) -> str:
        return f"Evaluation({self.job.id})"


def evaluate(task: Evaluation) -> object:
    """Run a run function on a trainer: the Dask task of an evaluation."""
    job = task.job
    if job.status in (JobStatus.CANCELLING, JobStatus.CANCELLED):
        return failure("CANCELLED", "the search's time was over before it began")
    try:
        output = task.run_function(job, **task.options)
    except BaseException as error:  # user code may raise anything, SystemExit too, and the search goes on
        logger.warning("the run function of job %s failed", job.id, exc_info=True)
        return failure_of(error)
    return checked(output) if task.is_checked else output
