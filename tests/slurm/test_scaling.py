"""Clusters of jobs become smaller in order, on a real Slurm: providers hand their shards over before their job ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Event
from distributed.security import Security

import daskevo
from daskevo.deploy.batch.first_workers import wait_for_workers
from daskevo.deploy.batch.node_job import NodeJob
from daskevo.deploy.roles import EVALUATION, PROVIDER
from daskevo.deploy.scaling_signal import TrainerDemand
from tests.cluster.helpers import chain
from tests.cluster.test_processes import put_plain
from tests.slurm.running import Slurm
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("configured")


@contextmanager
def cluster_of(**options: Any) -> Iterator[Any]:
    with daskevo.batch_cluster("slurm", **options) as cluster:
        wait_for_workers(cluster)
        yield cluster


def names(cluster: Any, resource: str) -> set[str]:
    workers = dict(cluster.scheduler_info["workers"]).values()
    return {worker["name"] for worker in workers if resource in worker["resources"]}


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, set[str]]]:
    """Jobs that a cluster ends, and who of them was still there at that moment."""
    found: list[tuple[str, set[str]]] = []
    close = NodeJob.close

    async def closing(job: Any) -> None:
        present = {worker.name for worker in clusters[0].scheduler.workers.values()}
        found.append((job.name, {name for name in present if name.startswith(job.name)}))
        await close(job)

    monkeypatch.setattr(NodeJob, "close", closing)
    return found


clusters: list[Any] = []


@pytest.mark.long
def test_an_adaptive_cluster_keeps_the_job_that_works_and_moves_the_shards_of_the_other(
    slurm: Slurm, tmp_path: Path, cancelled: list[tuple[str, set[str]]]
) -> None:
    with cluster_of(jobs=2) as cluster, cluster.get_client() as client:
        clusters[:] = [cluster]
        wait_until(lambda: len(names(cluster, PROVIDER)) == len(names(cluster, EVALUATION)) == 2)
        repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
        stored = [put_plain(repository, chain(8, 6, width), f"m{width}") for width in range(3, 7)]
        busy, idle = sorted(names(cluster, EVALUATION))
        client.register_plugin(TrainerDemand())
        event = Event("go on", client=client)
        task = client.submit(lambda: Event("go on").wait(), workers=[busy], resources={EVALUATION: 1}, pure=False)
        client.sync(client.scheduler.daskevo_want_trainers, client=client.id, search="run", evaluations=1)
        wait_until(lambda: any(worker.processing for worker in cluster.scheduler.workers.values()))
        cluster.adapt(minimum_jobs=1, maximum_jobs=2, interval="100ms", wait_count=2)
        wait_until(lambda: cancelled)
        # Trainer and provider had left, in order, before the job was ended.
        assert cancelled == [(idle, set())]
        wait_until(lambda: len(slurm.jobs()) == 1)
        event.set()
        assert task.result(180)
        assert names(cluster, EVALUATION) == {busy}
        assert {model.model_id for model in repository.models()} == set(stored)
        assert repository.verify().clean


@pytest.mark.long
def test_jobs_of_providers_stay_when_those_of_trainers_go(slurm: Slurm, tmp_path: Path) -> None:
    with cluster_of(jobs=1, provider_jobs=1) as cluster, cluster.get_client() as client:
        (provider,) = names(cluster, PROVIDER)
        (trainer,) = names(cluster, EVALUATION)
        assert provider not in trainer
        repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
        stored = put_plain(repository, chain(8, 6, 3), "one")
        cluster.scale(0)
        wait_until(lambda: len(slurm.jobs()) == 1 and not names(cluster, EVALUATION))
        assert names(cluster, PROVIDER) == {provider}
        assert [model.model_id for model in repository.models()] == [stored]
        cluster.scale(1)
        wait_for_workers(cluster)
        assert names(cluster, EVALUATION) - {trainer}
        assert repository.verify().clean


def test_jobs_of_a_cluster_with_tls(slurm: Slurm, tmp_path: Path) -> None:
    security = Security.temporary()
    with cluster_of(jobs=1, security=security, shared_temp_directory=str(tmp_path)) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        assert all(address.startswith("tls://") for address in cluster.scheduler_info["workers"])
        with cluster.get_client() as client:
            assert client.submit(lambda: 3, resources={EVALUATION: 1}, pure=False).result(180) == 3
            repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
            put_plain(repository, chain(8, 6, 3), "one")
            assert repository.verify().clean
    wait_until(lambda: not slurm.jobs())


@pytest.mark.long
def test_a_job_of_which_fewer_workers_come_than_it_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The cluster works with those that came, and says who they are and what the job has written of the others."""
    preload = tmp_path / "refuses.py"
    preload.write_text("import os\ndef dask_setup(worker):\n    if worker.name.endswith('-1'):\n        os._exit(3)\n")
    options = {"worker_extra_args": ["--preload", str(preload)]}
    with (
        dask.config.set({"daskevo.batch.arrive-timeout": "20s"}),
        daskevo.batch_cluster("slurm", jobs=1, trainers_per_job=2, **options) as cluster,
    ):
        wait_for_workers(cluster, arrive_timeout_s=180)
        wait_until(lambda: "workers have come" in caplog.text)
        said = next(record.getMessage() for record in caplog.records if "workers have come" in record.getMessage())
    assert "2 of 3 workers have come in 20 s" in said
    assert "-0-1 could not be started" in said
