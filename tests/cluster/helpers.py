"""In-process clusters with providers and trainers, and models made of plain architecture graphs (no Keras)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Any

import numpy as np
from distributed.utils_test import gen_cluster

from daskevo.client import directory
from daskevo.client.inherit import Reservation, reserve_best
from daskevo.client.put import Stored, make_record, put
from daskevo.client.put_payload import prepare
from daskevo.client.put_sender import folder_of_home
from daskevo.graph import ArchitectureGraph
from daskevo.repository import Repository, open_repository
from daskevo.store.digests import threads
from daskevo.store.tiers import Tensors
from daskevo.testing.graphs import GraphBuilder
from daskevo.types import ModelId, dtype_of

# Dask's own: a worker's event loop is blocked while many processes share two cores, and connections take seconds.
CONFIG = {
    "distributed.admin.tick.limit": "10s",
    "distributed.worker.memory.pause": 0.8,
    "distributed.comm.timeouts.connect": "20s",
}
# Nor is a local peer taken for somebody on another host because one process stood still: tests say which way is taken.
directory.LOCAL_PEER_TIMEOUT_S = 60.0


def evo_cluster(providers: int = 1, trainers: int = 1, combined: int = 0, **options: Any) -> Any:
    """Return a decorator: the test gets client, scheduler, and the workers (providers first); TLS with `security`."""
    provider, trainer = {"resources": {"provider": 1}}, {"resources": {"evaluation": 1}}
    host = "127.0.0.1"
    if "security" in options:
        host = options["scheduler"] = f"tls://{host}"
    workers: list[Any] = [(host, 2, provider)] * providers + [(host, 1, trainer)] * trainers
    workers += [(host, 1, {"resources": {"evaluation": 1, "provider": 1}})] * combined
    config = {**CONFIG, **options.pop("config", {})}
    return gen_cluster(client=True, nthreads=workers, timeout=180, active_rpc_timeout=30, config=config, **options)


async def open_here(client: Any, root: Any, scope: str = "test", **options: Any) -> Repository:
    """Open a repository of few shards."""
    options = {"shards": 8, "objective": "max score", "timeout_s": 20, **options}
    return await open_repository(root, scope, client=client, **options)  # type: ignore[no-any-return]


def chain(*units: int) -> ArchitectureGraph:
    """Return the graph of a chain of Dense layers."""
    builder = GraphBuilder()
    vertex = builder.input(4)
    for width in units:
        vertex = builder.dense(vertex, width)
    return builder.graph(vertex)


def values(graph: ArchitectureGraph, seed: int) -> dict[int, np.ndarray[Any, Any]]:
    """Return values for all tensors of a graph."""
    rng = np.random.default_rng(seed)
    return {
        number: rng.normal(size=key.spec.shape).astype(dtype_of(key.spec.dtype))
        for number, key in enumerate(graph.tensors)
    }


async def reserve(repository: Repository, graph: ArchitectureGraph, model_id: str, **options: Any) -> Reservation:
    """Inherit as a client does, without Keras."""
    connection = repository.connection
    return await reserve_best(
        connection.session, connection.caller(), ModelId(model_id), graph, repository.scope, **options
    )


async def put_reserved(
    repository: Repository,
    graph: ArchitectureGraph,
    reservation: Reservation,
    *,
    seed: int = 0,
    keep: bool = True,
    score: float = 0.5,
    labels: Sequence[str] = (),
    tensors: Mapping[int, Any] | None = None,
    extra: Any = None,
) -> Stored:
    """Put what a reservation became: inherited tensors unchanged if `keep`, the others made of `seed`."""
    session = repository.connection.session
    made = values(graph, seed)
    if keep:
        made.update(reservation.arrays)
    made.update(tensors or {})
    folder = await folder_of_home(session, reservation.model_id)
    payload = prepare(reservation, made, 1, folder)
    record = make_record(
        reservation,
        payload,
        graph,
        await session.tick(),
        scope=repository.scope,
        objective=repository.objective,
        metrics={"score": score},
        step=1,
        parent=None,
        extra=extra,
    )
    return await put(session, reservation, record, payload, labels)


async def make(repository: Repository, graph: ArchitectureGraph, model_id: str, **options: Any) -> Stored:
    """Inherit and put."""
    return await put_reserved(repository, graph, await reserve(repository, graph, model_id), **options)


def plugins_of(worker: Any) -> list[Any]:
    """Return the plugins of repositories on a worker; a worker that came late gets them from the coordinator."""
    return [plugin for name, plugin in worker.plugins.items() if name.startswith("daskevo-provider")]


def plugin_of(worker: Any) -> Any:
    """Return the repository's plugin on a worker (there is one repository in a test)."""
    (found,) = plugins_of(worker)
    return found


def coordinator_of(scheduler: Any) -> Any:
    """Return the repository's coordinator on a scheduler."""
    (found,) = (plugin for name, plugin in scheduler.plugins.items() if name.startswith("daskevo-coordinator"))
    return found


def evict_all(tensors: Tensors) -> None:
    """Take all tensors of a provider out of memory."""
    while tensors.evict() >= 0:
        pass


def start_threads() -> None:
    """Start all of this process' threads for tensors before a cluster does: tests look for threads that one leaves."""
    pool = threads()
    together = threading.Barrier(pool._max_workers)
    wait([pool.submit(together.wait, 60) for _ in range(pool._max_workers)])


async def at_rest(scheduler: Any, *providers: Any) -> None:
    """Wait until nothing waits to be settled and no retirement is under way."""
    import asyncio

    core = coordinator_of(scheduler)._core

    def is_busy(worker: Any) -> bool:
        # A provider that joins again, since this process stood still for long, has no host meanwhile.
        host = plugin_of(worker).host
        return host is None or len(host.background) > 1

    while core.unsettled() or any(map(is_busy, providers)):
        await asyncio.sleep(0.01)


def hold_in_task(repository: Repository, graph: ArchitectureGraph, model_id: str, then: str) -> str | None:
    """Inherit in a task, say so, wait for the event "go", then do one of several things; return who won a put."""
    from distributed import Event, Reschedule

    connection = repository.connection
    caller = connection.caller()
    reservation = connection.run(reserve_best, connection.session, caller, ModelId(model_id), graph, repository.scope)
    Event(f"reserved-{model_id}").set()
    Event("go").wait(timeout=120)
    if then == "raise":
        raise ValueError("the evaluation failed")
    if then == "reschedule":
        Event("go").clear()
        raise Reschedule
    if then == "put":
        stored = connection.run(put_in_task, repository, connection, graph, reservation)
        return "other" if stored.by_other else "mine"
    return None


async def put_in_task(repository: Repository, connection: Any, graph: Any, reservation: Reservation) -> Stored:
    """Put inside a task, on the worker's event loop."""
    folder = await folder_of_home(connection.session, reservation.model_id)
    payload = prepare(reservation, {**values(graph, 5), **reservation.arrays}, 1, folder)
    record = make_record(
        reservation,
        payload,
        graph,
        await connection.session.tick(),
        scope=repository.scope,
        objective=repository.objective,
        metrics={"score": 0.7},
        step=1,
        parent=None,
        extra=None,
    )
    return await put(connection.session, reservation, record, payload, ["population:run"])
