"""Tensors in one block of bytes: the layout shared by segment files and by messages between workers.

A block holds the values little-endian and C-contiguous, each tensor at a multiple of 64 bytes, zeros between; a header
(a list that JSON and msgpack carry) says what lies where. Reading makes views, no copies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xxhash

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.types import JSON, TensorSpec, dtype_of

Array = np.ndarray[Any, np.dtype[Any]]

ALIGNMENT = 64
"""Bytes. TensorFlow aborts the process when it aliases memory that isn't aligned to its largest vector."""

MAX_TENSORS = 1 << 20
"""Most tensors in one block."""


class Entry(NamedTuple):
    """One tensor of a block: its number in the owner's enumeration, shape and dtype, byte offset, xxh3-128 (hex)."""

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
    """Return the values as they are stored: little-endian and C-contiguous; copies only what isn't so already.

    Bits are kept (NaN payloads, signed zeros, denormals), shapes too (a 0-d array stays 0-d).

    Raises
    ------
    InvalidInput
        If the dtype can't be stored: objects, text, dates, records, extended precision.
    """
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
    """Return a read-only array with these values that no later change of `array` reaches.

    A read-only array is taken as it is, without a copy: whoever hands it over says that nobody writes to its memory.
    """
    result = portable(array)
    if result.flags.writeable:
        if np.may_share_memory(result, np.asarray(array)):
            memory = aligned_empty(result.nbytes)
            memory[:] = raw(result)
            result = view(memory, TensorSpec.of(result))
        result.flags.writeable = False
    return result


def raw(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a C-contiguous array as a view of shape (nbytes,), dtype uint8."""
    return array.reshape(-1).view(np.uint8)


def digest(array: Any) -> str:
    """Return the xxh3-128 of the stored bytes as 32 hex digits. Shape and dtype aren't part of it."""
    return str(xxhash.xxh3_128_hexdigest(raw(portable(array)).data))


def aligned_empty(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return uninitialised memory of shape (nbytes,), dtype uint8, whose address is a multiple of 64."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    # Not a slice: an empty one starts anywhere.
    return np.ndarray((nbytes,), np.uint8, memory, start)


def view(memory: np.ndarray[Any, np.dtype[np.uint8]], spec: TensorSpec) -> Array:
    """Return `memory` of shape (spec.nbytes,) as a tensor of that specification."""
    return memory.view(dtype_of(spec.dtype)).reshape(spec.shape)


def round_up(nbytes: int) -> int:
    """Return the next multiple of 64."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def plan(tensors: Mapping[int, Any]) -> tuple[dict[int, Array], tuple[Entry, ...], int]:
    """Lay tensors out in a block, in order of their numbers.

    Returns
    -------
    arrays, entries, nbytes:
        The portable arrays by number, what lies where, and the size of the block (a multiple of 64).

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
        entry = Entry(number, TensorSpec.of(array), offset, str(xxhash.xxh3_128_hexdigest(raw(array).data)))
        entries.append(entry)
        offset = round_up(entry.end)
    return arrays, tuple(entries), offset


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def pack(tensors: Mapping[int, Any]) -> tuple[list[JSON], np.ndarray[Any, np.dtype[np.uint8]]]:
    """Copy tensors into one block.

    Parameters
    ----------
    tensors:
        Arrays of any storable dtype, shape, byte order and stride, by tensor number.

    Returns
    -------
    header, block:
        The header for `unpack` and a uint8 array of shape (multiple of 64,) in 64-byte aligned memory.
    """
    arrays, entries, nbytes = plan(tensors)
    block = aligned_empty(nbytes)
    end = 0
    for entry in entries:
        block[end : entry.offset] = 0
        block[entry.offset : entry.end] = raw(arrays[entry.number])
        end = entry.end
    block[end:] = 0
    return [entry.to_json() for entry in entries], block


def parse_header(header: JSON, nbytes: int) -> tuple[Entry, ...]:
    """Read a header and check that its tensors lie, aligned and apart, within a block of `nbytes`.

    Raises
    ------
    CorruptRecord
        If it is anything else; nothing of the size that it claims is allocated before.
    """
    if not isinstance(header, (list, tuple)) or len(header) > MAX_TENSORS:
        raise CorruptRecord(f"expected a list of at most {MAX_TENSORS} tensors, found {type(header).__name__}")
    entries: list[Entry] = []
    numbers = set()
    end = 0
    for item in header:
        match item:
            case [number, [*shape], str() as dtype, offset, str() as found] if (
                _is_number(number) and type(offset) is int and len(found) == 32
            ):
                entry = Entry(number, TensorSpec.from_json([shape, dtype]), offset, found)
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


def unpack(header: JSON, block: Any, *, check: bool = True) -> dict[int, Array]:
    """Return the tensors of a block as read-only views, by tensor number.

    Parameters
    ----------
    header:
        What `pack` returned, possibly after a trip through JSON or msgpack.
    block:
        Anything with a buffer; copied once if its memory isn't aligned to 64 bytes.
    check:
        Compare every tensor with its digest.

    Raises
    ------
    CorruptRecord
        If header or block are not what was packed.
    """
    memory = np.frombuffer(block, np.uint8) if not isinstance(block, np.ndarray) else raw(block)
    entries = parse_header(header, memory.nbytes)
    if memory.ctypes.data % ALIGNMENT:
        aligned = aligned_empty(memory.nbytes)
        aligned[:] = memory
        memory = aligned
    memory = memory[:]
    memory.flags.writeable = False
    if check:
        for entry in damaged(entries, memory):
            raise CorruptRecord(
                f"tensor {entry.number} of a block isn't what was packed: its digest differs", number=entry.number
            )
    return {entry.number: view(memory[entry.offset : entry.end], entry.spec) for entry in entries}


def damaged(entries: Iterable[Entry], memory: np.ndarray[Any, np.dtype[np.uint8]]) -> Iterable[Entry]:
    """Yield the entries whose bytes in `memory` (the whole block) don't have the digest that the header says."""
    for entry in entries:
        if xxhash.xxh3_128_hexdigest(memory[entry.offset : entry.end].data) != entry.digest:
            yield entry
