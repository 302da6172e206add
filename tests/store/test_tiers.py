"""Tiers: the contract, budgets, all-or-nothing puts, what a cache must not remember."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CorruptRecord
from daskevo.provider.memory_pressure import Pressure
from daskevo.store.segment import Segment
from daskevo.store.segment_names import segment_name
from daskevo.store.segment_tier import SegmentTier, TensorKey
from daskevo.store.spill_tier import SpillTier
from daskevo.store.tiers import DurableTensors, SpillingTensors, Tensors
from daskevo.testing.arrays import awkward_arrays, same_tensor
from daskevo.testing.mapping import TierContract, key
from daskevo.types import Attempt, ModelId, Tick

BUDGETS = [0, 300, 1 << 30]


def evict_all(tier: Tensors) -> None:
    while tier.evict() >= 0:
        pass


class _In:
    """Locates segments in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, model_id: ModelId, attempt: Attempt) -> Path:
        return self.folder / segment_name(model_id, attempt)


class TestSegmentTier(TierContract):
    @pytest.fixture
    def mapping(self, tmp_path: Path) -> SegmentTier:
        return SegmentTier(_In(tmp_path))


class TestSpillTier(TierContract):
    @pytest.fixture
    def mapping(self, tmp_path: Path) -> Iterator[SpillTier]:
        tier = SpillTier(tmp_path / "spill")
        yield tier
        assert len(list((tmp_path / "spill").iterdir())) == len(tier)


class TestDurableTensors(TierContract):
    @pytest.fixture(params=BUDGETS)
    def mapping(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DurableTensors]:
        tier = DurableTensors(_In(tmp_path), request.param)
        yield tier
        assert tier.memory_bytes <= request.param
        assert tier.payload_bytes == sum(array.nbytes for array in tier.values())


class TestSpillingTensors(TierContract):
    @pytest.fixture(params=BUDGETS)
    def mapping(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SpillingTensors]:
        tier = SpillingTensors(tmp_path / "spill", request.param)
        yield tier
        # Threads that evict at the same moment may leave some of it to the next write.
        tier[key("last")] = np.zeros(0)
        assert tier.memory_bytes <= request.param
        assert tier.payload_bytes == sum(array.nbytes for array in tier.values())


MODEL, ATTEMPT = ModelId("M"), Tick(3, 17)


def test_awkward_arrays_after_a_forced_spill_and_eviction(tmp_path: Path) -> None:
    arrays = dict(enumerate(awkward_arrays(1).values()))
    spilling = SpillingTensors(tmp_path / "spill", 1 << 30)
    durable = DurableTensors(_In(tmp_path), 1 << 30)
    for tier in (spilling, durable):
        tier.put(MODEL, ATTEMPT, arrays)
        evict_all(tier)
        assert tier.memory_bytes == 0
        found = tier.read([(MODEL, ATTEMPT, number) for number in arrays])
        for number, array in arrays.items():
            assert same_tensor(found[MODEL, ATTEMPT, number], array)
        assert tier.payload_bytes == sum(array.nbytes for array in arrays.values())
        tier.free(MODEL, ATTEMPT, [*arrays, 10_000])
        assert len(tier) == tier.payload_bytes == tier.memory_bytes == 0
    assert list((tmp_path / "spill").iterdir()) == []


