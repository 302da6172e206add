"""Shards follow their providers: opened elsewhere when one leaves, waiting when none is there, fenced, lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from distributed import Worker

from daskevo.errors import ModelLost, RepositoryTaken, ShardUnavailable
from daskevo.store.lease import Holder, Lease, take_lease
from daskevo.store.root import Root
from daskevo.wire.transport import NoAnswer
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


@evo_cluster(providers=2)
async def test_a_provider_that_is_leaving_gets_shards_only_if_it_stays(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any, monkeypatch: Any, caplog: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    core, told = coordinator_of(s)._core, asyncio.Queue()
    assign = core.assign

    def listened_to(*arguments: Any) -> Any:
        told.put_nowait(found := assign(*arguments))
        return found

    monkeypatch.setattr(core, "assign", listened_to)
    s.handle_worker_status_change("closing_gracefully", b.address, "test")
    await a.close()
    assert await asyncio.wait_for(told.get(), 60) == []
    s.handle_worker_status_change("running", b.address, "test")
    while not (found := await asyncio.wait_for(told.get(), 60)):
        pass  # it was asked again before it stayed
    (instruction,) = found
    # The four that were elsewhere, and of its own those that it had given up by then, as it was leaving.
    assert instruction.place.address == b.address
    assert 4 <= len(instruction.shards) <= 8
    np.testing.assert_array_equal((await repository.read("first"))[1, 0], values(GRAPH, 1)[0])
    assert "did not open" not in caplog.text


@evo_cluster()
async def test_a_lease_that_cannot_be_given_back_does_not_keep_the_scheduler(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any, caplog: Any
) -> None:
    await open_here(c, tmp_path / "root")
    coordinator, answered = coordinator_of(s), threading.Event()
    monkeypatch.setattr("daskevo_plugins.coordinator.plugin._CLOSING_S", 0.05)
    monkeypatch.setattr(Lease, "release", lambda lease: answered.wait())
    try:
        await asyncio.wait_for(coordinator.before_close(), 60)
    finally:
        answered.set()
    assert "was not given back: TimeoutError()" in caplog.text


@evo_cluster()
async def test_shards_wait_for_a_provider_and_callers_are_told(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    await a.close()
    session = repository.connection.session
    patience_s, session.timeout_s = session.timeout_s, 0.5
    with pytest.raises(ShardUnavailable) as caught:
        await repository.record("first")
    session.timeout_s = patience_s
    assert caught.value.shard == await session.directory.shard_of("first")
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
    lost_shards = (await repository.stats())["lost_shards"]
    assert (await repository.best_match([GRAPH])).partial.keys() == {f"shard {shard}" for shard in lost_shards}
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
    repository = await open_here(c, tmp_path / "root")
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


class SlowRoot:
    """A root whose shards aren't opened before `go`: a file system that hangs on one host."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.go = threading.Event()
        self.waiting: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.root, name)

    def shard(self, number: int) -> Any:
        folder = self.root.shard(number)
        real = folder.open

        def hanging(*arguments: Any) -> Any:
            self.waiting.add(number)
            assert self.go.wait(60)
            return real(*arguments)

        folder.open = hanging  # type: ignore[method-assign]
        return folder


@evo_cluster(providers=3, trainers=0, config={"daskevo.open-timeout": "60s"})
async def test_a_provider_whose_opening_hangs_is_passed_over_and_fenced(
    c: Any, s: Any, a: Any, b: Any, gone: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root", shards=12)
    for number in range(8):
        await make(repository, GRAPH, f"m{number}", seed=number)
    host, assigner = plugin_of(b).host, coordinator_of(s)._registry.assigner
    slow = host.root = SlowRoot(host.root)
    real = assigner._transport.provider

    async def provider(address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Wait for the one that hangs for a moment only, and for the other as long as it takes."""
        if method == "open_shards" and address == b.address:
            timeout_s = arguments["patience_s"] = 0.5
        answer = await real(address, method, timeout_s=timeout_s, **arguments)
        if method == "open_shards" and answer["under_way"]:
            raise NoAnswer(address, method, "it gets no further", late=True)
        return answer

    monkeypatch.setattr(assigner._transport, "provider", provider)
    try:
        await gone.close()
        # Half of its shards are given to b, and after a while to a.
        for number in range(8):
            assert (await repository.hold(f"m{number}", "user:me")) == ("user:kept", "user:me")
        assert slow.waiting
        table = await repository.connection.session.directory.refresh()
        assert {table.places[number].name for number in slow.waiting} == {str(a.name)}
        assert assigner.avoided() == {str(b.name)}
    finally:
        slow.go.set()
    # Its late opening takes the shards, but it knows that it is too late; a finds the foreign epoch and opens again.
    while host.openings:
        await asyncio.sleep(0.01)
    assert not slow.waiting & host.shards.keys()
    for number in range(8):
        assert (await repository.hold(f"m{number}", "user:you")) == ("user:kept", "user:me", "user:you")
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert verification.models == 8


@evo_cluster(config={"daskevo.open-timeout": "100ms"})
async def test_a_shard_that_takes_long_is_opened_in_the_end(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    assigner, waits, real = coordinator_of(s)._registry.assigner, [], plugin_of(a).host.open_shards

    async def provider(address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        waits.append(timeout_s)
        if len(waits) < 3:
            raise NoAnswer(address, method, "time limit", late=True)
        return await real(**{**arguments, "patience_s": 60})

    monkeypatch.setattr(assigner._transport, "provider", provider)
    monkeypatch.setattr("daskevo_plugins.coordinator.shard_assignment._FIRST_PAUSE_S", 0.01)
    await plugin_of(a).host.close_shards([3])
    coordinator_of(s)._core.not_served(3, str(a.name))
    await assigner.assign()
    assert waits == [0.1, 0.2, 0.4]
    assert (await repository.verify()).clean


@evo_cluster()
async def test_what_cannot_be_opened_is_logged_once(c: Any, s: Any, a: Any, t: Any, tmp_path: Any, caplog: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    host, generation = plugin_of(a).host, (await repository.stats())["generation"]

    async def said(tries: int) -> list[str]:
        caplog.clear()
        for _ in range(tries):
            await host.open_shards(range(8), generation, [])
        return [record.message for record in caplog.records if "open" in record.message]

    for _ in range(2):
        await host.close_shards(range(8))
        (tmp_path / "root").rename(tmp_path / "elsewhere")
        (line,) = await said(3)
        assert "can't open shards [0, 1, 2, 3, 4, 5, 6, 7]" in line
        (tmp_path / "elsewhere").rename(tmp_path / "root")
        (line,) = await said(2)
        assert "has opened shards [0, 1, 2, 3, 4, 5, 6, 7]" in line
