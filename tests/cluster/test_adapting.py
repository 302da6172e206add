"""An adaptive cluster counts trainers, closes none that has work, and closes a batch job whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from distributed import Client, Event, Scheduler, Worker
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.utils_test import gen_test

import daskevo
from daskevo.deploy.adaptive import AdaptiveTrainers, check_limits
from daskevo.deploy.scaling_signal import TrainerDemand
from daskevo.errors import InvalidInput
from tests.waiting import wait_until_async


class Job(ProcessInterface):  # type: ignore[misc]
    """What a batch job is: trainers that are started and closed together."""

    def __init__(self, scheduler: str, name: str, suffixes: Sequence[str], resources: dict[str, int]) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.workers = [Worker(scheduler, name=name + suffix, nthreads=1, resources=resources) for suffix in suffixes]

    async def start(self) -> None:
        await asyncio.gather(*self.workers)
        await super().start()

    async def close(self) -> None:
        await asyncio.gather(*(worker.close() for worker in self.workers))
        await super().close()


class Batch(SpecCluster):  # type: ignore[misc]
    """As dask-jobqueue's: `scale` counts workers, and there are two in each job."""

    def scale(self, n: int = 0, **options: Any) -> Any:
        return super().scale(-(-n // 2), **options)

    def _new_worker_name(self, worker_number: int) -> str:
        return f"job{worker_number}"


@asynccontextmanager
async def batch() -> AsyncIterator[Any]:
    suffixes = ("-0", "-1")
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": ":0"}}
    trainers = {
        "cls": Job,
        "options": {"suffixes": suffixes, "resources": {"evaluation": 1}},
        "group": suffixes,
    }
    provider = {"cls": Worker, "options": {"name": "provider", "resources": {"provider": 1}, "host": "127.0.0.1"}}
    async with (
        Batch(scheduler=scheduler, worker=trainers, asynchronous=True) as cluster,
        Worker(cluster.scheduler_address, **provider["options"]),
        Client(cluster, asynchronous=True) as client,
    ):
        yield cluster, client


def names(cluster: Any) -> set[str]:
    return {worker.name for worker in cluster.scheduler.workers.values() if worker.status == Status.running}


@gen_test(timeout=180)
async def test_jobs_come_and_go_whole() -> None:
    async with batch() as (cluster, client):
        await client.register_plugin(TrainerDemand())
        want = client.scheduler.daskevo_want_trainers
        assert not await want(client=client.id, search="run", evaluations=0)
        cluster.adapt(Adaptive=AdaptiveTrainers, minimum=0, maximum=4, interval="20ms", wait_count=2)
        await asyncio.sleep(0.2)
        assert names(cluster) == {"provider"}
        assert await want(client=client.id, search="run", evaluations=3)
        await wait_until_async(lambda: len(names(cluster)) == 5)
        # A trainer has work: neither it nor the other of its job goes, whatever a search says.
        event = Event("go", client=client)
        task = client.submit(event.wait, workers=["job1-0"], resources={"evaluation": 1}, pure=False)
        await wait_until_async(lambda: any(worker.processing for worker in cluster.scheduler.workers.values()))
        await want(client=client.id, search="run", evaluations=0)
        await wait_until_async(lambda: len(names(cluster)) == 3)
        await asyncio.sleep(0.2)
        assert names(cluster) == {"provider", "job1-0", "job1-1"}
        await event.set()
        await task
        await wait_until_async(lambda: names(cluster) == {"provider"})


@gen_test(timeout=180)
async def test_a_search_whose_client_left_wants_nothing() -> None:
    async with batch() as (cluster, client):
        cluster.adapt(Adaptive=AdaptiveTrainers, minimum=2, maximum=10, interval="20ms", wait_count=2)
        await wait_until_async(lambda: len(names(cluster)) == 3)
        async with Client(cluster, asynchronous=True, set_as_default=False) as other:
            await other.register_plugin(TrainerDemand())
            await other.scheduler.daskevo_want_trainers(client=other.id, search="run", evaluations=4)
            await wait_until_async(lambda: len(names(cluster)) == 5)
        await wait_until_async(lambda: len(names(cluster)) == 3)
        # Tasks that wait for a trainer are a demand as well: refining has no other.
        event = Event("go", client=client)
        tasks = [client.submit(event.wait, resources={"evaluation": 1}, pure=False) for _ in range(6)]
        await wait_until_async(lambda: len(names(cluster)) == 7)
        await event.set()
        await client.gather(tasks)


@gen_test(timeout=180)
async def test_a_job_in_which_work_has_begun_meanwhile_is_kept() -> None:
    async with batch() as (cluster, client):
        adaptive = cluster.adapt(Adaptive=AdaptiveTrainers, minimum=0, maximum=4, interval=None)
        await adaptive.scale_up(4)
        await wait_until_async(lambda: len(names(cluster)) == 5)
        assert await adaptive.target() == 0
        event = Event("go", client=client)
        task = client.submit(event.wait, workers=["job0-1"], resources={"evaluation": 1}, pure=False)
        await wait_until_async(lambda: any(worker.processing for worker in cluster.scheduler.workers.values()))
        await adaptive.scale_down(["job0", "job1"])
        assert names(cluster) == {"provider", "job0-0", "job0-1"}
        await event.set()
        await task


@pytest.mark.parametrize(
    ("minimum", "maximum"), [(3, 1), (-1, 4), (0, 0), (0, 1.5), (True, 2), ("1", 2), (None, -1), (1.0, 2)]
)
def test_limits_within_which_there_is_nothing(minimum: Any, maximum: Any) -> None:
    with pytest.raises(InvalidInput, match="of trainers were asked for"):
        check_limits(minimum, maximum)
    with pytest.raises(InvalidInput):
        AdaptiveTrainers(None, minimum=minimum, maximum=maximum)
    for fine in ((0, 1), (2, 2), (None, None), (0, float("inf"))):
        check_limits(*fine)


@gen_test(timeout=180)
async def test_a_cluster_with_limits_that_can_t_be_keeps_those_that_it_had() -> None:
    async with batch() as (cluster, _):
        adaptive = cluster.adapt(Adaptive=AdaptiveTrainers, minimum=0, maximum=4, interval=None)
        with pytest.raises(InvalidInput):
            cluster.adapt(Adaptive=AdaptiveTrainers, minimum=3, maximum=1)
        assert (adaptive.minimum, adaptive.maximum) == (0, 4)


def test_a_local_cluster_says_what_its_limits_can_t_be() -> None:
    with daskevo.local_cluster(trainers=1, providers=0, dashboard_address=None) as cluster:
        for limits in ({"minimum": 3, "maximum": 1}, {"minimum": -1}, {"maximum": 0}):
            with pytest.raises(InvalidInput, match="trainers were asked for"):
                cluster.adapt(**limits)
        assert cluster.adapt(minimum=1_000, interval=None).maximum == 1_000
