"""A repository on a cluster with TLS: every way of a tensor, and who is kept out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, Event
from distributed.core import ConnectionPool
from distributed.security import Security

import daskevo
from daskevo.deploy.local import local_cluster
from daskevo.errors import InvalidInput, SchedulerUnreachable
from daskevo.wire.transport import NoAnswer, PoolTransport
from tests.cluster.helpers import (
    at_rest,
    chain,
    evict_all,
    evo_cluster,
    hold_in_task,
    make,
    open_here,
    plugin_of,
    reserve,
    values,
)
from tests.cluster.test_paths import WAYS, opened
from tests.cluster.test_processes import put_plain

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


@pytest.fixture(scope="module")
def security() -> Security:
    return Security.temporary()


@pytest.mark.parametrize("way", WAYS)
def test_put_inherit_query_read_and_retire_on_every_way(way: str, security: Security, tmp_path: Path) -> None:
    @evo_cluster(providers=2 if way == "message" else 1, security=security)
    async def run(c: Any, s: Any, a: Any, *others: Any) -> None:
        assert all(server.address.startswith("tls://") for server in (s, a, *others))
        repository = await opened(c, a, way, tmp_path)
        await make(repository, GRAPH, "first", seed=1)
        evict_all(plugin_of(a).host.tensors)
        child = await reserve(repository, WIDER, "second")
        assert child.ancestor is not None
        assert child.ancestor.model_id == "first"
        np.testing.assert_array_equal(child.arrays[0], values(GRAPH, 1)[0])
        await make(repository, WIDER, "third", seed=2, score=0.9)
        assert [match.model_id for match in await repository.best_match([WIDER, GRAPH])] == ["third", "first"]
        np.testing.assert_array_equal((await repository.read("third"))[1, 0], values(GRAPH, 1)[0])
        await repository.retire("first")
        await at_rest(s, a)
        assert [record.model_id for record in await repository.lineage("third")] == ["third", "first"]
        assert (await repository.verify()).clean

    run()


def test_tasks(security: Security, tmp_path: Path) -> None:
    @evo_cluster(providers=2, security=security)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, "first")
        await Event("go").set()
        put = c.submit(hold_in_task, repository, WIDER, "second", "put", resources={"evaluation": 1})
        assert await put == "mine"
        assert (await repository.verify()).clean

    run()


def test_whoever_has_no_certificate_is_hung_up_on_and_told_why(security: Security, tmp_path: Path) -> None:
    @evo_cluster(security=security)
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, "first")
        for asks, scheme in ((Security(), "tcp"), (Security(), "tls"), (Security.temporary(), "tls")):
            scheduler, provider = (server.address.replace("tls", scheme) for server in (s, a))
            async with ConnectionPool(connection_args=asks.get_connection_args("client")) as pool:
                stranger = PoolTransport(pool, scheduler, repository.settings.key)
                with pytest.raises(SchedulerUnreachable, match=r"reset|TLS"):
                    await stranger.coordinator("stats", timeout_s=60)
                with pytest.raises(NoAnswer, match=r"reset|TLS"):
                    await stranger.provider(provider, "stats", timeout_s=60)

    run()


@pytest.mark.long
@pytest.mark.processes
def test_a_local_cluster_with_certificates_of_its_own(tmp_path: Path) -> None:
    with local_cluster(trainers=1, dashboard_address=None, security=True) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        with cluster.get_client() as client:
            client.wait_for_workers(2, timeout=180)
            assert all(address.startswith("tls://") for address in client.scheduler_info()["workers"])
            repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=4)
            for name in ("first", "second"):
                client.submit(put_plain, repository, GRAPH, name, resources={"evaluation": 1}, pure=False).result(180)
            assert repository.record("second").ancestor == "first"
            np.testing.assert_array_equal(repository.read("second")[1, 0], values(GRAPH, 5)[0])
            assert repository.verify().clean
        # Dask itself hangs up on a client that doesn't encrypt.
        with pytest.raises(OSError, match="reset"):
            Client(cluster.scheduler_address.replace("tls", "tcp"), timeout="20s")


def test_other_words_for_security() -> None:
    with pytest.raises(InvalidInput, match="security"):
        local_cluster(security="yes")  # type: ignore[arg-type]
