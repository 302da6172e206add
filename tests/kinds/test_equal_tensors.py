"""Kind 07: the same values are stored again right after they were retired, by one client and by four."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import daskevo
from tests.cluster.helpers import chain, make, values

pytestmark = [pytest.mark.processes, pytest.mark.long]

GRAPH = chain(8, 6)


def rounds(repository: Any, name: str, count: int) -> int:
    """Store a model, read it at once, retire it; return how often what was read was what had been stored."""

    async def some() -> int:
        right = 0
        for number in range(count):
            model_id = f"{name}-{number}"
            await make(repository, GRAPH, model_id, seed=1)
            found = await repository.read(model_id)
            right += all(
                found[key.layer, key.index].tobytes() == value.tobytes()
                for key, value in zip(GRAPH.tensors, values(GRAPH, 1).values(), strict=True)
            )
            await repository.retire(model_id)
        return right

    return int(repository.connection.run(some))


def keys_of_the_store(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


@pytest.mark.parametrize(("where", "clients", "count"), [("memory", 1, 500), ("root", 4, 60)])
def test_equal_values_over_and_over(
    client: Client, scope: str, tmp_path: Path, where: str, clients: int, count: int
) -> None:
    root = tmp_path / "root" if where == "root" else None
    repository = daskevo.open(root, scope, client=client, objective="max score", shards=8)
    with ExitStack() as stack, ThreadPoolExecutor(clients) as threads:
        handles = [repository]
        for _ in range(clients - 1):
            other = stack.enter_context(Client(client.scheduler.address, set_as_default=False))
            handles.append(daskevo.open(root, scope, client=other))
        found = threads.map(lambda one: rounds(one[1], f"{scope}-{one[0]}", count), enumerate(handles))
        assert sum(found) == clients * count
    stats = repository.stats()
    assert (stats["models"], stats["tensors"], stats["payload_bytes"], stats["references"]) == (0, 0, 0, 0)
    assert (stats["live_attempts"], stats["unsettled"], stats["memory_bytes"]) == (0, 0, 0)
    assert client.run_on_scheduler(keys_of_the_store) == []
    verification = repository.verify()
    assert verification.clean, verification.differences
    assert not list(tmp_path.rglob("*.seg"))
