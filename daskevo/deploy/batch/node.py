"""Runs the workers of a node under nannies, until they have left, their time is over or the batch system says so."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Nanny, WorkerPlugin
from distributed.core import rpc

from daskevo.deploy.batch.leave_notice import announce, let_go
from daskevo.deploy.batch.node_plan import NodeWorker
from daskevo.deploy.roles import ENDS

logger = logging.getLogger(__name__)

RETIRE_S = 30.0
"""Longest wait for the scheduler to let workers go."""
NOTICE_S = 4.0
"""Longest wait for it to know that they are leaving, where the batch system gives them seconds."""


@dataclass(frozen=True)
class Ends:
    """A metric of a Dask worker: when it leaves, in seconds since the epoch."""

    at: float

    def __call__(self, worker: Any) -> float:
        return self.at


class LeaveToParent(WorkerPlugin):  # type: ignore[misc]
    """For workers of a node: what a batch system says to all processes of a job is for the one that watches them.

    It ends them in order; if it is killed, they end with it, which is Dask's doing.
    """

    name = "daskevo-leave-to-parent"
    idempotent = True

    def setup(self, worker: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


async def run_node(
    scheduler: str,
    workers: Sequence[NodeWorker],
    *,
    options: dict[str, Any],
    ends: float | None,
    connection: dict[str, Any],
    listen: Callable[[asyncio.Event], None],
) -> int:
    """Start workers and watch them; return an exit code: 0 when they have left in order, 1 when none could be started.

    Parameters
    ----------
    scheduler:
        Its address.
    options:
        Of all nannies.
    ends:
        When they leave, in seconds since the epoch: trainers first, then providers, which hand their shards over.
    connection:
        Arguments for connections to the scheduler.
    listen:
        Called with what to set when the workers are to leave at once.
    """
    told = asyncio.Event()
    listen(told)
    metrics = {} if ends is None else {ENDS: Ends(ends)}
    nannies = {
        worker.name: Nanny(scheduler, name=worker.name, **_options(worker, options, metrics)) for worker in workers
    }
    # Exceptions are returned: one worker that can't start must not take the others of the node with it.
    started = await asyncio.gather(*nannies.values(), return_exceptions=True)
    for name, outcome in zip(list(nannies), started, strict=True):
        if isinstance(outcome, BaseException):
            logger.error("%s could not be started: %s: %s", name, type(outcome).__name__, outcome)
            del nannies[name]
    if not nannies:
        logger.error("none of %d workers could be started", len(workers))
        return 1
    if len(nannies) < len(workers):
        logger.error("%d of %d workers could be started: %s", len(nannies), len(workers), ", ".join(nannies))
    await _until(told, nannies, ends)
    there = [worker for worker in workers if worker.name in nannies]
    # Signalled, there are seconds left: too few to hand shards over, enough to say that this is no crash.
    if told.is_set():
        await _give_notice(scheduler, there, nannies, connection)
    else:
        await _retire(scheduler, there, nannies, connection, told)
    # Whether or not the scheduler has answered: a batch system kills what is left seconds after its signal.
    await asyncio.gather(*(nanny.close(timeout=10) for nanny in nannies.values()))
    return 0


def _options(worker: NodeWorker, options: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    plugins = (*worker.options.get("plugins", ()), LeaveToParent())
    return {**options, **worker.options, "plugins": plugins, "metrics": metrics}


async def _until(told: asyncio.Event, nannies: dict[str, Any], ends: float | None) -> None:
    """Wait until somebody says that they are to leave, their time is over, or all have left."""
    waiting: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(told.wait()),
        asyncio.ensure_future(_all_finished(nannies)),
    ]
    timeout = None if ends is None else max(0.0, ends - time.time())
    try:
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _all_finished(nannies: dict[str, Any]) -> None:
    for nanny in list(nannies.values()):
        await nanny.finished()


async def _retire(
    scheduler: str,
    workers: Sequence[NodeWorker],
    nannies: dict[str, Any],
    connection: dict[str, Any],
    told: asyncio.Event,
) -> None:
    """Have the scheduler let the workers go: trainers, then providers."""
    for trains in (True, False):
        addresses = _addresses([worker for worker in workers if worker.trains is trains], nannies)
        if not addresses or told.is_set():
            continue
        try:
            async with rpc(scheduler, connection_args=connection) as remote:
                await let_go(remote, addresses, RETIRE_S)
        except (OSError, TimeoutError) as error:
            logger.warning("the scheduler did not let workers go (%s): they are closed all the same", error)


async def _give_notice(
    scheduler: str, workers: Sequence[NodeWorker], nannies: dict[str, Any], connection: dict[str, Any]
) -> None:
    """Have the scheduler know that the workers are leaving, if it answers at once."""
    if not (addresses := _addresses(workers, nannies)):
        return
    try:
        async with asyncio.timeout(NOTICE_S), rpc(scheduler, connection_args=connection) as remote:
            await announce(remote, addresses)
    except (OSError, TimeoutError) as error:
        logger.info("workers leave without notice: %s", error)


def _addresses(workers: Sequence[NodeWorker], nannies: dict[str, Any]) -> list[str]:
    found = [nannies[worker.name].worker_address for worker in workers]
    # None: the nanny's worker process is down just now.
    return [address for address in found if address is not None]
