"""Shards follow their providers: opened elsewhere when one leaves, waiting when none is there, fenced, lost."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from distributed import Worker

from daskevo.errors import ModelLost, RepositoryTaken, ShardUnavailable
from daskevo.store.lease import Holder, take_lease
from daskevo.store.root import Root
from tests.cluster.helpers import (
    at_rest,
    chain,
    coordinator_of,
    evo_cluster,
    make,
    open_here,
    plugin_of,
    put_reserved,
    reserve,
    values,
)

GRAPH = chain(8, 6, 3)


@evo_cluster(providers=2)
async def test_shards_are_spread_and_move_to_who_is_left(c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    assert [len(plugin_of(worker).host.shards) for worker in (a, b)] == [4, 4]
    assert plugin_of(t).host is None
    for number in range(6):
        await make(repository, GRAPH, f"m{number}", seed=number, keep=number % 2 == 0)
    await a.close()
    found = [await repository.read(f"m{number}") for number in range(6)]
    np.testing.assert_array_equal(found[0][1, 0], values(GRAPH, 0)[0])
    assert len(plugin_of(b).host.shards) == 8
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert verification.models == 6


@evo_cluster()
async def test_shards_wait_for_a_provider_and_callers_are_told(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root", timeout_s=1)
    await make(repository, GRAPH, "first", seed=1)
    await a.close()
    with pytest.raises(ShardUnavailable) as caught:
        await repository.record("first")
    assert caught.value.shard == await repository.connection.session.directory.shard_of("first")
    assert "resource 'provider'" in str(caught.value)
    (match,) = await repository.best_match([GRAPH])
    assert match is None
    assert len((await repository.best_match([GRAPH])).partial) == 8
    async with Worker(s.address, nthreads=2, resources={"provider": 1}, name="late"):
        assert (await repository.record("first")).model_id == "first"
        assert (await repository.best_match([GRAPH]))[0].model_id == "first"
        assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_a_put_is_retried_where_its_shard_is_now(c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    reservations = [await reserve(repository, chain(8, 6, 9), f"child{number}") for number in range(6)]
    await a.close()
    for reservation in reservations:
        await put_reserved(repository, chain(8, 6, 9), reservation)
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert verification.models == 7


@evo_cluster(providers=2)
async def test_models_in_memory_are_lost_with_their_provider_and_named(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    for number in range(8):
        await make(repository, chain(8, 6, 3 + number), f"m{number}", seed=number)
    table = await repository.connection.session.directory.table()
    place = {f"m{number}": table.place(f"m{number}").address for number in range(8)}
    assert set(place.values()) == {a.address, b.address}
    lost, kept = ({model for model, address in place.items() if address == worker.address} for worker in (a, b))
    # m0 stored what all others inherit.
    await (a if "m0" in lost else b).close()
    gone, left = (lost, kept) if "m0" in lost else (kept, lost)
    await at_rest(s, b if "m0" in lost else a)
    for model in gone:
        with pytest.raises(ModelLost):
            await repository.record(model)
    for model in left:
        assert (await repository.record(model)).model_id == model
        with pytest.raises(ModelLost):
            await repository.read(model)
    while (await repository.best_match([GRAPH])) != [None]:
        await asyncio.sleep(0.01)
    assert (await repository.stats())["lost_shards"]
    # Everything else goes on.
    await make(repository, GRAPH, "new", seed=9)
    assert (await repository.best_match([GRAPH]))[0].model_id == "new"
    np.testing.assert_array_equal((await repository.read("new"))[1, 0], values(GRAPH, 9)[0])


@evo_cluster()
async def test_a_shard_that_another_opener_has_is_not_served(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    number = await repository.connection.session.directory.shard_of("first")
    # Somebody opens the shard under the same generation: a fence, though not another job.
    intruder = Root.open(tmp_path / "root").shard(number)
    opening = intruder.open(coordinator_of(s)._core.generation)
    intruder.serve(opening.records)
    intruder.close()
    # The provider finds the foreign epoch, says so, and is given the shard again: the caller sees nothing of it.
    assert await repository.hold("first", "user:me") == ("user:kept", "user:me")
    assert plugin_of(a).host.shards[number].epoch > opening.epoch
    assert (await repository.verify()).clean


@evo_cluster()
async def test_another_job_that_takes_the_root_is_named(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root", timeout_s=5)
    await make(repository, GRAPH, "first", seed=1)
    root = Root.open(tmp_path / "root")
    lease = take_lease(root, Holder("other", "tcp://nowhere:1", "SLURM_JOB_ID=77"), lambda holder: None)
    for number in range(root.shards):
        folder = root.shard(number)
        folder.serve(folder.open(lease.generation).records)
        folder.close()
    with pytest.raises((RepositoryTaken, ShardUnavailable)):
        await repository.hold("first", "user:me")
    with pytest.raises(RepositoryTaken) as caught:
        await repository.hold("first", "user:me")
    assert "SLURM_JOB_ID=77" in str(caught.value)
