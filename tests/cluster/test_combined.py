"""One worker for everything, with one thread: the whole cycle inside its tasks, without a free slot."""

from __future__ import annotations

from typing import Any

import pytest
from distributed import Client

import daskevo
from daskevo.deploy.local import local_cluster
from daskevo.types import ModelId
from tests.cluster.helpers import chain, evo_cluster, open_here, plugin_of, put_in_task

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


def cycle(repository: Any, graph: Any, model_id: str) -> tuple[str | None, bool, int]:
    """Inherit, put, query, read, hold and release in one task."""
    from daskevo.client.inherit import reserve_best

    connection = repository.connection
    reservation = connection.run(
        reserve_best, connection.session, connection.caller(), ModelId(model_id), graph, repository.scope
    )
    connection.run(put_in_task, repository, connection, graph, reservation)
    (match,) = repository.best_match([graph])
    repository.hold(model_id, "user:me")
    repository.release(model_id, "population:run")
    found = len(repository.read(model_id))
    ancestor = None if reservation.ancestor is None else str(reservation.ancestor.model_id)
    return ancestor, match.model_id == model_id, found


@pytest.mark.parametrize("root", [None, "root"])
def test_the_whole_cycle_on_one_thread(root: str | None, tmp_path: Any) -> None:
    @evo_cluster(providers=0, trainers=0, combined=1)
    async def run(c: Any, s: Any, both: Any) -> None:
        assert both.state.nthreads == 1
        repository = await open_here(c, None if root is None else tmp_path / root)
        options = {"resources": {"evaluation": 1}, "pure": False}
        assert await c.submit(cycle, repository, GRAPH, "one", **options) == (None, True, 6)
        assert await c.submit(cycle, repository, WIDER, "two", **options) == ("one", True, 6)
        assert (await (await repository.query_futures([WIDER])))[0].model_id == "two"
        assert len(plugin_of(both).host.shards) == 8
        verification = await repository.verify()
        assert verification.clean, verification.differences

    run()


@evo_cluster(providers=0, trainers=0, combined=2)
async def test_four_at_once_on_two_threads(c: Any, s: Any, one: Any, other: Any, tmp_path: Any) -> None:
    assert one.state.nthreads == other.state.nthreads == 1
    repository = await open_here(c, tmp_path / "root")
    # No thread is free for what each of them asks the other's worker.
    four = [c.submit(cycle, repository, chain(8, 6, 10 + n), f"m{n}", pure=False) for n in range(4)]
    assert [found[1:] for found in await c.gather(four)] == [(True, 6)] * 4
    verification = await repository.verify()
    assert verification.clean, verification.differences


@pytest.mark.long
@pytest.mark.processes
def test_a_local_cluster_whose_trainers_are_providers(tmp_path: Any) -> None:
    with local_cluster(trainers=1, providers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
        options = {"resources": {"evaluation": 1}, "pure": False}
        assert client.submit(cycle, repository, GRAPH, "one", **options).result(timeout=180) == (None, True, 6)
        assert repository.verify().clean
