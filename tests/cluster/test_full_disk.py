"""A disk that is full under a cluster: named errors, everything that was there can be read, work goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.client.model_reader import read_model
from daskevo.errors import PutFailed
from daskevo.repository import open_repository
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, values
from tests.tmpfs import own_disk

DISK_BYTES = 4 << 20
GRAPH = chain(10_000, 10_000)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    with own_disk(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


@pytest.mark.parametrize("way", ["files", "messages"])
def test_a_full_disk_is_named_read_from_retired_from_and_goes_on(way: str, disk: Path) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, *workers: Any) -> None:
        providers = workers[:2]
        repository = await open_here(c, disk / "root")
        session = repository.connection.session
        session.directory.local_peers.through_messages = way == "messages"
        records = {}

        async def read_all() -> None:
            for number, record in records.items():
                found = await read_model(session, repository.connection.caller(), record)
                for index, array in values(GRAPH, number).items():
                    np.testing.assert_array_equal(found[index], array)

        async def fill(start: int) -> None:
            number = start

            async def put_until_full() -> None:
                nonlocal number
                while True:
                    stored = await make(repository, GRAPH, f"m{number}", seed=number, keep=False)
                    records[number] = stored.record
                    number += 1

            with pytest.raises(PutFailed) as caught:
                await put_until_full()
            error = caught.value
            assert error.folder == str(disk / "root" / "shards" / f"{error.shard:03d}" / "segments")
            assert error.needed_bytes > 200_000
            assert error.free_bytes < error.needed_bytes
            for word in (error.folder, f"{error.needed_bytes} bytes needed", f"{error.free_bytes} free"):
                assert word in str(error)
            assert (await repository.status(f"m{number}")).state not in ("published", "staged")

        await fill(0)
        assert len(records) > 5
        (disk / "filler").write_bytes(b"")
        with open(disk / "filler", "ab", buffering=0) as filler:
            for size in (4096, 1):
                try:
                    while filler.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass
        await read_all()
        # Not a byte is left: the abort has the reserve.
        with pytest.raises(PutFailed) as caught:
            await make(repository, chain(10, 10), "small")
        assert caught.value.folder.startswith(str(disk / "root"))
        assert (await repository.status("small")).state == "unknown"
        for number in list(records)[::2]:
            await repository.retire(f"m{number}")
            del records[number]
        await at_rest(s, *providers)
        await read_all()
        before = len(records)
        await fill(1000)
        assert len(records) > before
        await read_all()
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert verification.models == len(records)

    run()


def fill(disk: Path) -> None:
    """Leave not a byte free."""
    with open(disk / "filler", "ab", buffering=0) as filler:
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while filler.write(bytes(size)) == size:
                    pass


def test_a_full_disk_is_opened_by_the_next_cluster_and_repaired_and_retired_from(disk: Path) -> None:
    root = disk / "root"

    @evo_cluster()
    async def before(c: Any, s: Any, *workers: Any) -> None:
        repository = await open_here(c, root)
        for number in range(20):
            await make(repository, chain(10, 10), f"m{number}", seed=number, keep=False)

    @evo_cluster()
    async def after(c: Any, s: Any, provider: Any, trainer: Any) -> None:
        repository = await open_here(c, root, "another")
        assert len(await repository.models(scope=None)) == 20
        for number in range(20):
            await repository.retire(f"m{number}")
        await at_rest(s, provider)
        assert (await repository.verify()).clean
        (disk / "filler").unlink()
        await make(repository, GRAPH, "new")

    before()
    fill(disk)
    assert open_repository(root).verify(repair=True).clean
    fill(disk)
    after()
