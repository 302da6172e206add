"""Snapshots when messages are lost, bases go at exact points, disks and quotas are full, tasks end too early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Event

from daskevo.errors import ModelExists, PutFailed, PutUnknown, QuotaReached, RootUnusable
from daskevo.protocol.messages import Refer, message_from_wire
from daskevo.repository import Snapshot
from daskevo.wire.transport import operation
from tests.cluster.helpers import at_rest, coordinator_of, evo_cluster, open_here, plugin_of
from tests.cluster.test_snapshots import assert_same, state
from tests.faults.test_put_verdicts import Intercept, is_abort
from tests.tmpfs import own_disk

FIRST, SECOND = state(1, frozen=2), state(2, frozen=2)
FROZEN_BYTES = sum(array.nbytes for array in FIRST.weights[:2])


async def _ready(c: Any, root: Any) -> Any:
    """Open a repository that has the first state, as "base"."""
    repository = await open_here(c, root)
    await repository.put_snapshot(FIRST, name="base", step=1)
    return repository


async def _put(repository: Any) -> Any:
    return await repository.put_snapshot(SECOND, name="second", step=2, base="base", labels=["cache:run"])


async def _nothing_is_left(repository: Any, s: Any, *providers: Any) -> None:
    await repository.stats()  # what is sent in the background has been sent
    await at_rest(s, *providers)
    assert coordinator_of(s)._core.live() == {}
    verification = await repository.verify()
    assert verification.clean, verification.differences


def _is_refer(arguments: dict[str, Any]) -> bool:
    return any(isinstance(message_from_wire(message), Refer) for message in arguments["messages"])


@evo_cluster()
async def test_the_answer_is_lost_but_the_put_was_carried_out(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await _ready(c, tmp_path / "root")
    lost = Intercept(a, repository, "put", after="lose")
    assert await _put(repository) == "second"
    assert lost.seen
    lost.stop()
    assert_same(await repository.read_snapshot("second"), SECOND)
    await _nothing_is_left(repository, s, a)


@evo_cluster()
async def test_the_put_never_arrives_and_is_done_again(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await _ready(c, tmp_path / "root")
    lost = Intercept(a, repository, "put", before="lose")
    with pytest.raises(PutFailed, match="nothing leaks"):
        await _put(repository)
    assert (await repository.stats())["references"] == 1
    assert len(list((tmp_path / "root").rglob("*.seg"))) == 1
    lost.stop()
    await _put(repository)
    assert (await repository.snapshots())[-1].own_bytes == SECOND.nbytes - FROZEN_BYTES
    await _nothing_is_left(repository, s, a)


@evo_cluster()
async def test_neither_put_nor_abort_is_answered(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await _ready(c, tmp_path / "root")
    puts = Intercept(a, repository, "put", after="lose")
    aborts = Intercept(a, repository, "ask", before="lose", which=is_abort)
    with pytest.raises(PutUnknown, match=r"repository\.status"):
        await _put(repository)
    puts.stop()
    aborts.stop()
    await at_rest(s, a)
    # It had been carried out; put again, it finds its own.
    assert (await repository.status("second")).state == "published"
    assert await _put(repository) == "second"
    await _nothing_is_left(repository, s, a)


@evo_cluster()
async def test_the_base_goes_between_the_look_and_the_reservation(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any
) -> None:
    repository = await _ready(c, tmp_path / "root")
    name = operation("provider", repository.settings.key, "ask")
    real, seen = a.handlers[name], []

    async def handler(**arguments: Any) -> Any:
        if _is_refer(arguments) and not seen:
            seen.append(arguments)
            await repository.retire("base")
            while (await repository.status("base")).state != "retired":
                await asyncio.sleep(0.01)
        return await real(**arguments)

    a.handlers[name] = handler
    await _put(repository)
    assert seen
    assert (await repository.snapshots())[-1].own_bytes == SECOND.nbytes
    assert_same(await repository.read_snapshot("second"), SECOND)
    await _nothing_is_left(repository, s, a)


@evo_cluster()
async def test_an_owner_that_is_silent_costs_bytes_not_the_put(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await _ready(c, tmp_path / "root")
    silent = Intercept(a, repository, "ask", after="lose", which=_is_refer)
    await _put(repository)
    assert silent.seen
    silent.stop()
    assert (await repository.snapshots())[-1].own_bytes == SECOND.nbytes
    # What had been reserved all the same is given back: the audit narrows what isn't used.
    assert (await repository.verify(repair=True)).clean
    await _nothing_is_left(repository, s, a)


@evo_cluster()
async def test_the_disk_is_full(c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any) -> None:
    repository = await _ready(c, tmp_path / "root")

    def full(*arguments: Any, **keywords: Any) -> None:
        raise RootUnusable("no space left", folder=str(tmp_path))

    monkeypatch.setattr("daskevo.store.segment_tier.write_segment", full)
    monkeypatch.setattr("daskevo.store.shard_segments.write_segment", full)
    with pytest.raises(PutFailed, match="no space left"):
        await _put(repository)
    # A second evaluation of a stored state needs no room for tensors.
    await repository.put_snapshot(FIRST, step=1, base="base", metrics={"score": 0.5})
    monkeypatch.undo()
    await _put(repository)
    await _nothing_is_left(repository, s, a)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    with own_disk(tmp_path / "disk", 4 << 20) as folder:
        yield folder


def test_a_disk_that_really_is_full_goes_on_when_a_label_is_released(disk: Path) -> None:
    def large(seed: int) -> Snapshot:
        return Snapshot(None, (), {"state": np.random.default_rng(seed).random(50_000)}, seed)

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, disk / "root")
        names: list[str] = []

        async def until_full() -> None:
            while True:
                names.append(await repository.put_snapshot(large(len(names)), step=1, labels=["cache:run"]))

        with pytest.raises(PutFailed) as caught:
            await until_full()
        assert caught.value.free_bytes < caught.value.needed_bytes
        assert len(names) > 3
        await repository.release(names[0], "cache:run")
        await at_rest(s, a)
        await repository.put_snapshot(large(99), name="last", step=1)
        for seed, name in [*list(enumerate(names))[1:], (99, "last")]:
            assert_same(await repository.read_snapshot(name), large(seed))
        await _nothing_is_left(repository, s, a)

    run()


@pytest.mark.parametrize("way", ["files", "messages", "memory"])
def test_beyond_the_quota_until_a_label_is_released(way: str, tmp_path: Path) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        state = Snapshot(None, (), {"state": np.arange(10_000.0)})
        other = Snapshot(None, (), {"state": np.arange(10_000.0) + 1})
        root = None if way == "memory" else tmp_path / "root"
        repository = await open_here(c, root, quota=state.nbytes + 5_000)
        repository.connection.session.directory.local_peers.through_messages = way == "messages"
        name = await repository.put_snapshot(state, step=1, labels=["cache:run"])
        with pytest.raises(QuotaReached) as caught:
            await repository.put_snapshot(other, step=2, base=name)
        assert caught.value.needed_bytes == other.nbytes
        # What is stored already needs no room.
        again = await repository.put_snapshot(state, step=1, base=name, labels=["cache:run"])
        await repository.release_label("cache:run")
        await at_rest(s, a)
        assert (await repository.status(again)).state == "retired"
        await repository.put_snapshot(other, step=2, base=name)
        await _nothing_is_left(repository, s, a)

    run()


@evo_cluster(providers=2)
async def test_of_two_runs_of_a_task_both_have_the_snapshot(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    found = await asyncio.gather(*(repository.put_snapshot(FIRST, name="one", step=1) for _ in range(4)))
    assert found == ["one"] * 4
    other = Snapshot(None, (), {"x": np.ones(3)})
    results = await asyncio.gather(
        *(repository.put_snapshot(snapshot, name="two", step=1) for snapshot in (FIRST, other)), return_exceptions=True
    )
    assert {type(result) for result in results} == {ModelExists, str}
    await _nothing_is_left(repository, s, a, b)
    assert (await repository.stats())["payload_bytes"] in (2 * FIRST.nbytes, FIRST.nbytes + other.nbytes)


def _put_and_end(repository: Any) -> None:
    repository.begin_put_snapshot(SECOND, name="second", step=2, base="base")
    assert Event("arrived").wait(timeout=120)


@evo_cluster()
async def test_what_a_task_has_not_put_when_it_ends_is_not_put(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await _ready(c, tmp_path / "root")
    name = operation("provider", repository.settings.key, "put")
    real, go = a.handlers[name], asyncio.Event()

    async def late(**arguments: Any) -> Any:
        await Event("arrived").set()
        await go.wait()
        return await real(**arguments)

    a.handlers[name] = late
    await c.submit(_put_and_end, repository, resources={"evaluation": 1})
    await at_rest(s, a)
    go.set()
    await _nothing_is_left(repository, s, a)
    assert (await repository.status("second")).state == "unknown"
    assert not list((tmp_path / "root").rglob("second*.seg"))


@pytest.mark.parametrize("method", ["ask", "put"])
def test_a_put_that_is_cancelled_leaves_nothing(method: str, tmp_path: Path) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await _ready(c, tmp_path / "root")
        which = _is_refer if method == "ask" else lambda arguments: True
        stuck = Intercept(a, repository, method, before="hang", which=which)
        putting = asyncio.ensure_future(_put(repository))
        while not stuck.seen:
            await asyncio.sleep(0.01)
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        stuck.stop()
        await _nothing_is_left(repository, s, a)
        assert (await repository.status("second")).state == "unknown"
        await _put(repository)
        assert plugin_of(a).host.uploads.memory_bytes == 0

    run()
