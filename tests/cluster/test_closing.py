"""A cluster closes whatever happens to those who wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from distributed import Scheduler, SchedulerPlugin
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface
from distributed.utils_test import gen_test

from daskevo.deploy.local import LocalEvoCluster

SCHEDULER = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": ":0"}}


class Slow(SchedulerPlugin):  # type: ignore[misc]
    """Keeps a scheduler from closing until it is released."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.released = asyncio.Event()

    async def before_close(self) -> None:
        self.begun.set()
        await self.released.wait()


class Stubborn(ProcessInterface):  # type: ignore[misc]
    """A worker that can't be closed at first."""

    tries = 0

    async def close(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise OSError("the node does not answer")
        await super().close()


def cluster_of(**workers: Any) -> LocalEvoCluster:
    return LocalEvoCluster(workers, lambda number: {}, scheduler=SCHEDULER, asynchronous=True)


@pytest.mark.parametrize("way", ["time limit", "cancelled"])
@gen_test(timeout=180)
async def test_who_waits_no_longer_does_not_stop_the_closing(way: str) -> None:
    cluster, slow = await cluster_of(), Slow()
    cluster.scheduler.add_plugin(slow, name="slow")
    if way == "time limit":
        with pytest.raises(TimeoutError):
            await cluster.close(timeout=0.05)
        await asyncio.wait_for(slow.begun.wait(), 60)
    else:  # as Ctrl-C does
        waiting = asyncio.ensure_future(cluster.close())
        await asyncio.wait_for(slow.begun.wait(), 60)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert cluster.status == Status.closing
    slow.released.set()
    # As the end of a `with` block does: Dask's own would wait here for ever.
    await asyncio.wait_for(cluster.close(), 60)
    assert cluster.status == Status.closed
    await cluster.close()


@gen_test(timeout=180)
async def test_a_closing_that_failed_is_tried_again() -> None:
    cluster = await cluster_of(**{"provider-0": {"cls": Stubborn}})
    worker = cluster.workers["provider-0"]
    with pytest.raises(OSError, match="does not answer"):
        await cluster.close()
    await asyncio.wait_for(cluster.close(), 60)
    assert (cluster.status, worker.status, worker.tries) == (Status.closed, Status.closed, 2)
