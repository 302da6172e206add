"""Shards move while their providers are there: handed over, evened out, and mended where table and provider differ."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from daskevo.errors import ShardFenced
from daskevo.protocol.messages import Status
from daskevo.provider.served_shard import ServedShard
from daskevo.types import ModelId
from tests.cluster.helpers import chain, coordinator_of, evo_cluster, make, open_here, plugin_of, values
from tests.waiting import wait_until_async

GRAPH = chain(8, 6, 3)
SOON = {"daskevo.rebalance-after": "200ms"}


def shards(worker: Any) -> int:
    return len(plugin_of(worker).host.shards)


@evo_cluster(providers=2, config=SOON)
async def test_who_is_about_to_leave_hands_over_and_gets_its_share_again_if_it_stays(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any, caplog: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    for number in range(4):
        await make(repository, GRAPH, f"m{number}", seed=number, keep=False)
    s.handle_worker_status_change("closing_gracefully", b.address, "test")
    await wait_until_async(lambda: (shards(a), shards(b)) == (8, 0))
    for number in range(4):
        np.testing.assert_array_equal((await repository.read(f"m{number}"))[1, 0], values(GRAPH, number)[0])
    s.handle_worker_status_change("running", b.address, "test")
    await wait_until_async(lambda: (shards(a), shards(b)) == (4, 4))
    verification = await repository.verify()
    assert (verification.clean, verification.models) == (True, 4)
    assert "stops serving" not in caplog.text  # nobody was fenced


@evo_cluster(providers=2, config=SOON)
async def test_a_provider_that_retires_has_nothing_left_when_it_goes(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any, monkeypatch: Any, caplog: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    core, left = coordinator_of(s)._core, []
    went = core.provider_left
    monkeypatch.setattr(core, "provider_left", lambda name: left.append((name, core.serves(name))) or went(name))
    await c.retire_workers([b.address])
    assert (await repository.verify()).clean
    await wait_until_async(lambda: shards(a) == 8)
    await wait_until_async(lambda: left)
    assert left == [(str(b.name), set())]
    assert "stops serving" not in caplog.text
    assert (await repository.record("first")).model_id == "first"


@evo_cluster(providers=2)
async def test_shards_that_a_provider_could_not_hand_over_in_time_are_opened_when_it_has_gone(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    for number in range(8):
        await make(repository, GRAPH, f"m{number}", seed=number)
    core, left = coordinator_of(s)._core, []
    went = core.provider_left
    monkeypatch.setattr(core, "provider_left", lambda name: left.append((name, core.serves(name))) or went(name))
    monkeypatch.setattr("daskevo_plugins.provider.HAND_OVER_S", 0.0)
    monkeypatch.setattr("daskevo_plugins.coordinator.provider_registry._SEE_OFF_S", 0.1)
    monkeypatch.setattr(coordinator_of(s)._registry.core, "hand_over", lambda *arguments: [])
    await b.close()
    await wait_until_async(lambda: shards(a) == 8)
    ((name, serving),) = left
    assert (name, len(serving)) == (str(b.name), 4)
    verification = await repository.verify()
    assert (verification.clean, verification.models) == (True, 8)


@evo_cluster(providers=2)
async def test_the_last_providers_keep_what_nobody_can_take(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any
) -> None:
    await open_here(c, tmp_path / "root")
    for worker in (a, b):
        s.handle_worker_status_change("closing_gracefully", worker.address, "test")
    follower = coordinator_of(s)._registry
    # It says at once that there is nothing to wait for.
    assert await asyncio.wait_for(follower.leave(str(a.name), a.address, 1000), 60)
    assert (shards(a), shards(b)) == (4, 4)
    assert not await follower.leave("nobody", a.address, 1000)


@evo_cluster()
async def test_a_shard_is_closed_when_what_is_under_way_has_ended(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    await open_here(c, tmp_path / "root")
    host, go = plugin_of(a).host, asyncio.Event()

    async def slow(served: ServedShard) -> list[Any]:
        await go.wait()
        return await served.ask([Status(ModelId("m"))])

    under_way = asyncio.create_task(host.with_shard(3, slow))
    await asyncio.sleep(0)
    closing = [asyncio.create_task(host.close_shards([3, 4])) for _ in range(2)]
    await wait_until_async(lambda: 4 not in host.shards and 4 not in host._closing)
    assert 3 not in host.shards
    assert await host.with_shard(3, slow) is None
    assert not any(task.done() for task in closing)
    go.set()
    assert len(await under_way) == 1
    await asyncio.gather(*closing)
    # But it is not waited for without end.
    go.clear()
    monkeypatch.setattr("daskevo.provider.host.ENDING_S", 0.01)
    late = asyncio.create_task(host.with_shard(5, slow))
    await asyncio.sleep(0)
    await host.close_shards([5])
    go.set()
    with pytest.raises(ShardFenced):
        await late


@evo_cluster(providers=2, config={"daskevo.silent-after": "2s"})
async def test_where_table_and_provider_differ_the_table_counts_and_nothing_is_left_alone(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    mine, its = plugin_of(a).host, plugin_of(b).host
    lost, taken = sorted(mine.shards)[:2]
    # It lost a shard, and its word of it; and another took one that it was not given.
    await mine.close_shards([lost])
    await its.open_shards([taken], coordinator_of(s)._core.generation, [])
    assert taken in its.shards
    await wait_until_async(lambda: taken not in its.shards and lost in (mine.shards | its.shards))
    await wait_until_async(lambda: shards(a) + shards(b) == 8)
    verification = await repository.verify()
    assert (verification.clean, verification.models) == (True, 1)