def test_one_put_is_one_file_and_one_cached_set(tmp_path: Path) -> None:
    tier = DurableTensors(_In(tmp_path), 1 << 20)
    tier.put(MODEL, ATTEMPT, {number: np.full(10, number) for number in range(50)}, {"note": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["m~1.3-17.seg"]
    assert tier.memory_bytes == 50 * 80
    assert tier[MODEL, ATTEMPT, 7] is tier[MODEL, ATTEMPT, 7]


def test_a_read_only_array_is_kept_without_a_copy(tmp_path: Path) -> None:
    array = np.arange(10)
    array.flags.writeable = False
    for tier in (SpillingTensors(tmp_path / "spill", 1 << 20), DurableTensors(_In(tmp_path), 1 << 20)):
        tier.put(MODEL, ATTEMPT, {0: array})
        assert tier[MODEL, ATTEMPT, 0] is array


def test_adopt_takes_in_what_another_writer_left(tmp_path: Path) -> None:
    DurableTensors(_In(tmp_path), 0).put(MODEL, ATTEMPT, {0: np.arange(3), 1: np.arange(4), 2: np.arange(5)})
    tier = DurableTensors(_In(tmp_path), 1 << 20)
    assert (MODEL, ATTEMPT, 0) not in tier
    tier.adopt(MODEL, ATTEMPT, [0, 2])
    assert set(tier) == {(MODEL, ATTEMPT, 0), (MODEL, ATTEMPT, 2)}
    assert tier[MODEL, ATTEMPT, 2].tolist() == [0, 1, 2, 3, 4]
    assert tier.payload_bytes == 64
    with pytest.raises(KeyError):
        tier[MODEL, ATTEMPT, 1]
    with pytest.raises(CorruptRecord, match="aren't in it"):
        tier.adopt(MODEL, ATTEMPT, [0, 9])
    with pytest.raises(CorruptRecord, match="no such file"):
        tier.adopt(MODEL, Tick(3, 18))
    (tmp_path / "m~1.3-17.seg").rename(tmp_path / "m~1.3-18.seg")
    with pytest.raises(CorruptRecord, match=r"segment of 'M' \[3, 17\]"):
        tier.adopt(MODEL, Tick(3, 18))


def test_a_deleted_tensor_is_gone_from_memory_too(tmp_path: Path) -> None:
    tier = DurableTensors(_In(tmp_path), 1 << 20)
    tier.put(MODEL, ATTEMPT, {0: np.arange(3), 1: np.arange(4)})
    tier.free(MODEL, ATTEMPT, [0])
    assert tier.memory_bytes == 32
    with pytest.raises(KeyError):
        tier[MODEL, ATTEMPT, 0]
    with pytest.raises(KeyError):
        tier.read([(MODEL, ATTEMPT, 1), (MODEL, ATTEMPT, 0)])


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    tier = DurableTensors(_In(tmp_path), 0)
    tier.put(MODEL, ATTEMPT, {0: np.arange(3)})
    other = DurableTensors(_In(tmp_path), 0)
    other.put(MODEL, ATTEMPT, {0: np.arange(3), 1: np.arange(9)})
    assert tier[MODEL, ATTEMPT, 0].tolist() == [0, 1, 2]


def test_damage_is_an_error_and_the_rest_still_reads(tmp_path: Path) -> None:
    tier = DurableTensors(_In(tmp_path), 0)
    tier.put(MODEL, ATTEMPT, {0: np.arange(100), 1: np.arange(100)})
    path = tmp_path / "m~1.3-17.seg"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match=r"tensor 1 isn't what was written") as caught:
        tier[MODEL, ATTEMPT, 1]
    assert caught.value.path == str(path)
    assert tier[MODEL, ATTEMPT, 0].tolist() == list(range(100))


def test_a_smaller_budget_and_memory_that_somebody_else_needs(tmp_path: Path) -> None:
    arrays = {number: np.full(25, number, np.float32) for number in range(4)}
    for tier in (SpillingTensors(tmp_path / "spill", 400), DurableTensors(_In(tmp_path), 400)):
        tier.put(MODEL, ATTEMPT, arrays)
        assert tier.memory_bytes == 400
        assert tier.evict() == 100
        tier.allow(250)
        assert tier.memory_bytes == 300
        tier.shrink()
        assert tier.memory_bytes == 200
        # Whose process takes 1,000 bytes of its own, and gives memory back above 1,100 until there are 1,050.
        pressure = Pressure(lambda tier=tier: 1_000 + tier.memory_bytes, 1_100, 1_050, 1.0)
        assert pressure.relieve(tier) == 200
        tier.allow(400)
        assert {key[2]: array.tolist() for key, array in tier.items()} == {n: a.tolist() for n, a in arrays.items()}
        assert tier.memory_bytes == 400


def test_what_was_read_before_a_replacement_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = DurableTensors(_In(tmp_path), 1 << 20)
    tier.put(MODEL, ATTEMPT, {0: np.zeros(4)})
    evict_all(tier)
    read = Segment.read

    def overtaken(self: Segment, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(Segment, "read", read)
        found = read(self, *args, **kwargs)
        tier[MODEL, ATTEMPT, 0] = np.ones(4)
        return found

    monkeypatch.setattr(Segment, "read", overtaken)
    assert tier[MODEL, ATTEMPT, 0].tolist() == [0, 0, 0, 0]
    assert tier[MODEL, ATTEMPT, 0].tolist() == [1, 1, 1, 1]


def test_two_readers_of_a_spilled_tensor_both_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = SpillingTensors(tmp_path / "spill", 1 << 20)
    tier.put(MODEL, ATTEMPT, {0: np.zeros(4)})
    evict_all(tier)
    read = SpillTier.__getitem__
    entered = threading.Event()
    turns = iter([1, 2])

    def slow(self: SpillTier, which: TensorKey) -> Any:
        if next(turns) == 1:
            # Were the second let in, it would be here before this one is done.
            entered.wait(0.3)
        else:
            entered.set()
        return read(self, which)

    monkeypatch.setattr(SpillTier, "__getitem__", slow)
    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(tier.read, [(MODEL, ATTEMPT, 0)]) for _ in range(2)]
        for reader in readers:
            assert reader.result()[MODEL, ATTEMPT, 0].tolist() == [0, 0, 0, 0]
    assert len(tier) == 1
    assert tier.memory_bytes == tier.payload_bytes == 32


def test_leftovers_of_a_dead_process_are_removed_from_the_scratch_folder(tmp_path: Path) -> None:
    first = SpillingTensors(tmp_path / "spill", 0)
    first.put(MODEL, ATTEMPT, {0: np.arange(3)})
    assert len(list((tmp_path / "spill").iterdir())) == 1
    second = SpillingTensors(tmp_path / "spill", 0)
    assert list((tmp_path / "spill").iterdir()) == []
    assert key() not in second
