"""Shards move as real providers come, hang, come back and go: spread again, taken over, handed over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

import daskevo
from daskevo.deploy.local import local_cluster
from daskevo.errors import ShardFenced
from daskevo.protocol.messages import Hold
from daskevo.types import ModelId
from tests.cluster.helpers import chain, values
from tests.cluster.test_processes import pid_of, put_plain
from tests.waiting import wait_until

GRAPH = chain(8, 6, 3)
TRAIN = {"resources": {"evaluation": 1}, "pure": False}

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    quick = {"daskevo.silent-after": "2s", "daskevo.rebalance-after": "500ms", "daskevo.open-timeout": "5s"}
    with dask.config.set(quick), local_cluster(trainers=1, providers=2, dashboard_address=None) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Client]:
    with Client(cluster) as made:
        made.wait_for_workers(3, timeout=180)
        yield made


@pytest.fixture(scope="module")
def repository(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("elastic") / "root"
    made = daskevo.open(root, "test", client=client, objective="max score", shards=8)
    for number in range(8):
        client.submit(put_plain, made, GRAPH, f"m{number}", **TRAIN).result(timeout=180)
    return made


def places(repository: Any) -> dict[int, str | None]:
    """Return who serves each shard now."""
    connection = repository.connection
    table = connection.run(connection.session.directory.refresh)
    return {shard: place and place.name for shard, place in table.places.items()}


def address_of(client: Client, name: str) -> str:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return next(address for address, worker in workers.items() if worker["name"] == name)


def spread(repository: Any) -> dict[str | None, int]:
    found = list(places(repository).values())
    return {name: found.count(name) for name in sorted(set(found), key=str)}


def is_even(repository: Any, *names: str) -> bool:
    loads = spread(repository)
    return loads.keys() == set(names) and max(loads.values()) - min(loads.values()) <= 1


def check_models(repository: Any) -> None:
    verification = repository.verify()
    assert verification.clean, verification.differences
    np.testing.assert_array_equal(repository.read("m0")[1, 0], values(GRAPH, 5)[0])


def test_a_provider_that_its_nanny_restarts_gets_its_share_again(client: Client, repository: Any) -> None:
    wait_until(lambda: is_even(repository, "provider-0", "provider-1"))
    address = address_of(client, "provider-1")
    os.kill(pid_of(client, "provider-1"), signal.SIGKILL)
    wait_until(lambda: address not in client.scheduler_info(n_workers=-1)["workers"])
    wait_until(lambda: is_even(repository, "provider-0", "provider-1"))
    assert address_of(client, "provider-1") != address
    check_models(repository)


def test_a_stopped_provider_loses_its_shards_and_what_it_writes_later_does_not_count(
    client: Client, repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daskevo.wire.transport.CONNECT_TIMEOUT_S", 60.0)
    wait_until(lambda: is_even(repository, "provider-0", "provider-1"))
    before = places(repository)
    mine = next(f"m{n}" for n in range(8) if before[shard_of(repository, f"m{n}")] == "provider-1")
    address = address_of(client, "provider-1")
    pid = pid_of(client, "provider-1")
    os.kill(pid, signal.SIGSTOP)
    try:
        # Long before Dask calls it dead: whoever asks gets an answer of the next owner.
        assert "user:me" in repository.hold(mine, "user:me")
        wait_until(lambda: spread(repository) == {"provider-0": 8})
        assert address_of(client, "provider-1") == address  # Dask has it among its workers still
        with ThreadPoolExecutor() as threads:
            # It lies in the stopped process' queue, and is the first thing that it reads.
            written = threads.submit(write_at, repository, address, mine)
            os.kill(pid, signal.SIGCONT)
            assert written.result(timeout=180) in ("ShardFenced", "not mine")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "user:late" not in repository.hold(mine, "user:again")
    check_models(repository)
    wait_until(lambda: is_even(repository, "provider-0", "provider-1"))
    check_models(repository)


def shard_of(repository: Any, model: str) -> int:
    connection = repository.connection
    return int(connection.run(connection.session.directory.shard_of, model))


def write_at(repository: Any, address: str, model: str) -> str:
    """Ask a provider that was the owner to hold a model; return what it says."""
    connection, shard = repository.connection, shard_of(repository, model)
    tick = connection.run(connection.session.tick)
    hold = Hold(ModelId(model), "user:late", tick)
    ask = partial(connection.session.transport.provider, address, "ask", timeout_s=60)
    try:
        return "not mine" if connection.run(partial(ask, shard=shard, messages=[hold.to_wire()])) is None else "held"
    except ShardFenced as error:
        return type(error).__name__


def test_a_provider_that_joins_takes_shards_and_hands_them_over_as_it_retires(
    client: Client, repository: Any, cluster: Any
) -> None:
    wait_until(lambda: is_even(repository, "provider-0", "provider-1"))
    spec = {**cluster.worker_spec["provider-1"]}
    cluster.worker_spec["provider-2"] = spec
    cluster.sync(cluster._correct_state)
    wait_until(lambda: is_even(repository, "provider-0", "provider-1", "provider-2"))
    check_models(repository)
    puts = [client.submit(put_plain, repository, GRAPH, f"meanwhile{number}", **TRAIN) for number in range(20)]
    address = address_of(client, "provider-2")
    del cluster.worker_spec["provider-2"]
    assert client.retire_workers([address]).keys() == {address}
    assert client.gather(puts) == [f"meanwhile{number}" for number in range(20)]
    wait_until(lambda: is_even(repository, "provider-0", "provider-1"))
    check_models(repository)
