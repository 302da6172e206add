"""A coordinator that closes, and the one after it: neither takes anything from the other, and none closes too early."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Worker

from daskevo.deploy.settings import versions
from daskevo.store.lease import current_lease
from daskevo.store.root import Root
from daskevo_plugins.coordinator import plugin as module
from daskevo_plugins.coordinator import worker_setup
from daskevo_plugins.coordinator.plugin import CoordinatorPlugin
from daskevo_plugins.provider import ProviderPlugin
from tests.cluster.helpers import chain, coordinator_of, evo_cluster, make, open_here, plugin_of

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


class HeldTeardown:
    """Parts that are taken out wait for `released`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        real = ProviderPlugin.teardown

        async def teardown(plugin: ProviderPlugin, worker: Any) -> None:
            self.begun.set()
            await self.released.wait()
            await real(plugin, worker)

        monkeypatch.setattr(ProviderPlugin, "teardown", teardown)


def coordinators(s: Any) -> list[Any]:
    """Return the coordinators on a scheduler."""
    return [plugin for plugin in s.plugins.values() if isinstance(plugin, CoordinatorPlugin)]


@evo_cluster()
async def test_a_repository_is_opened_again_once_the_one_before_has_closed(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: Any
) -> None:
    before = await open_here(c, None)
    await make(before, GRAPH, "first")
    former = coordinator_of(s)
    held, open_root = HeldTeardown(monkeypatch), CoordinatorPlugin._open_root
    hosts: list[Any] = []

    async def opens(plugin: CoordinatorPlugin) -> None:
        hosts.extend(name for name in a.plugins if name.startswith("daskevo"))
        assert held.released.is_set()
        await open_root(plugin)

    monkeypatch.setattr(CoordinatorPlugin, "_open_root", opens)
    closing = asyncio.create_task(before.close())
    await held.begun.wait()
    opening = asyncio.create_task(open_here(c, None, timeout_s=60))
    while coordinators(s) in ([], [former]):
        await asyncio.sleep(0.01)
    held.released.set()
    await closing
    again = await opening
    await make(again, WIDER, "second")
    assert [model.model_id for model in await again.models()] == ["second"]
    assert hosts == []


