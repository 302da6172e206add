"""Snapshots that can't be read any more are one typed error that says why; a provider that is silent is another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import daskevo
from daskevo.errors import NotDeployed, ShardUnavailable, SnapshotGone
from daskevo.protocol.hashing import shard_of
from daskevo.repository import Snapshot
from daskevo.types import ModelId
from tests.cluster.helpers import at_rest, evo_cluster, open_here
from tests.cluster.test_damage import flip, hide
from tests.cluster.test_snapshots import assert_same, state
from tests.faults.test_put_verdicts import Intercept

FIRST, SECOND = state(1, frozen=2), state(2, frozen=2)


async def _why(repository: Any, name: str) -> str:
    with pytest.raises(SnapshotGone, match="train what it stood for again") as caught:
        await repository.read_snapshot(name)
    assert caught.value.name == name
    assert caught.value.__cause__ is not None
    return str(caught.value.reason)


def _damage(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    half = len(data) // 2
    data[half:] = bytes(byte ^ 0xFF for byte in data[half:])
    segment.write_bytes(data)


def _cut(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:100])


@pytest.mark.parametrize("way", ["files", "messages"])
@pytest.mark.parametrize("harm", [_damage, _cut, Path.unlink])
def test_a_file_that_is_not_what_was_written(way: str, harm: Any, tmp_path: Path) -> None:
    whole = Snapshot(None, (), {"large": SECOND.weights[0].repeat(200)})

    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await repository.put_snapshot(whole, name="whole", step=1)
        await repository.put_snapshot(FIRST, name="base", step=1)
        await repository.put_snapshot(SECOND, name="second", step=2, base="base")

    fill()
    (segment,) = (tmp_path / "root").rglob("base*.seg")
    harm(segment)

    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        repository.connection.session.directory.local_peers.through_messages = way == "messages"
        # Who inherits from it is gone with it; the others are not.
        reasons = {await _why(repository, name) for name in ("base", "second")}
        assert reasons <= {"damaged", "lost"}
        assert_same(await repository.read_snapshot("whole"), whole)
        assert (await repository.stats())["live_attempts"] == 0
        # A training goes on: what was damaged is trained again, and what is damaged can be let go.
        again = await repository.put_snapshot(FIRST, step=1)
        assert_same(await repository.read_snapshot(again), FIRST)
        for name in ("base", "second"):
            await repository.retire(name)
        await at_rest(s, a, b)
        assert (await repository.verify()).clean

    run()


@pytest.mark.parametrize("harm", [flip, hide])
def test_records_that_can_not_be_read(harm: Any, tmp_path: Path) -> None:
    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await repository.put_snapshot(FIRST, name="base", step=1)

    fill()
    home = shard_of(ModelId("base"), 8)
    (journal,) = (tmp_path / "root" / "shards" / f"{home:03d}").glob("journal.*")
    harm(journal)

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        assert await _why(repository, "base") == "damaged"
        # One whose base can't be read is stored in full, if its own home can.
        name = next(f"s{n}" for n in range(99) if shard_of(ModelId(f"s{n}"), 8) != home)
        await repository.put_snapshot(SECOND, name=name, step=2, base="base")
        assert_same(await repository.read_snapshot(name), SECOND)
        assert [row.name for row in await repository.snapshots()] == [name]

    run()


@evo_cluster(providers=2)
async def test_what_went_with_a_providers_memory(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    table = await repository.connection.session.directory.table()

    def at(worker: Any, word: str) -> str:
        return next(f"{word}{n}" for n in range(99) if table.place(ModelId(f"{word}{n}")).address == worker.address)

    lost, heir, kept = at(a, "lost"), at(b, "heir"), at(b, "kept")
    await repository.put_snapshot(FIRST, name=lost, step=1)
    await repository.put_snapshot(SECOND, name=heir, step=2, base=lost)
    await repository.put_snapshot(SECOND, name=kept, step=2)
    await a.close(reason="test", nanny=False)
    while len((await repository.stats())["unserved_shards"]) > 0:
        await asyncio.sleep(0.05)
    reasons = [await _why(repository, name) for name in (lost, heir)]
    assert reasons == ["lost", "lost"]
    assert_same(await repository.read_snapshot(kept), SECOND)
    again = await repository.put_snapshot(FIRST, step=1, base=lost)
    assert_same(await repository.read_snapshot(again), FIRST)


@evo_cluster()
async def test_a_provider_that_is_silent_has_not_lost_it(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root")
    await repository.put_snapshot(FIRST, name="base", step=1)
    for method in ("ask", "refer"):
        silent = Intercept(a, repository, method, before="lose")
        with pytest.raises(ShardUnavailable):
            await repository.read_snapshot("base")
        silent.stop()
    assert_same(await repository.read_snapshot("base"), FIRST)


def test_a_look_without_a_cluster_reads_them(tmp_path: Path) -> None:
    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await repository.put_snapshot(FIRST, name="base", step=1)
        await repository.put_snapshot(SECOND, name="second", step=2, base="base", metrics={"score": 0.5})
        await repository.retire("base")
        await at_rest(s, a)

    fill()
    repository = daskevo.open(tmp_path / "root", "test")
    assert_same(repository.read_snapshot("second"), SECOND)
    assert [(row.name, row.metrics) for row in repository.snapshots()] == [("second", {"score": 0.5})]
    assert repository.models() == repository.best_match([FIRST.graph])[:0] == []
    assert repository.best_match([FIRST.graph]) == [None]
    for name, reason in (("base", "retired"), ("never", "unknown")):
        with pytest.raises(SnapshotGone) as caught:
            repository.read_snapshot(name)
        assert caught.value.reason == reason
    with pytest.raises(NotDeployed, match="client="):
        repository.put_snapshot(FIRST, step=1)
