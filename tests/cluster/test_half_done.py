"""One failed system call, or one owner that can't be asked, leaves nothing half done that the next audit doesn't do."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import DaskevoError, RootUnusable, ShardDamaged
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Drop, FinishRetirement, Refer
from daskevo.protocol.replies import Ok, Reserved
from daskevo.protocol.state import Retirement
from daskevo.provider.maintenance import audit
from daskevo.provider.retire import retire
from daskevo.types import ModelId, Tick
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of

GRAPH = chain(8, 6)


@evo_cluster()
async def test_a_file_that_can_not_be_deleted_goes_with_the_next_audit(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "base", seed=1)
    child = await make(repository, chain(8, 6, 3), "child", score=0.9)
    assert child.record.inherited
    await at_rest(s, a)
    real = os.unlink

    def unlink(path: Any, *arguments: Any, **options: Any) -> None:
        if Path(path).name.startswith("child."):
            raise OSError(errno.EIO, "Input/output error")
        real(path, *arguments, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    await repository.retire("child")
    await at_rest(s, a)
    (match,) = await repository.best_match([chain(8, 6, 3)])
    assert match.model_id == "base"
    assert (await repository.status("child")).state == "retired"
    assert (await repository.stats())["references"] == 1
    assert [difference.kind for difference in (await repository.verify()).differences] == ["leftover file"]
    monkeypatch.undo()
    await audit(plugin_of(a).host)
    assert not list((tmp_path / "root").rglob("child.*.seg"))
    assert (await repository.verify()).clean


@evo_cluster()
async def test_an_audit_takes_up_a_retirement_that_nobody_carries_out(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first")

    async def broken(*arguments: Any) -> None:
        raise RootUnusable("the disk gives no answer")

    monkeypatch.setattr("daskevo.provider.retire.retire", broken)
    await repository.retire("first")
    await at_rest(s, a)
    assert (await repository.status("first")).state == "retiring"
    monkeypatch.undo()
    await audit(plugin_of(a).host)
    await at_rest(s, a)
    assert (await repository.status("first")).state == "retired"


def test_an_owner_that_can_not_be_asked_keeps_no_other_waiting() -> None:
    asked: list[list[str]] = []
    troubles: list[object] = []
    finished: list[Any] = []

    class Session:
        async def send_together(self, messages: list[Drop]) -> list[Any]:
            asked.append([message.owner for message in messages])
            damaged: list[Ok | DaskevoError] = [ShardDamaged("it can't be read")] if len(asked) < 3 else [Ok()]
            return [*damaged, *[Ok()] * (len(messages) - 1)]

    class Served:
        async def ask(self, messages: list[Any]) -> None:
            finished.extend(messages)

    uses = {ModelId(name): frozenset({0}) for name in ("damaged", "whole", "other")}
    retirement = Retirement(ModelId("child"), Tick(1, 1), uses)

    async def at_once(trouble: object, seconds: float) -> None:
        troubles.append(trouble)

    asyncio.run(retire(Served(), retirement, Session(), lambda served: True, at_once))  # type: ignore[arg-type]
    assert [str(trouble) for trouble in troubles] == ["it can't be read"] * 2
    assert asked == [["damaged", "whole", "other"], ["damaged"], ["damaged"]]
    assert finished == [FinishRetirement(ModelId("child"), Tick(1, 1))]


def id_in(shard: int) -> ModelId:
    return next(ModelId(f"m{n}") for n in range(999) if shard_of(ModelId(f"m{n}"), 8) == shard)


@pytest.mark.parametrize("way", ["settling", "audit"])
def test_a_shard_that_can_not_be_written_keeps_no_bits_of_others(way: str, tmp_path: Path) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        child, owners = id_in(5), [id_in(shard) for shard in (0, 3, 6)]
        for seed, owner in enumerate(owners):
            await make(repository, GRAPH, owner, keep=False, seed=seed)
        await at_rest(s, a)
        connection, host = repository.connection, plugin_of(a).host
        attempt = await connection.session.begin(connection.caller(), child)
        for owner in owners:
            refer = Refer(owner, child, attempt, frozenset({0}))
            assert isinstance(await connection.session.send(refer, Reserved), Reserved)
        folder = host.shards[0].folder
        append = folder.append

        def refuse(*arguments: Any, **options: Any) -> None:
            raise RootUnusable("no room")

        folder.append = refuse
        await connection.session.end(attempt, settled=way == "audit")
        if way == "audit":
            await audit(host)
        await at_rest(s, a)
        left = [
            owner
            for served in host.in_order()
            for owner, (model, _), _ in served.shard.state.references
            if model == child
        ]
        assert left == [owners[0]]
        folder.append = append
        await audit(host)
        assert (await repository.verify()).clean

    run()
