"""Blocks of tensors: bits, alignment, and headers that lie."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.store.pack import ALIGNMENT, MAX_TENSORS, aligned_empty, digest, pack, parse_header, snapshot, unpack
from daskevo.testing.arrays import awkward_arrays, same_tensor
from daskevo.types import TensorSpec


def test_awkward_arrays_in_one_block() -> None:
    arrays = dict(enumerate(awkward_arrays().values()))
    header, block = pack(arrays)
    assert block.ctypes.data % ALIGNMENT == block.nbytes % ALIGNMENT == 0
    found = unpack(json.loads(json.dumps(header)), block)
    assert found.keys() == arrays.keys()
    for number, array in arrays.items():
        assert same_tensor(found[number], array)
        assert found[number].ctypes.data % ALIGNMENT == 0
        assert not found[number].flags.writeable
        assert found[number].size == 0 or np.shares_memory(found[number], block)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 2**31 - 1),
        npst.arrays(
            npst.boolean_dtypes() | npst.integer_dtypes() | npst.floating_dtypes(sizes=(16, 32, 64)),
            npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        ),
        max_size=8,
    )
)
def test_any_arrays_in_one_block(arrays: dict[int, np.ndarray[Any, Any]]) -> None:
    found = unpack(*pack(arrays))
    assert found.keys() == arrays.keys()
    assert all(same_tensor(found[number], array) for number, array in arrays.items())


def test_nothing_is_a_block_too() -> None:
    header, block = pack({})
    assert (header, block.nbytes) == ([], 0)
    assert unpack(header, block) == {}


def test_a_block_from_the_wire_is_aligned_by_one_copy() -> None:
    header, block = pack({0: np.arange(10), 5: np.ones(3, np.int8)})
    memory = bytearray(block.nbytes + ALIGNMENT + 1)
    start = 1 + -np.frombuffer(memory, np.uint8).ctypes.data % ALIGNMENT
    memory[start : start + block.nbytes] = block.tobytes()
    for received in (memoryview(memory)[start : start + block.nbytes], block.tobytes()):
        found = unpack(tuple(header), received)
        assert found[0].tolist() == list(range(10))
        assert all(array.ctypes.data % ALIGNMENT == 0 for array in found.values())
    assert block.flags.writeable


def test_equal_bytes_have_equal_digests_whatever_their_layout() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array.astype(">f8")) == digest(array.copy())
    assert digest(np.float32(0.0)) != digest(np.float32(-0.0))
    assert len(digest(np.zeros(0))) == 32


def test_damage_anywhere_in_a_tensor_is_found() -> None:
    header, block = pack({0: np.arange(4, dtype=np.int16), 3: np.arange(3)})
    for entry in parse_header(header, block.nbytes):
        for place in range(entry.offset, entry.end):
            block[place] ^= 0x40
            with pytest.raises(CorruptRecord, match=f"tensor {entry.number} "):
                unpack(header, block)
            assert len(unpack(header, block, check=False)) == 2
            block[place] ^= 0x40
    assert len(unpack(header, block)) == 2


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
        pack({number: np.zeros(1)})


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
