"""A shard that goes elsewhere gives back, on the event loop, the room of what was being sent to it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from daskevo.deploy.settings import MemoryBudget
from daskevo.errors import RootUnusable
from daskevo.protocol.shard import Shard
from daskevo.provider.served_shard import ServedShard
from daskevo.provider.upload_buffer import UploadBuffers
from daskevo.store.tiers import DurableTensors
from daskevo.types import ModelId, Tick
from tests.cluster.helpers import coordinator_of, evo_cluster, open_here, plugin_of

MODEL, ATTEMPT = ModelId("m"), Tick(1, 1)


def test_room_is_given_back_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        tensors = DurableTensors(lambda model, attempt: tmp_path / model, 1 << 20)
        uploads = UploadBuffers(tensors, MemoryBudget(kept=0, shared=200, leaving=0))
        served = ServedShard(Shard(0, 1), None, tensors, lambda served, effects: None, uploads=uploads)
        assert await uploads.reserve(0, MODEL, ATTEMPT, 100, patience_s=60)
        real, on = uploads.forget_shard, []

        def forget_shard(shard: int) -> None:
            on.append(threading.current_thread())
            real(shard)

        monkeypatch.setattr(uploads, "forget_shard", forget_shard)
        await served.end()
        assert on == [threading.current_thread()]
        # What the shard's next owner here is being sent is not the former one's to give back.
        assert await uploads.reserve(0, MODEL, ATTEMPT, 100, patience_s=60)
        served.close()
        assert uploads.memory_bytes == 200

    asyncio.run(run())


@evo_cluster()
async def test_an_opening_that_fails_gives_no_room_back(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    repository = await open_here(c, tmp_path / "root", shards=1)
    host, generation = plugin_of(a).host, (await repository.stats())["generation"]
    coordinator_of(s)._registry.assigner.stopped = True  # this test is the coordinator
    await host.close_shards([0])
    forgotten: list[int] = []

    def fail(*arguments: Any) -> None:
        raise RootUnusable("for a test")

    monkeypatch.setattr(host.uploads, "forget_shard", forgotten.append)
    monkeypatch.setattr(ServedShard, "adopt", fail)
    assert (await host.open_shards([0], generation, []))["failed"] == [[0, "RootUnusable", "for a test"]]
    assert forgotten == []
