"""How long a query made of futures takes while every trainer is busy: median of 50, against the direct way.

Run it as ``python -m benchmarks.query_latency``: it starts a cluster of its own and prints milliseconds.
"""

from __future__ import annotations

import platform
import statistics
import tempfile
import time
from typing import Any

import daskevo
from daskevo.testing.graphs import GraphBuilder

QUERIES = 50
TRAINERS = 2


def graph(units: int) -> Any:
    builder = GraphBuilder()
    vertex = builder.input(4)
    for width in (8, 6, units):
        vertex = builder.dense(vertex, width)
    return builder.graph(vertex)


def busy(seconds: float) -> None:
    """Use a core, as training does."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(10_000))


def measure(ask: Any) -> list[float]:
    """Return milliseconds of each query."""
    found = []
    for _ in range(QUERIES):
        started = time.perf_counter()
        ask()
        found.append(1000 * (time.perf_counter() - started))
    return found


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        daskevo.local_cluster(trainers=TRAINERS, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(TRAINERS + 1)
        repository = daskevo.open(root, "latency", client=client, objective="max score")
        trained = graph(3)
        client.submit(put_plain, repository, trained, resources={"evaluation": 1}).result()
        ways = {
            "one graph, futures": lambda: repository.query_futures(trained).result(),
            "100 graphs, futures": lambda: repository.query_futures([trained] * 100).result(),
            "one graph, direct": lambda: repository.best_match(trained),
        }
        print(f"{platform.node()}, {platform.processor() or platform.machine()}; {QUERIES} queries each")
        for state in ("idle", "busy"):
            work = [
                client.submit(busy, 600.0, pure=False, resources={"evaluation": 1})
                for _ in range(TRAINERS if state == "busy" else 0)
            ]
            for name, ask in ways.items():
                ask()
                found = sorted(measure(ask))
                print(
                    f"trainers {state}, {name}: median {statistics.median(found):.1f} ms, "
                    f"p90 {found[int(0.9 * len(found))]:.1f} ms"
                )
            client.cancel(work)


def put_plain(repository: Any, architecture: Any) -> None:
    """Put a model of plain arrays, without Keras."""
    import numpy as np

    from daskevo.client.inherit import reserve_best
    from daskevo.client.put import make_record, put
    from daskevo.client.put_payload import prepare
    from daskevo.types import ModelId

    connection = repository.connection
    session = connection.session
    reservation = connection.run(
        reserve_best, session, connection.caller(), ModelId("first"), architecture, repository.scope
    )
    tensors = {number: np.ones(key.spec.shape, key.spec.dtype) for number, key in enumerate(architecture.tensors)}

    async def store() -> None:
        payload = prepare(reservation, tensors, 1)
        record = make_record(
            reservation,
            payload,
            architecture,
            await session.tick(),
            scope=repository.scope,
            objective=repository.objective,
            metrics={"score": 0.5},
            step=1,
            parent=None,
            extra=None,
        )
        await put(session, reservation, record, payload, [])

    connection.run(store)


if __name__ == "__main__":
    main()
