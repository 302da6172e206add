"""The ways of a tensor to its provider and back: every dtype and layout comes back bit for bit through each of them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.client.model_reader import read_model
from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph, LayerRecord, Vertex
from daskevo.store.root import Root
from daskevo.store.segment import Segment, is_mapped
from daskevo.testing.arrays import awkward_arrays, same_tensor
from daskevo.types import ModelId, TensorSpec
from daskevo.wire import tensor_framing
from tests.cluster.helpers import (
    chain,
    evict_all,
    evo_cluster,
    make,
    open_here,
    plugin_of,
    put_reserved,
    reserve,
    start_threads,
    values,
)

WAYS = ("file", "message", "message from memory", "reference", "reference to the disk")


def of(arrays: dict[int, Any]) -> ArchitectureGraph:
    """Return a graph of one layer with tensors like these."""
    specs = tuple(TensorSpec.of(np.asarray(arrays[number])) for number in sorted(arrays))
    layers = (LayerRecord("in", {}, ()), LayerRecord("all", {}, specs))
    return ArchitectureGraph(layers, (Vertex(0, "in", (), False), Vertex(1, "all", (), False)), (0,), ((1, 0),))


async def opened(c: Any, provider: Any, way: str, folder: Path) -> Any:
    """Open a repository whose client takes one way only."""
    repository = await open_here(c, None if "memory" in way or way == "reference" else folder / "root")
    session = repository.connection.session
    session.directory.local_peers.through_messages = way != "file"
    if way.startswith("reference"):
        session.transport.provider = plugin_of(provider).transport.provider
        session.transport.is_here = plugin_of(provider).transport.is_here
    return repository


@pytest.fixture(autouse=True, scope="module")
def _threads() -> None:
    start_threads()


@pytest.fixture
def short_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be so short that tensors are joined, sent alone, and cut."""
    monkeypatch.setattr(tensor_framing, "MESSAGE_BYTES", 1000)
    monkeypatch.setattr(tensor_framing, "SMALL_BYTES", 200)


@pytest.mark.parametrize("way", WAYS)
def test_every_tensor_comes_back_bit_for_bit(way: str, tmp_path: Path, short_messages: None) -> None:
    arrays: dict[int, Any] = dict(enumerate(awkward_arrays().values()))
    arrays |= {len(arrays): np.arange(5000, dtype=np.int16)[::-2], len(arrays) + 1: np.arange(999, dtype=np.uint8)}

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await opened(c, a, way, tmp_path)
        graph = of(arrays)
        stored = await put_reserved(
            repository, graph, await reserve(repository, graph, "first", ancestor=False), tensors=arrays
        )
        assert set(stored.record.own) == set(arrays)
        # Once from what the provider keeps in memory, once from its disk.
        for _ in range(2):
            connection = repository.connection
            found = await read_model(connection.session, connection.caller(), stored.record)
            for number, array in arrays.items():
                assert same_tensor(found[number], array)
                assert not found[number].flags.writeable
                if not way.startswith("reference"):  # those are the writer's own
                    assert found[number].ctypes.data % 64 == 0
            evict_all(plugin_of(a).host.tensors)
        again = await reserve(repository, graph, "second")
        assert again.ancestor is not None
        assert all(same_tensor(again.arrays[number], array) for number, array in arrays.items())
        child = await put_reserved(repository, graph, again)
        assert child.record.own == {}
        assert plugin_of(a).host.tensors.payload_bytes == sum(np.asarray(array).nbytes for array in arrays.values())
        assert (await repository.verify()).clean

    run()


@pytest.mark.parametrize("way", ["file", "message"])
def test_only_what_changed_is_written(way: str, tmp_path: Path) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await opened(c, a, way, tmp_path)
        graph = of({number: np.zeros((700, 600), np.float32) for number in range(5)})
        await make(repository, graph, "first", seed=1)
        child = await reserve(repository, graph, "second")
        # Large tensors of a local peer are the page cache's own memory; equal bytes elsewhere are as good.
        assert any(is_mapped(array) for array in child.arrays.values()) == (way == "file")
        changed = {2: child.arrays[2].copy(), 4: child.arrays[4].copy()}
        changed[2][300, 300] += 1  # in the middle: no look at the ends tells
        stored = await put_reserved(repository, graph, child, tensors=changed)
        assert set(stored.record.own) == {2}
        (file,) = (tmp_path / "root").rglob("second*.seg")
        assert file.stat().st_size < changed[2].nbytes + 1000
        assert (await repository.verify()).clean

    run()


@evo_cluster()
async def test_a_neighbour_that_sees_another_file_gets_messages(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await opened(c, a, "file", tmp_path)
    graph = chain(8, 6, 3)
    session = repository.connection.session
    reservation = await reserve(repository, graph, "first")
    shard = await session.directory.shard_of(ModelId("first"))
    peer = await session.directory.local_peer(shard)
    assert peer is not None
    # The writer's folder is another one: what it writes there, the provider doesn't see.
    elsewhere = asyncio.get_running_loop().create_future()
    elsewhere.set_result(peer._replace(root=Root.create(tmp_path / "elsewhere", shards=8)))
    session.directory.local_peers._found[peer.address] = elsewhere
    await put_reserved(repository, graph, reservation, seed=1)
    (written,) = (tmp_path / "elsewhere").rglob("*.seg")
    written.unlink()
    found = await repository.read("first")
    np.testing.assert_array_equal(found[1, 0], values(graph, 1)[0])
    assert (await session.directory.local_peer(shard)) is None
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_damaged_file_is_named_by_its_reader(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await opened(c, a, "file", tmp_path)
    graph = chain(8, 6, 3)
    await make(repository, graph, "first", seed=1)
    (file,) = (tmp_path / "root").rglob("first*.seg")
    status = file.stat()
    with open(file, "r+b") as handle:
        handle.seek(Segment.open(file).payload)
        byte = handle.read(1)
        handle.seek(-1, os.SEEK_CUR)
        handle.write(bytes([byte[0] ^ 1]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CorruptRecord, match="isn't what was written") as caught:
        await repository.read("first")
    assert caught.value.path == str(file)


@pytest.mark.parametrize("way", ["file", "message"])
def test_what_cannot_be_stored_leaves_nothing(way: str, tmp_path: Path) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await opened(c, a, way, tmp_path)
        graph = chain(8)
        reservation = await reserve(repository, graph, "first")
        with pytest.raises(InvalidInput, match="can't be stored"):
            await put_reserved(repository, graph, reservation, tensors={0: np.array(["text"])})
        assert not list((tmp_path / "root").rglob("first*"))

    run()
