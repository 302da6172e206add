"""Real worker processes: killed providers, everything killed, recycled trainers; what was stored is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

import daskevo
from daskevo.deploy.local import local_cluster
from daskevo.deploy.role_options import trainer_options
from daskevo.deploy.worker_environment import provider_environment, trainer_environment
from daskevo.deploy.worker_list import workers_of
from daskevo.errors import InvalidInput
from daskevo.types import ModelId
from tests.cluster.helpers import chain, put_in_task, values

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)
SCRIPT = """
import sys, time
import daskevo
from tests.cluster.test_processes import GRAPH, put_plain
if __name__ == "__main__":
    with daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        repository = daskevo.open(sys.argv[1], "test", client=client, objective="max score", shards=8)
        for name in ("one", "two", "three"):
            client.submit(put_plain, repository, GRAPH, name, resources={"evaluation": 1}, pure=False).result()
            print("stored", name, flush=True)
        time.sleep(600)
"""


def put_plain(repository: Any, graph: Any, model_id: str, keep: bool = True) -> str:
    """Inherit and put in a task, without Keras."""
    from daskevo.client.inherit import reserve_best

    connection = repository.connection
    reservation = connection.run(
        reserve_best, connection.session, connection.caller(), ModelId(model_id), graph, repository.scope
    )
    stored = connection.run(put_in_task, repository, connection, graph, reservation)
    return str(stored.record.model_id)


@pytest.fixture
def cluster() -> Iterator[Any]:
    with local_cluster(trainers=1, dashboard_address=None) as made:
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Client]:
    with Client(cluster) as made:
        made.wait_for_workers(2, timeout=180)
        yield made


def pid_of(client: Client, name: str) -> int:
    def pid(dask_worker: Any) -> tuple[str, int]:
        return dask_worker.name, os.getpid()

    return dict(client.run(pid).values())[name]


@pytest.mark.processes
def test_a_finished_put_survives_its_provider(client: Client, tmp_path: Path) -> None:
    repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
    train = {"resources": {"evaluation": 1}, "pure": False}
    client.submit(put_plain, repository, GRAPH, "first", **train).result(timeout=180)
    assert client.submit(modules, workers=["provider-0"], pure=False).result(timeout=180) == []
    os.kill(pid_of(client, "provider-0"), signal.SIGKILL)
    # Without waiting: who asks meanwhile gets an answer as soon as the nanny has started the provider again.
    found = repository.read("first")
    np.testing.assert_array_equal(found[1, 0], values(GRAPH, 5)[0])
    assert repository.best_match(WIDER)[0].model_id == "first"
    assert repository.query_futures(WIDER).result(timeout=180)[0].model_id == "first"
    client.submit(put_plain, repository, WIDER, "second", **train).result(timeout=180)
    verification = repository.verify()
    assert verification.clean, verification.differences
    assert [record.model_id for record in repository.lineage("second")] == ["second", "first"]


def modules() -> list[str]:
    return [name for name in ("tensorflow", "keras") if name in sys.modules]


@pytest.mark.long
@pytest.mark.processes
def test_finished_puts_survive_the_death_of_every_process(tmp_path: Path) -> None:
    root = tmp_path / "root"
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    job = subprocess.Popen(
        [sys.executable, str(script), str(root)], env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    assert job.stdout is not None
    try:
        stored = [job.stdout.readline().split()[-1].decode() for _ in range(3)]
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        job.stdout.close()
    assert stored == ["one", "two", "three"]
    wait_until_gone(job.pid)
    before = daskevo.open(root, "test")
    assert [model.model_id for model in before.models()] == stored
    with local_cluster(trainers=1, dashboard_address=None) as cluster, Client(cluster) as client:
        repository = daskevo.open(root, "test", client=client)
        assert str(repository.objective) == "max score"
        assert [model.model_id for model in repository.models()] == stored
        np.testing.assert_array_equal(repository.read("three")[1, 0], values(GRAPH, 5)[0])
        assert repository.verify().clean
        repository.release_label("population:run")
        verification = repository.verify()
        assert verification.clean, verification.differences
        assert (verification.models, verification.tensors, verification.payload_bytes) == (0, 0, 0)


def wait_until_gone(group: int) -> None:
    """Wait until no process of a group is left (nannies and workers follow their parent)."""
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.processes
def test_a_trainer_that_dies_gives_back_and_is_replaced(client: Client, tmp_path: Path) -> None:
    repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
    train = {"resources": {"evaluation": 1}, "pure": False}
    client.submit(put_plain, repository, GRAPH, "first", **train).result(timeout=180)
    flag = tmp_path / "died"
    future = client.submit(die_once, repository, WIDER, "child", str(flag), **train)
    assert future.result(timeout=180) == "child"  # Dask runs it again: another run, another attempt
    assert flag.exists()
    assert repository.stats()["live_attempts"] == 0
    verification = repository.verify()
    assert verification.clean, verification.differences


@pytest.mark.long
@pytest.mark.processes
def test_a_worker_that_dies_again_and_again_comes_back() -> None:
    """Dask looks once, some time after a death, and would close the nanny that is just starting its worker again."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "50ms"}),
        local_cluster(trainers=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=180)
        for _ in range(2):
            pid = pid_of(client, "trainer-0")
            os.kill(pid, signal.SIGKILL)
            where = client.submit(os.getpid, resources={"evaluation": 1}, pure=False)
            assert where.result(timeout=180) != pid


