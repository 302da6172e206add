"""One budget for a provider: tensors in memory, what writers send, what readers are sent, and the process itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import daskevo
from daskevo.client.put import make_record, put
from daskevo.client.put_payload import prepare
from daskevo.deploy.local import local_cluster
from daskevo.types import TensorSpec
from daskevo.wire import tensor_framing
from tests.cluster.helpers import evo_cluster, open_here, plugin_of, put_reserved, reserve
from tests.cluster.test_large import graph_of


def graph_of_tensors(count: int, nbytes: int) -> Any:
    return graph_of([("all", {}, (TensorSpec((nbytes,), "uint8"),) * count)])


@evo_cluster()
async def test_readers_are_sent_a_few_messages_at_once(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_framing, "MESSAGE_BYTES", 100_000)
    repository = await open_here(c, None)
    graph = graph_of_tensors(10, 100_000)
    made = await reserve(repository, graph, "first", ancestor=False)
    await put_reserved(repository, graph, made)
    host = plugin_of(a).host
    room, most, asked = host.outgoing.memory, 0, 0
    room.limit_bytes = 250_000
    ask = room.ask

    def watched(*arguments: Any) -> bool:
        nonlocal most, asked
        granted = ask(*arguments)
        most, asked = max(most, room.held_bytes), asked + 1
        return granted

    monkeypatch.setattr(room, "ask", watched)
    for tensors in await asyncio.gather(*(repository.read("first") for _ in range(4))):
        assert sum(array.nbytes for array in tensors.values()) == 1_000_000
    assert asked >= 40
    assert 100_000 <= most <= 250_000
    del tensors
    while room.held_bytes:
        await asyncio.sleep(0.01)


@pytest.mark.long
@pytest.mark.processes
def test_two_writers_of_240_megabytes_at_a_provider_of_a_gigabyte(tmp_path: Path) -> None:
    """It was paused, then ended at 95 % of its memory, and what it held was lost."""

    def life(dask_worker: Any) -> tuple[str, int]:
        import os

        return dask_worker.status.name, os.getpid()

    def watch(dask_worker: Any) -> None:
        dask_worker.highest = 0
        monitor = dask_worker.monitor
        look = monitor.get_process_memory

        def looked() -> int:  # by Dask's monitor, and by the provider
            found = look()
            dask_worker.highest = max(dask_worker.highest, found)
            return int(found)

        monitor.get_process_memory = looked

    graph = graph_of_tensors(10, 24_000_000)
    one = np.random.default_rng(0).integers(0, 255, 24_000_000, np.uint8)
    tensors = dict.fromkeys(range(10), one)
    with (
        local_cluster(trainers=1, dashboard_address=None, memory_limit=10**9, local_directory=tmp_path) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=180)
        (provider,) = [
            address for address, name in client.run(lambda dask_worker: dask_worker.name).items() if "prov" in name
        ]
        repository = daskevo.open(None, "test", client=client, shards=2, timeout_s=60)
        before = client.run(life, workers=[provider])
        client.run(watch, workers=[provider])

        async def write(name: str) -> None:
            session = repository.connection.session
            made = await reserve(repository, graph, name, ancestor=False)
            payload = await asyncio.to_thread(prepare, made, tensors, 1)
            facts: Any = {"scope": "test", "objective": None, "metrics": {}, "step": 1, "parent": None, "extra": None}
            record = make_record(made, payload, graph, await session.tick(), **facts)
            await put(session, made, record, payload, ["user:test"])

        async def both() -> None:
            await write("before")  # what is kept in memory
            await asyncio.gather(write("one"), write("two"))

        repository.connection.run(both)
        assert client.run(life, workers=[provider]) == before
        assert before[provider][0] == "running"
        highest = client.run(lambda dask_worker: dask_worker.highest, workers=[provider])[provider]
        assert 0 < highest < 0.8 * 10**9
        assert repository.stats()["payload_bytes"] == 720_000_000
        assert all(np.array_equal(array, one) for array in repository.read("one").values())
