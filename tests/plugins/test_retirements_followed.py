"""The coordinator follows each retirement to its end, has it go on after a failure, and draws it on the task stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import ShardUnavailable
from daskevo.protocol.hashing import shard_of
from daskevo.provider import retire
from daskevo.types import ModelId
from daskevo_plugins.coordinator import heartbeat
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of

BASE, CHILD = chain(8, 6), chain(8, 6, 3)


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "PULSE_S", 0.1)


async def until(check: Callable[[], Any]) -> None:
    while not await check():
        await asyncio.sleep(0.02)


def name_at(worker: Any, *taken: str) -> str:
    """Return a name whose shard this provider has."""
    served = plugin_of(worker).host.shards
    return next(name for n in range(99) if (name := f"m{n}") not in taken and shard_of(ModelId(name), 8) in served)


@evo_cluster(providers=2)
async def test_what_waits_for_a_provider_goes_on_when_its_shards_are_open_again(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await c.scheduler.get_task_stream()  # from here on there is one
    base, child = name_at(b), name_at(a)
    await make(repository, BASE, base, seed=1)
    await make(repository, CHILD, child, score=0.9)
    await at_rest(s, a, b)
    # By itself it would try again once more, in a quarter of an hour.
    monkeypatch.setattr(retire, "_RETRY_S", (1000.0,))
    session = plugin_of(a).host.session

    async def unanswered(messages: Any) -> Any:
        raise ShardUnavailable("nobody answers there")

    real = session.send_together
    monkeypatch.setattr(session, "send_together", unanswered)
    await repository.retire(child)

    async def waits() -> bool:
        return (await repository.stats())["waiting_retirements"] == {child: "nobody answers there"}

    await until(waits)
    monkeypatch.setattr(session, "send_together", real)
    await b.close()

    async def is_over() -> bool:
        return (await repository.status(child)).state == "retired"

    await until(is_over)
    assert (await repository.stats())["references"] == 1  # of the base to its own tensors

    async def drawn() -> bool:
        stream = await c.scheduler.get_task_stream()
        return [(one["key"], one["worker"]) for one in stream] == [(("daskevo-retire", child), a.address)]

    await until(drawn)
    assert (await repository.stats())["waiting_retirements"] == {}


@evo_cluster()
async def test_one_that_failed_is_taken_up_again(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, BASE, "base")
    real, failed = retire.retire, asyncio.Event()

    async def broken(*arguments: Any) -> None:
        if failed.is_set():
            return await real(*arguments)
        failed.set()
        raise MemoryError

    monkeypatch.setattr(retire, "retire", broken)
    await repository.retire("base")

    async def is_over() -> bool:
        return (await repository.status("base")).state == "retired"

    await until(is_over)
    assert failed.is_set()