def die_once(repository: Any, graph: Any, model_id: str, flag: str) -> str:
    from daskevo.client.inherit import reserve_best

    connection = repository.connection
    connection.run(reserve_best, connection.session, connection.caller(), ModelId(model_id), graph, repository.scope)
    if not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return put_plain(repository, graph, model_id)


def settled(dask_worker: Any) -> tuple[Any, float]:
    return dask.config.get("distributed.worker.profile.interval"), dask_worker.periodic_callbacks["tick"].callback_time


@pytest.mark.long
@pytest.mark.processes
def test_a_trainer_is_interrupted_less_often_than_a_provider(client: Client) -> None:
    workers = workers_of(client).items()
    found = {worker["name"]: client.run(settled, workers=[address])[address] for address, worker in workers}
    assert found == {"provider-0": ("10ms", 20), "trainer-0": ("100ms", 100)}


def test_intervals_that_somebody_chose_stay() -> None:
    with dask.config.set({"distributed.worker.profile.interval": "50ms"}):
        assert trainer_options(1, None)["config"] == {"distributed.admin.tick.interval": "100ms"}


@pytest.mark.long
@pytest.mark.processes
def test_restarting_the_workers_keeps_what_is_stored(client: Client, tmp_path: Path) -> None:
    repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
    train = {"resources": {"evaluation": 1}, "pure": False}
    client.submit(put_plain, repository, GRAPH, "first", **train).result(timeout=180)
    client.restart()
    assert len(repository.read("first")) == 6
    client.submit(put_plain, repository, WIDER, "second", **train).result(timeout=180)
    assert repository.verify().clean


@pytest.mark.long
@pytest.mark.processes
def test_after_restarting_the_workers_of_a_repository_in_memory_lists_say_what_is_lost(client: Client) -> None:
    repository = daskevo.open(None, "test", client=client, objective="max score", shards=8)
    train = {"resources": {"evaluation": 1}, "pure": False}
    client.submit(put_plain, repository, GRAPH, "first", **train).result(timeout=180)
    assert [model.model_id for model in repository.models()] == ["first"]
    assert repository.models().partial == {}
    client.restart()
    matched, listed = repository.best_match([GRAPH]).partial, repository.models()
    assert listed == []
    assert listed.partial == repository.snapshots().partial == matched
    assert len(matched) == 8
    assert all("held them in memory" in why for why in matched.values())


def test_environments() -> None:
    assert trainer_environment(3, "1")["TF_NUM_INTRAOP_THREADS"] == "3"
    assert trainer_environment(3, "1")["CUDA_VISIBLE_DEVICES"] == "1"
    assert trainer_environment(3, None)["CUDA_VISIBLE_DEVICES"] == "-1"
    assert provider_environment()["CUDA_VISIBLE_DEVICES"] == "-1"


@pytest.mark.parametrize("options", [{"trainers": 0}, {"providers": -1}, {"provider_threads": 0}])
def test_clusters_that_cannot_be(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        local_cluster(**options)
