"""Tensors in a block: where they lie, alignment, and headers that lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.limits import MAX_TENSORS
from daskevo.store.pack import ALIGNMENT, aligned_empty, lay_out, lent, parse_header, snapshot
from daskevo.types import TensorSpec


def test_tensors_are_laid_out_apart_and_aligned_in_order_of_their_numbers() -> None:
    arrays, entries, nbytes = lay_out(
        {7: np.arange(10), 2: np.zeros((3, 0)), 5: np.float32(1), 3: np.zeros(64, np.int8)}
    )
    assert [(entry.number, entry.offset) for entry in entries] == [(2, 0), (3, 0), (5, 64), (7, 128)]
    assert nbytes == 256
    assert [TensorSpec.of(arrays[entry.number]) for entry in entries] == [entry.spec for entry in entries]


GOOD = [0, [2, 3], "float32", 0, "0" * 32]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "text",
        {"0": GOOD},
        [None],
        [[]],
        [GOOD[:4]],
        [[*GOOD, 1]],
        [[-1, *GOOD[1:]]],
        [[True, *GOOD[1:]]],
        [[2**31, *GOOD[1:]]],
        [["0", *GOOD[1:]]],
        [[0, [2, -3], "float32", 0, "0" * 32]],
        [[0, [2.0], "float32", 0, "0" * 32]],
        [[0, [2**40, 2**40], "float32", 0, "0" * 32]],
        [[0, [2**61], "float32", 0, "0" * 32]],
        [[0, [1] * 65, "float32", 0, "0" * 32]],
        [[0, [2], "object", 0, "0" * 32]],
        [[0, [2], "O", 0, "0" * 32]],
        [[0, [2], "__class__", 0, "0" * 32]],
        [[0, [2], "float32", -64, "0" * 32]],
        [[0, [2], "float32", 1, "0" * 32]],
        [[0, [2], "float32", 64.0, "0" * 32]],
        [[0, [2], "float32", 256, "0" * 32]],
        [[0, [65], "float32", 0, "0" * 32]],
        [[0, [2], "float32", 0, "0" * 31]],
        [[0, [2], "float32", 0, None]],
        [GOOD, GOOD],
        [GOOD, [1, *GOOD[1:]]],
        [[0, [2], "float32", 64, "0" * 32], [1, [2], "float32", 0, "0" * 32]],
    ],
)
def test_headers_that_lie_are_refused(header: Any) -> None:
    assert len(parse_header([GOOD], 256)) == 1
    with pytest.raises(CorruptRecord):
        parse_header(header, 256)


def test_too_many_tensors_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(CorruptRecord, match="at most"):
        parse_header([None] * (MAX_TENSORS + 1), 0)


@pytest.mark.parametrize("number", [-1, 2**31, True, "0", 1.0, None])
def test_numbers_that_are_none_are_refused(number: Any) -> None:
    with pytest.raises(InvalidInput, match="tensor number"):
        lay_out({number: np.zeros(1)})


def test_snapshot_copies_a_read_only_array_over_memory_that_others_write_to() -> None:
    memory = bytearray(8)
    for shown in (np.frombuffer(memory, np.uint8), np.frombuffer(memoryview(memory).toreadonly(), np.uint8)):
        shown.flags.writeable = False
        taken = snapshot(shown)
        memory[0] += 1
        assert taken[0] == memory[0] - 1
    for fixed in (np.frombuffer(bytes(8), np.uint8), np.from_dlpack(lent(snapshot(np.arange(3))))):
        assert snapshot(fixed) is fixed
    stored = lent(snapshot(np.arange(3)))
    assert snapshot(stored) is stored


def test_snapshot_copies_only_what_can_change() -> None:
    writable = np.arange(3)
    taken = snapshot(writable)
    writable[:] = 9
    assert taken.tolist() == [0, 1, 2]
    assert snapshot(taken) is taken
    big_endian = np.arange(3).astype(">i8")
    assert snapshot(big_endian).tolist() == [0, 1, 2]
    assert big_endian.flags.writeable
    assert snapshot(np.float64(3.5)).shape == ()


def test_aligned_memory() -> None:
    for nbytes in (0, 1, 63, 64, 65, 10_000):
        memory = aligned_empty(nbytes)
        assert memory.nbytes == nbytes
        assert memory.ctypes.data % ALIGNMENT == 0
    assert TensorSpec.of(aligned_empty(3)) == TensorSpec((3,), "uint8")


def test_a_masked_array_is_refused_before_its_mask_is_lost() -> None:
    with pytest.raises(InvalidInput, match=r"masked array of shape \(3,\).*filled"):
        snapshot(np.ma.masked_equal(np.arange(3), 1))
