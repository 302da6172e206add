"""Openings that take long: the one under way is joined, and none closes or frees what a later one serves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import ShardUnavailable
from daskevo.provider import served_shard, shard_openings
from daskevo.provider.served_shard import ServedShard
from daskevo.provider.shard_openings import ShardOpening
from daskevo.store import journal_reader
from daskevo.types import Tick
from tests.cluster.helpers import at_rest, chain, coordinator_of, evo_cluster, make, open_here, plugin_of

GRAPH = chain(8, 6)
MODELS = [f"m{number}" for number in range(8)]


class Gate:
    """Stops threads at one point until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.go.wait(60)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 60)


async def closed_here(client: Any, scheduler: Any, worker: Any, root: Path) -> tuple[Any, Any, int]:
    """Return a repository of all models, its provider's host, which serves no shard any more, and the generation."""
    repository = await open_here(client, root)
    for model in MODELS:
        await make(repository, GRAPH, model, keep=False)
    await at_rest(scheduler, worker)
    host, generation = plugin_of(worker).host, (await repository.stats())["generation"]
    coordinator_of(scheduler)._registry.assigner.stopped = True  # the test is the coordinator
    await host.close_shards(range(8))
    return repository, host, generation


async def read_all(repository: Any, scheduler: Any) -> None:
    assigner = coordinator_of(scheduler)._registry.assigner
    assigner.stopped = False
    await assigner.assign()
    for model in MODELS:
        assert len(await repository.read(model)) == 4
    verification = await repository.verify()
    assert verification.clean, verification.differences


@evo_cluster()
async def test_an_opening_that_is_asked_for_again_is_the_same_one(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository, host, generation = await closed_here(c, s, a, tmp_path / "root")
    gate, real, adopted = Gate(), ServedShard.adopt, []

    def adopt(served: ServedShard, *arguments: Any) -> None:
        """Take the models in as soon as the first opening has been asked for again."""
        adopted.append(served)
        if len(adopted) == 1:
            gate.pass_through()
        real(served, *arguments)

    monkeypatch.setattr(ServedShard, "adopt", adopt)
    shard = await repository.connection.session.directory.shard_of(MODELS[0])
    others = [number for number in range(8) if number != shard]
    monkeypatch.setattr(shard_openings, "ANSWER_S", 0.1)
    first = asyncio.ensure_future(host.open_shards([shard], generation, [], patience_s=60))
    await gate.wait()
    again = await host.open_shards([shard], generation, [], patience_s=60)
    assert (again["opened"], again["under_way"]) == ([], (await first)["under_way"])
    ((_, _, done),) = again["under_way"]
    assert done > 0
    gate.go.set()
    assert (await host.open_shards([shard], generation, []))["under_way"] == []
    assert len(adopted) == 1
    await host.open_shards(others, generation, [])
    await read_all(repository, s)


@evo_cluster()
async def test_what_nobody_asks_for_any_more_is_left_to_its_next_owner(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository, host, generation = await closed_here(c, s, a, tmp_path / "root")
    gate, real = Gate(), served_shard.records_from_json

    def slow(rows: Iterable[Any]) -> Any:
        def stopped() -> Iterator[Any]:
            for row in rows:
                gate.pass_through()
                yield row

        return real(stopped())

    monkeypatch.setattr(served_shard, "records_from_json", slow)
    shard = await repository.connection.session.directory.shard_of(MODELS[0])
    monkeypatch.setattr(shard_openings, "ANSWER_S", 0.1)
    late = await host.open_shards([shard], generation, [], patience_s=60)
    assert (late["opened"], late["failed"]) == ([], [])
    await gate.wait()
    opening, _ = host.openings._under_way[shard]
    opening.wanted_until = 0.0
    gate.go.set()
    while host.openings:
        await asyncio.sleep(0.01)
    assert shard not in host.shards
    assert (await host.open_shards(range(8), generation, []))["failed"] == []
    await read_all(repository, s)


@evo_cluster()
async def test_who_waits_in_vain_is_told_how_far_it_is(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root", shards=1)
    for model in MODELS:
        await make(repository, GRAPH, model, keep=False)
    await at_rest(s, a)
    gate, real = Gate(), ServedShard.adopt

    def adopt(served: ServedShard, *arguments: Any) -> None:
        gate.pass_through()
        real(served, *arguments)

    monkeypatch.setattr(ServedShard, "adopt", adopt)
    monkeypatch.setattr(shard_openings, "ANSWER_S", 0.1)
    assigner = coordinator_of(s)._registry.assigner
    await plugin_of(a).host.close_shards([0])
    coordinator_of(s)._core.not_served(0, str(a.name))
    opening = asyncio.ensure_future(assigner.assign())
    await gate.wait()
    while not assigner._progress.get(0, ("", 0))[1]:
        await asyncio.sleep(0.01)
    with pytest.raises(ShardUnavailable, match=r"has read \d+ records and models of them, and goes on") as error:
        await assigner.wait_until_open(0.1)
    assert error.value.read == assigner._progress[0][1] > 0
    gate.go.set()
    await opening
    await read_all(repository, s)


@evo_cluster(config={"daskevo.open-timeout": "300ms"})
async def test_a_shard_of_many_models_is_opened_however_short_the_time_limit(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root", shards=1)
    for model in MODELS:
        await make(repository, GRAPH, model, keep=False)
    await at_rest(s, a)
    real = served_shard.numbers_in

    def slow(mask: int) -> Any:
        """Take long for each model that is taken in."""
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.1)
        return real(mask)

    monkeypatch.setattr(served_shard, "numbers_in", slow)
    host = plugin_of(a).host
    await host.close_shards([0])
    coordinator_of(s)._core.not_served(0, str(a.name))
    await read_all(repository, s)
    # Nothing that was begun on the way is left to do harm.
    while host.openings:
        await asyncio.sleep(0.05)
    await read_all(repository, s)


@pytest.mark.parametrize("alone", [True, False])
def test_garbage_of_users_in_the_same_process_is_still_collected(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(shard_openings.gc, "freeze", lambda: frozen.append(True))
    # Of small shards there may be many.
    for shard in range(shard_openings.FROZEN_AT_ONCE):
        ShardOpening(1, shard, 1, Tick(0, 0), float("inf"), threading.Lock(), alone=alone).step()
    assert bool(frozen) is alone


@evo_cluster(providers=0, trainers=0, combined=1)
async def test_a_worker_in_the_process_of_its_user_is_not_alone(c: Any, s: Any, a: Any, tmp_path: Path) -> None:
    await open_here(c, tmp_path / "root")
    assert not plugin_of(a).host.openings._alone


@evo_cluster()
async def test_a_disk_that_stands_still_for_one_shard_keeps_no_other_closed(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root", shards=2)
    await at_rest(s, a)
    host, generation = plugin_of(a).host, (await repository.stats())["generation"]
    coordinator_of(s)._registry.assigner.stopped = True
    await host.close_shards(range(2))
    gate, real = Gate(), journal_reader.open_inside

    def still(path: Path) -> Any:
        if path.parent.name == "000":
            gate.pass_through()
        return real(path)

    monkeypatch.setattr(journal_reader, "open_inside", still)
    standing = asyncio.ensure_future(host.open_shards([0], generation, []))
    await gate.wait()
    assert [number for number, _ in (await host.open_shards([1], generation, []))["opened"]] == [1]
    assert not standing.done()
    gate.go.set()
    assert (await standing)["failed"] == []
