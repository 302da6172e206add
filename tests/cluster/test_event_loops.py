"""Kind 16: no disk is waited for on an event loop, and no index is searched there.

What is looked at is where files are opened, renamed, listed and removed (Python tells of each), not how long it takes:
a disk that hangs must not hang the loop that gives signs of life.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.index import PrefixIndex
from daskevo.provider.maintenance import audit
from tests.cluster.helpers import at_rest, chain, evict_all, evo_cluster, make, open_here, plugin_of

_EVENTS = frozenset(
    {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir", "os.truncate"}
)
_listener: Callable[[str, tuple[Any, ...]], None] | None = None


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if _listener is not None and event in _EVENTS:
        _listener(event, arguments)


class Listening:
    """Lists what is done in this thread to files whose path has that part, and counts what others do."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.here: list[str] = []
        self.elsewhere = 0

    def __enter__(self) -> Listening:
        global _listener
        if not hasattr(Listening, "hooked"):
            Listening.hooked = True  # type: ignore[attr-defined]
            sys.addaudithook(_heard)  # for the rest of the process: there is no way to take one back
        self._thread = threading.get_ident()
        _listener = self._listen
        return self

    def __exit__(self, *exception: Any) -> None:
        global _listener
        _listener = None

    def _listen(self, event: str, arguments: tuple[Any, ...]) -> None:
        path = arguments[0]
        if isinstance(path, bytes):
            path = path.decode()
        if not (isinstance(path, (str, Path)) and self.part in str(path)):
            return
        if threading.get_ident() != self._thread:
            self.elsewhere += 1
            return
        if any(frame.name == "prepare" for frame in traceback.extract_stack()):
            return  # a writer's own, in its own thread; the helpers of these tests have none
        frames = [frame for frame in traceback.extract_stack() if "daskevo" in frame.filename]
        where = " < ".join(f"{Path(frame.filename).name}:{frame.name}" for frame in reversed(frames[-6:]))
        self.here.append(f"{event} {Path(path).name}: {where}")


def in_messages(repository: Any) -> Any:
    repository.connection.session.directory.local_peers.through_messages = True
    return repository


@pytest.mark.parametrize("way", ["file", "message", "memory"])
def test_no_file_is_touched_on_an_event_loop(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    graph = chain(600, 500, 3)  # some tensors above what is joined in messages

    @evo_cluster(providers=2, config={"temporary-directory": str(scratch)})
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        root = None if way == "memory" else tmp_path / "root"
        repository = await open_here(c, root, memory=200_000)
        with Listening("daskevo-memory" if way == "memory" else str(tmp_path / "root")) as files:
            if way == "message":
                in_messages(repository)
            for number in range(6):
                await make(repository, graph, f"m{number}", seed=number, keep=number % 2 == 0, labels=["user:me"])
            for worker in (a, b):
                await asyncio.to_thread(evict_all, plugin_of(worker).host.tensors)
            for number in range(6):
                assert len(await repository.read(f"m{number}")) == 6
            await repository.best_match([graph])
            await repository.stats()
            await repository.hold("m1", "user:you")
            await repository.retire("m0")
            await repository.release_label("user:me")
            await at_rest(s, a, b)
            assert (await repository.verify(repair=True)).clean
            for worker in (a, b):
                await audit(plugin_of(worker).host)
            if way != "memory":
                await plugin_of(b).host.close_shards(list(plugin_of(b).host.shards)[:2])
                await b.close()
                assert len(await repository.read("m1")) == 6
        assert files.elsewhere > 20
        assert files.here == []

    run()


def test_many_models_are_searched_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, set[int]] = {"best_many": set(), "insert_many": set()}

    def noted(name: str) -> Any:
        function = getattr(PrefixIndex, name)

        def call(index: PrefixIndex, entries: Any, *more: Any) -> Any:
            if len(more[0] if more else entries) > 1:
                threads[name].add(threading.get_ident())
            return function(index, entries, *more)

        return call

    for name in threads:
        monkeypatch.setattr(PrefixIndex, name, noted(name))

    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        for number in range(20):
            await make(repository, chain(8, 6, 3 + number), f"m{number}", seed=number)
        assert (await repository.best_match([chain(8, 6, 9)] * 2000))[0].model_id == "m6"
        await b.close()
        assert (await repository.best_match([chain(8, 6, 9)]))[0].model_id == "m6"
        assert all(threads.values())
        assert threading.get_ident() not in threads["best_many"] | threads["insert_many"]

    run()
