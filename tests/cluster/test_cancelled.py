"""A record in the journal and its effect are one thing: whoever is cancelled, whenever, memory and journal agree."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.protocol.messages import (
    Abort,
    DropAttempt,
    FinishRetirement,
    Hold,
    Message,
    Put,
    Refer,
    Release,
    ReleaseLabel,
    Stage,
)
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.records import BEGINNING
from daskevo.protocol.state import Effects
from daskevo.provider import served_shard
from daskevo.provider.put_receiver import Brought
from daskevo.provider.served_shard import ServedShard, open_shard
from daskevo.store.digests import digests
from daskevo.store.root import Root
from daskevo.store.tiers import DurableTensors
from daskevo.testing.graphs import GraphBuilder
from daskevo.types import ModelId, TensorSpec, Tick
from daskevo.wire.transport import NoAnswer, PoolTransport

A, B, CHILD = (ModelId(name) for name in ("a", "b", "child"))
TENSORS = {0: np.arange(12, dtype=np.float32).reshape(4, 3), 1: np.zeros(3, dtype=np.float32)}


def _record(model: ModelId, attempt: Tick) -> ModelRecord:
    builder = GraphBuilder()
    graph = builder.graph(builder.dense(builder.input(4), 3))
    entries = OwnerMap.of(OwnerEntry(model, number, digest, 1) for number, digest in digests(TENSORS).items())
    own = {number: TensorSpec.of(array) for number, array in TENSORS.items()}
    return ModelRecord(model, attempt, "test", graph.text, entries, own, attempt)


def _put(model: ModelId, counter: int, label: str = "user:kept") -> Put:
    attempt = Tick(1, counter)
    return Put(_record(model, attempt), {label: attempt})


MESSAGES: tuple[Message, ...] = (
    _put(A, 1),
    Refer(A, CHILD, Tick(1, 2), frozenset({0})),
    Hold(A, "user:other", Tick(1, 3)),
    Release(A, "user:kept", Tick(1, 4)),
    Stage(_record(B, Tick(1, 5))),
    Abort(B, Tick(1, 5)),
    _put(B, 6, "best:run"),
    ReleaseLabel("best:run", Tick(1, 7)),
    FinishRetirement(B, Tick(1, 6)),
    Release(A, "user:other", Tick(1, 8)),
    DropAttempt(CHILD, Tick(1, 2)),
    FinishRetirement(A, Tick(1, 1)),
)
"""Every kind of record, and every effect."""


class Steps:
    """Stops at one of the places where an event loop goes on with something else: work that is given to a thread."""

    def __init__(self, stop_at: int) -> None:
        self.stop_at = stop_at
        self.seen = 0
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self._real = asyncio.to_thread

    async def to_thread(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.seen += 1
        stops = self.seen == self.stop_at
        working = self._real(function, *arguments, **options)
        if not stops:
            return await working
        # What a thread has begun it ends, whoever waits for it.
        thread = asyncio.ensure_future(working)
        self.reached.set()
        await self.go_on.wait()
        return await asyncio.shield(thread)


async def _served(folder: Path) -> tuple[ServedShard, list[Effects]]:
    root = Root.create(folder, shards=1, durability="written")
    shard_folder = root.shard(0)
    tensors = DurableTensors(lambda model, attempt: shard_folder.segment_path(model, attempt), 1 << 20)
    effects: list[Effects] = []
    shard = open_shard(shard_folder, 0, 1, BEGINNING)
    return ServedShard(shard, shard_folder, tensors, lambda served, effect: effects.append(effect)), effects


def _tell(served: ServedShard, message: Message) -> Awaitable[Any]:
    if isinstance(message, Stage) and served.folder is not None:
        served.folder.write_segment(B, message.record.attempt, TENSORS)
    return served.put(message, Brought(arrays=TENSORS)) if isinstance(message, Put) else served.ask([message])


@contextlib.contextmanager
def _stopping(monkeypatch: pytest.MonkeyPatch, stop_at: int) -> Iterator[Steps]:
    steps = Steps(stop_at)
    with monkeypatch.context() as patch:
        patch.setattr(served_shard.asyncio, "to_thread", steps.to_thread)
        yield steps


async def _others() -> None:
    """Wait until nothing goes on but this test."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


@pytest.mark.parametrize("index", range(len(MESSAGES)), ids=[type(message).__name__ for message in MESSAGES])
def test_cancelled_anywhere_memory_and_journal_agree(
    index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(stop_at: int) -> bool:
        served, effects = await _served(tmp_path / str(stop_at))
        for message in MESSAGES[:index]:
            await _tell(served, message)
        effects.clear()
        with _stopping(monkeypatch, stop_at) as steps:
            call = asyncio.ensure_future(_tell(served, MESSAGES[index]))
            reaching = asyncio.ensure_future(steps.reached.wait())
            await asyncio.wait([call, reaching], return_when=asyncio.FIRST_COMPLETED)
            reached = steps.reached.is_set()
            (call if reached else reaching).cancel()
            await asyncio.wait([call, reaching])
            steps.go_on.set()
            await _others()
        known = served.shard.head()
        assert served.files is not None
        files = {(file.model_id, file.attempt) for file in served.files.segments()}
        assert files == set(served.shard.state.references.alive)
        assert reached == call.cancelled()
        # Whatever it was, it went on to its end: it is known to all, and another owner finds the same.
        assert effects
        for message in MESSAGES[index : index + 1]:
            await _tell(served, message)
        assert served.shard.head() == known
        served.close()
        again = open_shard(Root.open(tmp_path / str(stop_at)).shard(0), 0, 1, BEGINNING)
        assert again.state == served.shard.state
        return reached

    async def everywhere() -> int:
        stop_at = 1
        while await cancelled(stop_at):
            stop_at += 1
        return stop_at - 1

    assert asyncio.run(everywhere()) >= 1


def test_a_local_call_goes_on_though_nobody_waits_for_it_any_more() -> None:
    async def run() -> None:
        begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow() -> int:
            begun.set()
            await go_on.wait()
            done.set()
            return 1

        transport = PoolTransport(None, "nobody", "memory", lambda address: {"slow": slow})
        with pytest.raises(NoAnswer) as caught:
            await transport.provider("here", "slow", timeout_s=0.001)
        assert caught.value.late
        waiting = asyncio.ensure_future(transport.provider("here", "slow", timeout_s=60))
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        go_on.set()
        await _others()
        assert done.is_set()
        assert await transport.provider("here", "slow", timeout_s=60) == 1

    asyncio.run(run())
