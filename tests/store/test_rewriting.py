"""Segment files written anew without their dead tensors: nobody who reads, maps or deletes meanwhile is misled."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, RootUnusable, ShardFenced
from daskevo.store import segment_tier as module
from daskevo.store.segment import Replaced, Segment
from daskevo.store.segment_names import segment_name
from daskevo.store.tiers import DurableTensors
from daskevo.types import Attempt, ModelId, Tick

M, P = ModelId("m"), Tick(1, 1)
LARGE = {number: np.full(250_000, number, np.float32) for number in range(4)}


@pytest.fixture(params=["mapped", "read"])
def tensors(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DurableTensors:
    def locate(model_id: ModelId, attempt: Attempt) -> Path:
        return tmp_path / segment_name(model_id, attempt)

    monkeypatch.setattr(module, "may_be_mapped", lambda path: request.param == "mapped")
    tensors = DurableTensors(locate, 0)
    tensors.put(M, P, LARGE, meta={"note": 1})
    return tensors


def _path(tensors: DurableTensors) -> Path:
    return tensors.segments._locate(M, P)


def _all_read(tensors: DurableTensors, *numbers: int) -> None:
    for number in numbers:
        np.testing.assert_array_equal(tensors[M, P, number], LARGE[number])


def test_the_dead_go_and_the_living_stay(tensors: DurableTensors) -> None:
    tier = tensors.segments
    before = tier.file_bytes
    assert before == _path(tensors).stat().st_size
    tensors.free(M, P, [0])
    assert tier.half_dead() == []
    tensors.free(M, P, [2])
    assert tier.half_dead() == [(M, P)]
    gone = tier.rewrite(M, P, lambda: None)
    assert gone > 1_900_000
    assert tier.file_bytes == before - gone == _path(tensors).stat().st_size
    assert tier.half_dead() == []
    segment = Segment.open(_path(tensors)).of(M, P)
    segment.verify()
    assert segment.entries.keys() == {1, 3}
    assert segment.meta == {"model_id": M, "attempt": list(P), "extra": {"note": 1}}
    _all_read(tensors, 1, 3)
    assert list(_path(tensors).parent.iterdir()) == [_path(tensors)]
    tensors.free(M, P, [1])
    assert tier.half_dead() == []  # less than a megabyte is dead


def test_what_was_dead_when_the_file_was_taken_in_counts(tensors: DurableTensors) -> None:
    again = DurableTensors(tensors.segments._locate, 0)
    again.adopt(M, P, [3])
    assert again.segments.half_dead() == [(M, P)]
    again.segments.rewrite(M, P, lambda: None)
    assert again.segments.half_dead() == []
    _all_read(again, 3)


def test_maps_and_handles_of_before(tensors: DurableTensors) -> None:
    old = Segment.open(_path(tensors))
    mapped = old.read([1, 3], mapped=True)
    tensors.free(M, P, [0, 2])
    tensors.segments.rewrite(M, P, lambda: None)
    np.testing.assert_array_equal(mapped[3], LARGE[3])
    np.testing.assert_array_equal(mapped[1], LARGE[1])
    assert not old.is_there()
    for read in (lambda: old.read([3]), lambda: old.range(3, 0, 8), lambda: old.check([3])):
        with pytest.raises(Replaced, match="Open it again"):
            read()
    np.testing.assert_array_equal(tensors.range((M, P, 3), 0, 8).view(np.float32), LARGE[3][:2])


def test_what_dies_before_the_look_at_the_epoch_is_not_yet_left_out(tensors: DurableTensors) -> None:
    """Its record may not be flushed: which tensors are left out is settled before the flush."""
    tensors.free(M, P, [0, 1])
    tensors.segments.rewrite(M, P, lambda: tensors.free(M, P, [2]))
    assert Segment.open(_path(tensors)).entries.keys() == {2, 3}
    assert (M, P, 2) not in tensors
    _all_read(tensors, 3)


def test_a_fenced_owner_rewrites_nothing(tensors: DurableTensors) -> None:
    def fenced() -> None:
        raise ShardFenced("another owner", shard=1, epoch=1, found_epoch=2, found_generation=1)

    before = _path(tensors).stat()
    tensors.free(M, P, [0, 2])
    with pytest.raises(ShardFenced):
        tensors.segments.rewrite(M, P, fenced)
    assert _path(tensors).stat() == before


def test_damage_is_told_and_not_written_on(tensors: DurableTensors) -> None:
    segment = Segment.open(_path(tensors))
    with open(_path(tensors), "r+b") as file:
        file.seek(segment.payload + segment.entries[3].offset + 5)
        file.write(b"\xff")
    tensors.free(M, P, [0, 2])
    before = _path(tensors).stat()
    with pytest.raises(CorruptRecord, match="tensor 3 isn't what was written"):
        tensors.segments.rewrite(M, P, lambda: None)
    assert _path(tensors).stat() == before


def test_no_room_leaves_the_old_file(tensors: DurableTensors, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **facts: Any) -> Any:
        raise RootUnusable("no room", folder="", needed_bytes=1, free_bytes=0, errno=28)

    monkeypatch.setattr(module, "write_segment", full)
    tensors.free(M, P, [0, 2])
    with pytest.raises(RootUnusable):
        tensors.segments.rewrite(M, P, lambda: None)
    _all_read(tensors, 1, 3)
    assert tensors.segments.half_dead() == [(M, P)]


def test_readers_beside_it(tensors: DurableTensors) -> None:
    """Some read, some free, while the file is written anew again and again: nobody gets anything else."""
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            _all_read(tensors, 3)
            np.testing.assert_array_equal(tensors.range((M, P, 3), 4, 8).view(np.float32), LARGE[3][1:2])

    threads = ThreadPoolExecutor(3)
    reading = [threads.submit(read) for _ in range(3)]
    try:
        for number in (0, 1, 2):
            tensors.free(M, P, [number])
            for _ in range(5):
                tensors.segments.rewrite(M, P, lambda: None)
    finally:
        done.set()
    for reader in reading:
        reader.result()
    threads.shutdown()
    assert Segment.open(_path(tensors)).entries.keys() == {3}


def test_a_file_that_was_deleted_is_nobody_s(tensors: DurableTensors) -> None:
    """What is deleted meanwhile comes back under its name, and must be deleted again: the shard's owner does."""
    tensors.free(M, P, [0, 2])

    def deleted() -> None:
        tensors.free(M, P, [1, 3])

    tensors.segments.rewrite(M, P, deleted)
    assert len(tensors) == 0
    assert tensors.segments.file_bytes == 0
    assert tensors.segments.half_dead() == []
    assert tensors.segments.rewrite(M, P, lambda: pytest.fail("nothing is alive")) == 0
