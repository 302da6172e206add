"""A provider's folders beside all its work: journals that start anew, files that lose their dead tensors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.client import tensor_reader
from daskevo.client.tensor_reader import TensorSource, WantedTensors, file_answer
from daskevo.errors import ModelRetired
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Status
from daskevo.provider.maintenance import tidy
from daskevo.store import segment_tier, shard_folder
from daskevo.store.journal import journal_numbers
from daskevo.store.segment import Segment
from daskevo.store.shard_folder import ShardFolder
from daskevo.types import ModelId
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of, put_reserved, reserve, values


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let journals be long, and dead bytes many, as soon as there are some."""
    monkeypatch.setattr(shard_folder, "SHORT_BYTES", 3000)
    monkeypatch.setattr(segment_tier, "WASTE_BYTES", 100)


def of(provider: Any, model_id: str) -> Any:
    """Return the served shard of a model."""
    return plugin_of(provider).host.shards[shard_of(ModelId(model_id), 8)]


def test_puts_and_retirements_leave_little_behind(small: None, tmp_path: Path) -> None:
    """Journals start anew between, and beside, what changes them; another cluster finds all that was stored."""
    kept = [f"kept{number}" for number in range(4)]

    @evo_cluster(providers=2)
    async def come_and_go(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        for number, name in enumerate(kept):
            await make(repository, chain(8, 6, 3 + number), name, seed=number)
        epochs = {n: served.epoch for p in (a, b) for n, served in plugin_of(p).host.shards.items()}
        largest, renewed = 0, 0
        for number in range(40):
            tidying = [asyncio.ensure_future(tidy(plugin_of(p).host)) for p in (a, b)]
            await make(repository, chain(8, 6, 3), f"m{number}", score=0.1)
            await repository.retire(f"m{number}")
            renewed += sum([await task for task in tidying])
            largest = max(largest, (await repository.stats())["journal_bytes"])
        await at_rest(s, a, b)
        for provider in (a, b):
            await tidy(plugin_of(provider).host)
            for served in plugin_of(provider).host.shards.values():
                assert journal_numbers(served.folder.path) == [served.epoch]
                assert not served.folder.is_long
        stats = await repository.stats()
        assert stats["tombstones"] == 40
        assert renewed > 8
        assert largest < 8 * 15_000
        assert sum(s.epoch for p in (a, b) for s in plugin_of(p).host.shards.values()) >= sum(epochs.values()) + renewed
        assert (await repository.verify()).clean
        with pytest.raises(ModelRetired):
            await repository.record("m7")
        files = list((tmp_path / "root").rglob("*.seg"))
        assert stats["file_bytes"] == sum(file.stat().st_size for file in files)

    @evo_cluster()
    async def look(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        assert sorted(summary.model_id for summary in await repository.models()) == kept
        for number, name in enumerate(kept):
            found = await repository.read(name)
            np.testing.assert_array_equal(found[1, 0], values(chain(8, 6, 3 + number), number if number == 0 else 0)[0])
        assert (await repository.status("m7")).state == "retired"
        assert (await repository.verify()).clean

    come_and_go()
    look()


@evo_cluster()
async def test_messages_wait_while_a_journal_is_renewed_and_nobody_ends_it_half_way(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await open_here(c, tmp_path / "root")
    for number in range(12):
        await make(repository, chain(8, 6, 3), f"m{number}", score=0.1, labels=[f"user:{'x' * 40}"])
    served = max(plugin_of(a).host.shards.values(), key=lambda served: served.folder.journal_bytes)
    assert served.folder.is_long
    began, go_on = asyncio.Event(), asyncio.Event()
    loop, renew = asyncio.get_running_loop(), ShardFolder.renew

    def slowly(folder: ShardFolder, head: Any) -> None:
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        renew(folder, head)

    monkeypatch.setattr(ShardFolder, "renew", slowly)
    epoch = served.epoch
    renewing = asyncio.ensure_future(served.renew())
    await began.wait()
    renewing.cancel()
    await asyncio.wait([renewing])
    asked = asyncio.ensure_future(served.ask([Status(ModelId("m1"))]))
    _, waiting = await asyncio.wait([asked], timeout=0.05)
    assert waiting
    go_on.set()
    await asked
    assert served.epoch == epoch + 1
    assert not served.folder.is_long


@evo_cluster()
async def test_a_half_dead_file_is_rewritten_under_its_readers(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, small: None
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, chain(8, 60), "first", seed=1)
    root = plugin_of(a).host.root
    served = of(a, "first")
    attempt = served.shard.state.models["first"].record.attempt
    source = TensorSource(served.number, ModelId("first"), attempt)
    old = Segment.open(served.folder.segment_path(ModelId("first"), attempt))
    wanted = {n: WantedTensors(old.entries[n].spec, old.entries[n].digest) for n in (0, 1)}
    told = file_answer(old, sorted(wanted))
    await put_reserved(repository, chain(8, 5), await reserve(repository, chain(8, 5), "second"), seed=2)
    await repository.retire("first")
    await at_rest(s, a)
    before = await repository.stats()
    assert before["file_bytes"] > before["payload_bytes"] + 60 * 4 * 4
    assert await tidy(plugin_of(a).host) == 1
    after = await repository.stats()
    assert after["file_bytes"] <= before["file_bytes"] - 60 * 4 * 4
    assert after["payload_bytes"] == before["payload_bytes"]
    assert await tidy(plugin_of(a).host) == 0
    # Who was told where the tensors lie in the old file finds them in the new one.
    first = values(chain(8, 60), 1)
    found = tensor_reader._read_file(root, told, source, wanted)
    assert found is not None
    for number in wanted:
        np.testing.assert_array_equal(found[number], first[number])
    gone = {**wanted, 2: WantedTensors(old.entries[2].spec, old.entries[2].digest)}
    assert tensor_reader._read_file(root, file_answer(old, sorted(gone)), source, gone) is None
    np.testing.assert_array_equal((await repository.read("second"))[1, 0], first[0])
    assert (await repository.verify()).clean
    await repository.retire("second")
    await at_rest(s, a)
    assert not list((tmp_path / "root").rglob("*.seg*"))


@evo_cluster()
async def test_what_is_deleted_while_it_is_rewritten_stays_deleted(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, chain(8, 60), "first", seed=1)
    await put_reserved(repository, chain(8, 5), await reserve(repository, chain(8, 5), "second"), seed=2)
    await repository.retire("first")
    await at_rest(s, a)
    loop, write = asyncio.get_running_loop(), segment_tier.write_segment

    async def retire() -> None:
        await repository.retire("second")
        await at_rest(s, a)

    def retired_first(*args: Any, **facts: Any) -> Any:
        asyncio.run_coroutine_threadsafe(retire(), loop).result()
        assert not list((tmp_path / "root").rglob("*.seg"))
        return write(*args, **facts)

    monkeypatch.setattr(segment_tier, "write_segment", retired_first)
    assert await tidy(plugin_of(a).host) == 1
    assert not list((tmp_path / "root").rglob("*.seg"))
    assert (await repository.verify()).clean
