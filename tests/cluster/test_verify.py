"""Verify says what isn't as promised, changes nothing without `repair`, and mends what the audit can mend."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from daskevo.errors import CorruptRecord
from daskevo.protocol.messages import Refer
from daskevo.protocol.replies import Reserved
from daskevo.provider import damage
from daskevo.store.root import Root
from daskevo.types import ModelId, Tick
from tests.cluster.helpers import at_rest, chain, evict_all, evo_cluster, make, open_here, plugin_of

GRAPH = chain(8, 6)


def kinds(verification: Any) -> list[str]:
    return sorted(difference.kind for difference in verification.differences)


@pytest.mark.usefixtures("looks_again_at_once")
@evo_cluster(providers=2)
async def test_bits_of_an_attempt_that_is_over(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    connection = repository.connection
    attempt = await connection.session.begin(connection.caller(), ModelId("child"))
    refer = Refer(ModelId("first"), ModelId("child"), attempt, frozenset({0, 1}))
    assert isinstance(await connection.session.send(refer, Reserved), Reserved)
    assert (await repository.verify()).clean  # the attempt is live: no verdict
    await connection.session.end(attempt, settled=True)  # a lie: nothing was dropped
    for _ in range(2):
        assert kinds(await repository.verify()) == ["leftover reference"]
    assert (await repository.verify(repair=True)).clean
    assert (await repository.stats())["references"] == 1


@pytest.mark.usefixtures("looks_again_at_once")
@evo_cluster(providers=2)
async def test_bits_that_a_published_map_does_not_use(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    child = await make(repository, GRAPH, "child", keep=False, seed=3)
    await repository.connection.session.outbox.sent()
    refer = Refer(ModelId("first"), ModelId("child"), child.record.attempt, frozenset({0}))
    assert isinstance(await repository.connection.session.send(refer, Reserved), Reserved)
    assert kinds(await repository.verify()) == ["leftover reference"]
    assert (await repository.verify(repair=True)).clean


@pytest.mark.usefixtures("looks_again_at_once")
@evo_cluster()
async def test_files_that_no_record_names(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    stored = await make(repository, GRAPH, "first")
    root = Root.open(tmp_path / "root")
    folder = root.shard(await repository.connection.session.directory.shard_of(ModelId("first")))
    source = folder.segment_path(ModelId("first"), stored.record.attempt)
    left = folder.segment_path(ModelId("first"), Tick(0, 9))
    left.write_bytes(source.read_bytes())
    assert kinds(await repository.verify()) == ["leftover file"]
    assert left.exists()
    assert (await repository.verify(repair=True)).clean
    assert (source.exists(), left.exists()) == (True, False)


@evo_cluster()
async def test_a_damaged_segment_is_named_and_keeps_no_other_model_away(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    for number in range(4):
        await make(repository, GRAPH, f"m{number}", keep=False, seed=number)
    assert (await repository.verify()).clean
    record = await repository.record("m2")
    root = Root.open(tmp_path / "root")
    folder = root.shard(await repository.connection.session.directory.shard_of(ModelId("m2")))
    path = folder.segment_path(ModelId("m2"), record.attempt)
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    path.write_bytes(content)
    verification = await repository.verify()
    assert [(difference.kind, difference.model) for difference in verification.differences] == [
        ("damaged tensor", "m2")
    ]
    evict_all(plugin_of(a).host.tensors)
    with pytest.raises(CorruptRecord):
        await repository.read("m2")
    assert len(await repository.read("m1")) == 4


@pytest.mark.parametrize("left", [(0, 1), ()], ids=["in part", "whole"])
def test_what_is_freed_while_it_is_read_is_no_damage(left: tuple[int, ...], tmp_path: Any, monkeypatch: Any) -> None:
    read, go, real = threading.Event(), threading.Event(), damage._on_disk

    def on_disk(files: Any, segment: Any, named: Any) -> Any:
        found = real(files, segment, named)
        if segment[0] == "old" and not read.is_set():
            read.set()
            assert go.wait(60)
        return found

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, "old")
        await make(repository, chain(8, 3), "heir", keep=bool(left), seed=1)
        await at_rest(s, a)
        monkeypatch.setattr(damage, "_on_disk", on_disk)
        verifying = asyncio.ensure_future(repository.verify(repair=True))
        assert await asyncio.to_thread(read.wait, 60)
        await repository.retire("old")
        await at_rest(s, a)
        go.set()
        repaired = await verifying
        assert (repaired.differences, repaired.mended) == ((), ())
        tensors = plugin_of(a).host.tensors
        assert sorted(number for model, _, number in tensors if model == "old") == list(left)

    try:
        run()
    finally:
        go.set()


@evo_cluster()
async def test_spilled_tensors_that_can_not_be_read_are_told(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    tensors = plugin_of(a).host.tensors
    evict_all(tensors)
    path = next(iter(tensors.spilled._segments.values())).path
    path.unlink()
    path.mkdir()  # as root, permissions hide nothing
    (found,) = (await repository.verify()).differences
    assert "Is a directory" in found.words
    path.rmdir()
