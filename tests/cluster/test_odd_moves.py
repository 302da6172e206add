"""Kind 26: odd arrays are the same bits at every provider that their shard comes to, from memory, file and message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daskevo.testing.arrays import awkward_arrays, same_tensor
from tests.cluster.helpers import evo_cluster, open_here, plugin_of, put_reserved, reserve
from tests.cluster.test_paths import of


@pytest.mark.parametrize("way", ["file", "message"])
def test_odd_arrays_after_a_move(way: str, tmp_path: Path) -> None:
    arrays: dict[int, Any] = dict(enumerate(awkward_arrays().values()))
    graph = of(arrays)

    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        session = repository.connection.session
        session.directory.local_peers.through_messages = way == "message"
        first = await reserve(repository, graph, "first", ancestor=False)
        await put_reserved(repository, graph, first, tensors=arrays)
        home = (await session.directory.table()).place("first")
        left, stays = (a, b) if home.address == a.address else (b, a)
        await left.close()
        # A child inherits all of it from the provider that has the shard now, and stores nothing.
        child = await reserve(repository, graph, "second")
        assert len(plugin_of(stays).host.shards) == 8
        assert all(same_tensor(child.arrays[number], array) for number, array in arrays.items())
        assert (await put_reserved(repository, graph, child)).record.own == {}
        for name in ("first", "second"):
            found = dict(enumerate((await repository.read(name)).values()))
            assert found.keys() == arrays.keys()
            assert all(same_tensor(found[number], array) for number, array in arrays.items())
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert verification.payload_bytes == sum(array.nbytes for array in arrays.values())
        await repository.retire("first")
        left_over = dict(enumerate((await repository.read("second")).values()))
        assert all(same_tensor(left_over[number], array) for number, array in arrays.items())
        await repository.retire("second")
        stats = await repository.stats()
        assert (stats["models"], stats["tensors"], stats["payload_bytes"]) == (0, 0, 0)

    run()