@evo_cluster()
async def test_a_late_word_of_the_one_before_leaves_the_next_ones_part(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    plugin = plugin_of(a)
    assert not await plugin.end_part("the one before")
    assert [model.model_id for model in await repository.models()] == ["first"]
    assert await plugin.end_part(plugin.part)
    assert plugin not in a.plugins.values()
    assert not await plugin.end_part(plugin.part)


@evo_cluster()
async def test_a_part_that_is_taken_out_while_it_is_set_up_does_not_join(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: Any
) -> None:
    checking, go_on = asyncio.Event(), asyncio.Event()
    join = ProviderPlugin._join

    async def joins(plugin: ProviderPlugin, *arguments: Any) -> None:
        checking.set()
        await go_on.wait()
        await join(plugin, *arguments)

    monkeypatch.setattr(ProviderPlugin, "_join", joins)
    opening = asyncio.create_task(open_here(c, None, timeout_s=60))
    await checking.wait()
    plugin = plugin_of(a)
    await a.plugin_remove(name=plugin.name)
    opening.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert plugin.host is None
    while coordinators(s):
        await asyncio.sleep(0.01)
    assert plugin.host is None


@evo_cluster()
async def test_an_opening_that_fails_does_not_close_it_under_one_that_begins(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    settings = (await open_here(c, tmp_path / "root")).settings
    await coordinator_of(s)._close()
    await c.register_plugin(CoordinatorPlugin(settings, "first"))
    plugin, checking, checked = coordinator_of(s), asyncio.Event(), asyncio.Event()

    async def check_lease() -> None:
        checking.set()
        await checked.wait()

    monkeypatch.setattr(plugin, "_check_lease", check_lease)
    greeting = asyncio.create_task(plugin.hello(versions(), "second"))
    await checking.wait()
    assert not await plugin.abandon("first")
    checked.set()
    assert (await greeting)["shards"] == 8
    assert not await plugin.abandon("first")
    assert await plugin.abandon("second")
    assert coordinators(s) == []


@evo_cluster()
async def test_one_that_is_closed_just_as_it_is_opened_is_opened_anew(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    real, registered = c.register_plugin, []

    async def register(plugin: Any) -> None:
        await real(plugin)
        registered.append(plugin)
        if len(registered) == 1:
            await coordinator_of(s)._close()

    monkeypatch.setattr(c, "register_plugin", register)
    await make(await open_here(c, tmp_path / "root"), GRAPH, "first")
    assert len(registered) == 2


@evo_cluster()
async def test_workers_that_give_no_answer_do_not_keep_the_lease(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    held, host, broadcast, sending = HeldTeardown(monkeypatch), plugin_of(a).host, s.broadcast, asyncio.Event()

    async def never(**options: Any) -> Any:
        sending.set()
        await held.released.wait()
        return await broadcast(**options)

    monkeypatch.setattr(s, "broadcast", never)
    monkeypatch.setattr(worker_setup, "_SENDING_S", 0.05)
    monkeypatch.setattr(worker_setup, "_END_S", 0.05)
    async with Worker(s.address, host="127.0.0.1", nthreads=1, resources={"evaluation": 1}):
        await sending.wait()
        await repository.close()
        assert current_lease(Root.open(tmp_path / "root")) is None
        held.released.set()
    # What the provider was told it does all the same, when it goes on.
    while a.plugins and host.shards:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("taken", [False, True])
def test_a_part_whose_sending_failed_is_sent_again_unless_it_was_taken(taken: bool, monkeypatch: Any) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, None)
        monkeypatch.setattr(module, "_EQUIP_AGAIN_S", (0.01,))
        broadcast, sent = s.broadcast, []

        async def fails_at_first(*, workers: Any, **options: Any) -> Any:
            sent.append(workers)
            if taken or len(sent) > 1:
                found = await broadcast(workers=workers, **options)
            return found if len(sent) > 1 else {workers[0]: OSError("the connection broke")}

        monkeypatch.setattr(s, "broadcast", fails_at_first)
        coordinator = coordinator_of(s)
        async with Worker(s.address, host="127.0.0.1", nthreads=1, name="late", resources={"provider": 1}) as late:
            while "late" not in coordinator._core.providers():
                await asyncio.sleep(0.01)
            while late.address not in coordinator._worker_setup._has or coordinator._worker_setup._sent:
                await asyncio.sleep(0.01)
            assert await coordinator._worker_setup.equip([late.address]) == {}
            assert sent == [[late.address]] * (1 if taken else 2)
        await repository.close()

    run()


@evo_cluster()
async def test_what_spills_for_a_root_ends_with_it(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    await open_here(c, tmp_path / "root")
    plugin = plugin_of(a)
    before = plugin._spilling
    (tmp_path / "root").rename(tmp_path / "away")
    root = Root.create(tmp_path / "root", shards=8)
    await plugin._join(root, {"repository_id": root.repository_id, "generation": 99, "shards": 8})
    assert plugin._spilling is not before
    await asyncio.wait([before])


@evo_cluster(config={"daskevo.close-after-last-client": "1h"})
async def test_each_leaving_of_a_last_client_has_its_own_wait(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    await open_here(c, tmp_path / "root")
    naps: list[asyncio.Event] = []

    class Waits:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, wait_s: float) -> None:
            if wait_s == 3600:
                naps.append(asyncio.Event())
                await naps[-1].wait()
            else:
                await asyncio.sleep(wait_s)

    monkeypatch.setattr(module, "asyncio", Waits())
    background = coordinator_of(s)._background
    await c.close()
    while len(naps) < 1:
        await asyncio.sleep(0.01)
    async with Client(s.address, asynchronous=True):
        pass
    while len(naps) < 2:
        await asyncio.sleep(0.01)
    waiting = len(background._tasks)
    naps[0].set()
    while len(background._tasks) == waiting:
        await asyncio.sleep(0.01)
    assert len(coordinators(s)) == 1
    naps[1].set()
    while coordinators(s) or current_lease(Root.open(tmp_path / "root")) is not None:
        await asyncio.sleep(0.01)
