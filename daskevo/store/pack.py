"""Layout of stored tensors: little-endian and C-contiguous, in one block of bytes, each at a multiple of 64 bytes.

A header, which is a JSON list, has the place of each tensor.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.limits import MAX_TENSORS
from daskevo.types import JSON, TensorSpec, dtype_of

Array = np.ndarray[Any, np.dtype[Any]]

ALIGNMENT = 64
"""Alignment in bytes. TensorFlow aborts the process if it aliases memory that isn't aligned to its largest vector."""

NO_DIGEST = "0" * 32
"""Placeholder of the same length for a digest that isn't known yet."""


class PackEntry(NamedTuple):
    """One tensor of a block: its number at the owner, shape and dtype, byte offset, xxh3-128 (hex)."""

    number: int
    spec: TensorSpec
    offset: int
    digest: str

    @property
    def end(self) -> int:
        return self.offset + self.spec.nbytes

    def to_json(self) -> JSON:
        return [self.number, list(self.spec.shape), self.spec.dtype, self.offset, self.digest]


def portable(values: Any) -> Array:
    """Return values as a little-endian, C-contiguous array, without a copy if they are one.

    Bits are kept (NaN payloads, signed zeros, denormals), and so is the shape (a 0-d array stays 0-d).

    Raises
    ------
    InvalidInput
        If the dtype can't be stored (objects, text, dates, records, extended precision), or for masked arrays.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(
            f"a masked array of shape {values.shape} can't be stored: its mask would be lost. Fill it "
            "(array.filled(value)), and store np.ma.getmaskarray(array) as an array of its own if it is needed"
        )
    array: Array = np.asarray(values)
    try:
        dtype = dtype_of(TensorSpec.of(array).dtype)
    except CorruptRecord as error:
        raise InvalidInput(f"an array of dtype {array.dtype} can't be stored: {error.message}") from error
    if array.dtype.byteorder == ">" or (sys.byteorder == "big" and array.dtype.byteorder == "="):
        array = array.byteswap().view(dtype.newbyteorder("<"))
    if not array.flags.c_contiguous:
        array = np.array(array, order="C")
    return array


def snapshot(array: Any) -> Array:
    """Return a read-only array with these values that later changes of `array` don't affect.

    An array is returned without a copy only if nothing can write to its memory. A read-only view of memory that its
    owner can still write to is copied.
    """
    result = portable(array)
    if _may_be_written(result) and np.may_share_memory(result, np.asarray(array)):
        memory = aligned_empty(result.nbytes)
        memory[:] = raw(result)
        result = view(memory, TensorSpec.of(result))
    return frozen(result)


def _may_be_written(array: Array) -> bool:
    """Whether an array's memory can be written to, through another array or by its owner."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        if isinstance(base, np.ndarray) and base.flags.writeable:
            return True
        base = base.obj if isinstance(base, memoryview) else base.base
    if base is None:
        return False
    if isinstance(base, mmap.mmap):
        return True  # even through a read-only map, changes of its file are visible
    try:
        return not memoryview(base).readonly
    except TypeError:
        return False  # memory of a framework (DLPack), which exports read-only what it does not change


def frozen(array: Array) -> Array:
    """Make an array read-only, and all arrays that it is a view of; return it."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base.flags.writeable = False
        base = base.base
    return array


def lent(array: Array) -> Array:
    """Return a view of a stored array that can't be made writeable again, which NumPy allows the owner of memory."""
    if not array.nbytes:
        return array
    sealed = np.frombuffer(raw(array).data.toreadonly(), np.uint8)
    return view(sealed, TensorSpec.of(array))


def raw(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a C-contiguous array as a view of shape (nbytes,), dtype uint8."""
    return array.reshape(-1).view(np.uint8)


def aligned_empty(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return uninitialised memory of shape (nbytes,), dtype uint8, whose address is a multiple of 64."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    # Not a slice: NumPy may give an empty slice any address.
    return np.ndarray((nbytes,), np.uint8, memory, start)


def view(memory: np.ndarray[Any, np.dtype[np.uint8]], spec: TensorSpec) -> Array:
    """Return `memory` of shape (spec.nbytes,) as a tensor of that specification."""
    return memory.view(dtype_of(spec.dtype)).reshape(spec.shape)


def round_up(nbytes: int) -> int:
    """Return the next multiple of 64."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lay_out(tensors: Mapping[int, Any]) -> tuple[dict[int, Array], tuple[PackEntry, ...], int]:
    """Lay tensors out in a block, in order of their numbers.

    Returns
    -------
    arrays, entries, nbytes:
        The portable arrays by number, their places (still without digests), the size of the block (a multiple of 64).

    Raises
    ------
    InvalidInput
        If a number isn't one, or a dtype can't be stored.
    """
    if len(tensors) > MAX_TENSORS:
        raise InvalidInput(f"{len(tensors)} tensors are too many for one block; the limit is {MAX_TENSORS}")
    arrays, entries, offset = {}, [], 0
    for number in sorted(tensors):
        if not _is_number(number):
            raise InvalidInput(f"{number!r} can't be a tensor number: use 0 to {2**31 - 1}")
        array = arrays[number] = portable(tensors[number])
        entry = PackEntry(number, TensorSpec.of(array), offset, NO_DIGEST)
        entries.append(entry)
        offset = round_up(entry.end)
    return arrays, tuple(entries), offset


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def parse_header(header: JSON, nbytes: int) -> tuple[PackEntry, ...]:
    """Decode a header, and check that its tensors are aligned, don't overlap, and are within a block of `nbytes`.

    Raises
    ------
    CorruptRecord
        If the header is not valid; no memory of a claimed size is allocated before.
    """
    if not isinstance(header, (list, tuple)) or len(header) > MAX_TENSORS:
        raise CorruptRecord(f"expected a list of at most {MAX_TENSORS} tensors, found {type(header).__name__}")
    entries: list[PackEntry] = []
    numbers = set()
    end = 0
    for item in header:
        match item:
            case [number, [*shape], str() as dtype, offset, str() as found] if (
                _is_number(number) and type(offset) is int and len(found) == 32
            ):
                entry = PackEntry(number, TensorSpec.from_json([shape, dtype]), offset, found)
            case _:
                raise CorruptRecord(f"expected [number, shape, dtype, offset, digest], found {str(item)[:80]}")
        if number in numbers:
            raise CorruptRecord(f"tensor {number} is named twice")
        if offset % ALIGNMENT or offset < end or entry.end > nbytes:
            raise CorruptRecord(
                f"tensor {number} of {entry.spec.nbytes} bytes at offset {offset} overlaps another, isn't aligned, "
                f"or ends beyond the block's {nbytes} bytes"
            )
        numbers.add(number)
        entries.append(entry)
        end = entry.end
    return tuple(entries)
