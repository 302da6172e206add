"""Write a segment file under a temporary name, and rename it when it is complete (format: docs/formats.md).

Digests are in the header, before the payload. Since their length is fixed, the payload is written first and hashed at
the same time, and the header last.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.store.digests import FEW_BYTES, digesting, groups, threads
from daskevo.store.files import begin_writeback, dump_json, replacing, usable
from daskevo.store.pack import Array, PackEntry, lay_out, raw, round_up
from daskevo.store.segment import (
    BUFFERS,
    END_MAGIC,
    MAGIC,
    MAX_HEADER_BYTES,
    PREAMBLE,
    TRAILER,
    VERSION,
    Segment,
    identity_of,
)
from daskevo.types import JSON

_PIECE_BYTES = 8 << 20
"""Bytes that are handed to the disk at once while the next ones are copied."""


def write_segment(
    path: str | os.PathLike[str],
    tensors: Mapping[int, Any],
    meta: JSON = None,
    *,
    sync: bool = False,
    known: Mapping[int, str] | None = None,
) -> Segment:
    """Write tensors to a segment file, completely or not at all; replace an older file of that name.

    Parameters
    ----------
    path:
        Its final name. The temporary file is in the same folder and ends in ``.tmp``.
    tensors:
        Arrays by tensor number, of any storable dtype, shape, byte order and stride. They aren't copied if they are
        little-endian and C-contiguous, and must not be changed meanwhile.
    meta:
        JSON to store in the header.
    sync:
        Whether file and name have to survive a crash of the host (fsync) when this returns.
    known:
        Digests that are known already, by number; the others are computed while the file is written.

    Raises
    ------
    RootUnusable
        If the disk is full or the folder can't be written; it names the folder, and the bytes needed and free. No file
        is left.
    InvalidInput
        If a dtype can't be stored.
    """
    path = Path(path)
    arrays, entries, payload_bytes = lay_out(tensors)
    # Placeholders are as long as digests, so the length of the header is known before the digests are.
    payload = round_up(PREAMBLE.size + len(_header(meta, payload_bytes, entries)))
    file_bytes = payload + payload_bytes + TRAILER.size
    known = known or {}
    await_digests = digesting({number: array for number, array in arrays.items() if number not in known})

    def ends() -> tuple[tuple[PackEntry, ...], bytes, bytes]:
        found = {**known, **await_digests()}
        whole = tuple(entry._replace(digest=found[entry.number]) for entry in entries)
        header = _header(meta, payload_bytes, whole)
        front = (PREAMBLE.pack(MAGIC, VERSION, 0, len(header)) + header).ljust(payload, b"\0")
        crc = zlib.crc32(file_bytes.to_bytes(8, "little"), zlib.crc32(front))
        return whole, front, TRAILER.pack(file_bytes, crc, 0, END_MAGIC)

    with usable(path.parent, "write a segment", file_bytes), replacing(path, sync=sync) as handle:
        try:
            body = _body(arrays, entries, payload_bytes)
            if payload_bytes < FEW_BYTES:
                # Small tensors are hashed already, so the whole file is written in one call.
                whole, front, trailer = ends()
                _write(handle, [memoryview(front), *body, memoryview(trailer)], 0)
            else:
                (_write_ahead if sync else _write)(handle, body, payload)
                whole, front, trailer = ends()
                _write(handle, [memoryview(trailer)], payload + payload_bytes)
                _write(handle, [memoryview(front)], 0)
            identity = identity_of(os.fstat(handle))
        finally:
            await_digests()  # after an error, too: threads may still read the arrays, which the caller may change
    return Segment(path, meta, {entry.number: entry for entry in whole}, payload, payload_bytes, file_bytes, identity)


def _header(meta: JSON, payload_bytes: int, entries: Sequence[PackEntry]) -> bytes:
    header = dump_json({"meta": meta, "payload_bytes": payload_bytes, "tensors": [e.to_json() for e in entries]})
    if len(header) > MAX_HEADER_BYTES:
        raise InvalidInput(f"a segment header of {len(header)} bytes is above the limit of {MAX_HEADER_BYTES}")
    return header


def _body(arrays: Mapping[int, Array], entries: Sequence[PackEntry], payload_bytes: int) -> Iterator[memoryview]:
    end = 0
    for entry in entries:
        if entry.offset > end:
            yield memoryview(bytes(entry.offset - end))
        yield raw(arrays[entry.number]).data
        end = entry.end
    yield memoryview(bytes(payload_bytes - end))


def _write_ahead(handle: int, buffers: Iterator[memoryview], offset: int) -> None:
    """Write in parts, and start the disk on each part while the next is copied, so that fsync has less to wait for."""
    pieces = [
        buffer[start : start + _PIECE_BYTES] for buffer in buffers for start in range(0, buffer.nbytes, _PIECE_BYTES)
    ]
    begun: list[Future[None]] = []
    try:
        for part in groups(pieces, lambda piece: piece.nbytes):
            start, offset = offset, _write(handle, part, offset)
            begun.append(threads().submit(begin_writeback, handle, start, offset - start))
    finally:
        wait(begun)  # the file is closed next


def _write(handle: int, buffers: Iterator[memoryview] | Sequence[memoryview], offset: int) -> int:
    batch: list[memoryview] = []
    for buffer in buffers:
        if buffer.nbytes:
            batch.append(buffer)
        if len(batch) == BUFFERS:
            offset = _write_batch(handle, batch, offset)
            batch = []
    return _write_batch(handle, batch, offset)


def _write_batch(handle: int, batch: list[memoryview], offset: int) -> int:
    # The kernel may write less than asked (a signal, 2 GiB, a nearly full disk): continue where it stopped.
    while batch:
        written = os.pwritev(handle, batch, offset)
        offset += written
        while batch and written >= batch[0].nbytes:
            written -= batch.pop(0).nbytes
        if batch and written:
            batch[0] = batch[0][written:]
    return offset
