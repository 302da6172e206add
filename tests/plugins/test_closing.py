"""A repository is closed, or its opening fails: nothing of it is left on the cluster, and it can be opened again."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import operator
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Event, Worker

import daskevo
from daskevo.errors import ClusterError, DaskevoError, NotDeployed, RootUnusable, VersionMismatch
from daskevo.store.lease import current_lease
from daskevo.store.root import Root
from tests.cluster.helpers import (
    chain,
    coordinator_of,
    evo_cluster,
    hold_in_task,
    make,
    open_here,
    plugin_of,
    reserve,
)

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


def nothing_of_ours(s: Any, *workers: Any) -> None:
    """See that neither scheduler nor workers have anything of a repository."""
    assert not [name for name in s.plugins if "daskevo-coordinator" in name]
    assert not [name for name in s.worker_plugins if "daskevo" in name]
    for worker in workers:
        assert not [name for name in worker.plugins if "daskevo" in name]


@pytest.mark.parametrize("place", ["memory", "root"])
def test_a_closed_repository_leaves_nothing_and_is_opened_again(place: str, tmp_path: Path) -> None:
    root = None if place == "memory" else tmp_path / "root"

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, root)
        await make(repository, GRAPH, "first")
        before, host = coordinator_of(s), plugin_of(a).host
        await repository.close()
        nothing_of_ours(s, a, t)
        assert not before._background._tasks
        assert (host.shards, host.background) == ({}, set())
        with pytest.raises(NotDeployed, match=r"daskevo\.open"):
            await repository.models()
        if root is not None:
            assert current_lease(Root.open(root)) is None
        again = await open_here(c, root)
        assert [model.model_id for model in await again.models()] == ([] if root is None else ["first"])
        await make(again, WIDER, "second")
        await make(repository, WIDER, "third")
        assert (await again.verify()).clean

    run()


@evo_cluster()
async def test_a_repository_that_others_use_is_closed_by_force_only(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    await repository.connection.session.outbox.sent()
    await reserve(repository, WIDER, "mine")
    async with Client(s.address, asynchronous=True) as other:
        await reserve(await open_here(other, None), WIDER, "theirs")
        with pytest.raises(ClusterError, match="is in use: 1 tasks or clients"):
            await repository.close()
        await repository.close(force=True)
    nothing_of_ours(s, a, t)


def test_a_look_without_a_cluster_has_nothing_to_close(tmp_path: Path) -> None:
    Root.create(tmp_path / "root", shards=1)
    assert daskevo.open(tmp_path / "root").close() is None


@evo_cluster()
async def test_a_failed_opening_leaves_nothing(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    def blind(self: Any, repository_id: str) -> None:
        raise RootUnusable("not seen", folder="", needed_bytes=None, free_bytes=None, errno=None)

    root = tmp_path / "root"
    with monkeypatch.context() as patch:
        patch.setattr(Root, "check_sight", blind)
        with pytest.raises(RootUnusable, match="not seen"):
            await open_here(c, root)
    nothing_of_ours(s, a, t)
    assert current_lease(Root.open(root)) is None
    # One that is open stays so when somebody else fails to open it.
    repository = await open_here(c, root)
    with pytest.raises(DaskevoError):
        await open_here(c, root, durability="synced")
    await make(repository, GRAPH, "first")


@evo_cluster(config={"daskevo.close-after-last-client": "50ms"})
async def test_a_repository_is_closed_some_time_after_the_last_client_has_left(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    await make(await open_here(c, tmp_path / "root"), GRAPH, "first")
    await c.close()
    while [name for name in s.plugins if "daskevo-coordinator" in name]:
        await asyncio.sleep(0.01)
    while current_lease(Root.open(tmp_path / "root")) is not None:
        await asyncio.sleep(0.01)
    nothing_of_ours(s, a, t)


def names_in_task() -> list[str]:
    return [model.model_id for model in daskevo.get_repository().models()]


@evo_cluster()
async def test_workers_without_a_role_are_left_alone_until_a_task_needs_the_repository(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    async with Worker(s.address, host="127.0.0.1", nthreads=2, name="colleague") as worker:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, "first")
        assert not [name for name in worker.plugins if "daskevo" in name]
        for _ in range(2):
            assert await c.submit(names_in_task, pure=False, workers=[worker.address]) == ["first"]
        await Event("go").set()
        put = c.submit(hold_in_task, repository, WIDER, "second", "put", pure=False, workers=[worker.address])
        assert await put == "mine"
        async with Worker(s.address, host="127.0.0.1", nthreads=1, name="later", resources={"evaluation": 1}) as later:
            assert await c.submit(names_in_task, pure=False, workers=[later.address]) == ["first", "second"]
            assert plugin_of(later).session is not None
        await repository.close()
        nothing_of_ours(s, a, t, worker)


@evo_cluster()
async def test_a_worker_with_a_role_that_cannot_take_part_is_named(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: Any
) -> None:
    real = s.broadcast

    async def broadcast(*, msg: Any, workers: Any, **options: Any) -> Any:
        if workers == [t.address]:
            return {t.address: ModuleNotFoundError("No module named 'daskevo'")}
        return await real(msg=msg, workers=workers, **options)

    monkeypatch.setattr(s, "broadcast", broadcast)
    with pytest.raises(VersionMismatch, match=r"worker '1' at .* No module named 'daskevo'"):
        await open_here(c, None)
    nothing_of_ours(s, a, t)


WITHOUT_DASKEVO = """
import sys


class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("daskevo"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Nowhere())
"""


@contextlib.asynccontextmanager
async def stranger(s: Any, folder: Path, name: str, *options: str) -> AsyncIterator[str]:
    """Start a worker in a process that can't import daskevo; return its address once it is there."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(WITHOUT_DASKEVO)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", s.address, "--no-nanny", "--nthreads", "1"]
    command += ["--name", name, "--no-dashboard", "--local-directory", str(folder), *options]
    with open(folder / f"{name}.log", "wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "PYTHONPATH": str(folder)}, stdout=log, stderr=log
        )
    try:
        while name not in s.aliases:
            assert process.returncode is None, (folder / f"{name}.log").read_text()
            await asyncio.sleep(0.02)
        yield s.aliases[name]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.long
@pytest.mark.processes
@evo_cluster()
async def test_workers_without_daskevo_neither_block_the_opening_nor_are_broken_later(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    async with stranger(s, tmp_path / "stranger", "before") as before:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, "first")
        async with stranger(s, tmp_path / "stranger", "later") as later:
            for address in (before, later):
                with pytest.raises(ModuleNotFoundError):
                    await c.submit(importlib.import_module, "daskevo", pure=False, workers=[address])
                assert await c.submit(operator.add, 1, 2, pure=False, workers=[address]) == 3
            # With a role, such a worker can take no part: whoever comes says so in the log, whoever opens is told.
            async with stranger(s, tmp_path / "stranger", "trainer", "--resources", "evaluation=1") as trainer:
                assert await c.submit(operator.add, 1, 2, pure=False, workers=[trainer]) == 3
                with pytest.raises(VersionMismatch, match=r"worker 'trainer' .*No module named .*daskevo"):
                    await open_here(c, tmp_path / "root")
                await make(repository, WIDER, "second")
                await repository.close()
                assert await c.submit(operator.add, 1, 2, pure=False, workers=[trainer]) == 3
    nothing_of_ours(s, a, t)
