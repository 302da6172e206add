"""Segment files: the tensors that one put stored, consolidated in one file (format: docs/formats.md).

Written to a temporary name and renamed when whole, never changed afterwards; read by ranges.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.store.files import corrupt, dump_json, parse_json, remove, sync_folder, temporary, usable, write_all
from daskevo.store.pack import Array, Entry, aligned_empty, parse_header, plan, raw, round_up, view
from daskevo.types import JSON

MAGIC = b"\x89EVSEG\r\n"
END_MAGIC = b"EVSEGEND"
VERSION = 1
_PREAMBLE = struct.Struct("<8sIIQ")  # magic, version, reserved, header length
_TRAILER = struct.Struct("<QII8s")  # file length, CRC-32 of everything but payload, reserved, end magic
MAX_HEADER_BYTES = 256 << 20
# Linux takes at most 1024 buffers in one call.
_BUFFERS = 1024


@dataclass(frozen=True)
class Segment:
    """An open segment: its header. Each read opens the file anew, so that nothing is held between reads.

    Attributes
    ----------
    path:
        The file.
    meta:
        What the writer attached (JSON), such as model id and attempt.
    entries:
        The tensors by number; offsets count from `payload`.
    payload, payload_bytes:
        Where the block of tensors starts, and its size, in bytes.
    file_bytes:
        Size of the whole file.
    """

    path: Path
    meta: JSON
    entries: Mapping[int, Entry]
    payload: int
    payload_bytes: int
    file_bytes: int
    identity: tuple[int, int, int] = field(repr=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Segment:
        """Read and check a segment's header and trailer (not its payload: see `read` and `verify`).

        Raises
        ------
        CorruptRecord
            If the file is missing, cut, damaged, or of a later version; names the file and the byte.
        RootUnusable
            If its folder can't be read.
        """
        path = Path(path)
        with _opened(path) as handle:
            return _read_header(path, handle)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the tensors themselves, without padding."""
        return sum(entry.spec.nbytes for entry in self.entries.values())

    def read(
        self, numbers: Iterable[int] | None = None, *, check: bool = True, mapped: bool = False
    ) -> dict[int, Array]:
        """Read tensors, all of them by default.

        Parameters
        ----------
        numbers:
            Tensor numbers.
        check:
            Compare each tensor with its digest.
        mapped:
            Return views of a map of the file that lasts as long as the arrays, instead of memory of their own.

        Returns
        -------
        dict
            Read-only arrays in 64-byte aligned memory, each its own (unless mapped), by number.

        Raises
        ------
        KeyError
            If a number isn't in the segment.
        CorruptRecord, RootUnusable
            As in `open`.
        """
        wanted = sorted(
            (self.entries[number] for number in (self.entries if numbers is None else set(numbers))),
            key=lambda entry: (entry.offset, entry.end),
        )
        with _opened(self.path) as handle:
            if _identity(os.fstat(handle)) != self.identity:
                raise corrupt(self.path, "the file was replaced after its header had been read", 0, "Open it again")
            memories = self._map(handle, wanted) if mapped else self._load(handle, wanted)
        tensors = {}
        for entry, memory in zip(wanted, memories, strict=True):
            if check and xxhash.xxh3_128_hexdigest(memory.data) != entry.digest:
                raise corrupt(self.path, f"tensor {entry.number} isn't what was written", self.payload + entry.offset)
            memory.flags.writeable = False
            tensors[entry.number] = view(memory, entry.spec)
        return tensors

    def verify(self) -> None:
        """Check every byte: digests of all tensors, zeros between them; raises CorruptRecord as `read` does."""
        self.read(mapped=True)
        gaps = []
        end = 0
        for entry in sorted(self.entries.values(), key=lambda entry: (entry.offset, entry.end)):
            gaps.append((end, entry.offset))
            end = max(end, entry.end)
        gaps.append((end, self.payload_bytes))
        with _opened(self.path) as handle:
            for start, stop in gaps:
                if start < stop and any(os.pread(handle, stop - start, self.payload + start)):
                    raise corrupt(self.path, "bytes other than zero between tensors", self.payload + start)

    def _map(self, handle: int, wanted: list[Entry]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
        memory = np.frombuffer(mmap.mmap(handle, self.file_bytes, prot=mmap.PROT_READ), np.uint8)
        return [memory[self.payload + entry.offset : self.payload + entry.end] for entry in wanted]

    def _load(self, handle: int, wanted: list[Entry]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
        memories = [aligned_empty(entry.spec.nbytes) for entry in wanted]
        run: list[np.ndarray[Any, np.dtype[np.uint8]]] = []
        start = end = 0
        for entry, memory in zip(wanted, memories, strict=True):
            # Neighbours are read in one call, the padding between them into a scratch buffer.
            if not run or entry.offset - end >= 4096 or len(run) + 2 > _BUFFERS:
                _read_exactly(self.path, handle, run, self.payload + start)
                run, start, end = [], entry.offset, entry.offset
            if entry.offset > end:
                run.append(np.empty(entry.offset - end, np.uint8))
            if memory.nbytes:
                run.append(memory)
            end = max(end, entry.end)
        _read_exactly(self.path, handle, run, self.payload + start)
        return memories


def write_segment(
    path: str | os.PathLike[str], tensors: Mapping[int, Any], meta: JSON = None, *, sync: bool = False
) -> Segment:
    """Write tensors to a segment file, whole or not at all; an older file of that name is replaced.

    Parameters
    ----------
    path:
        Its final name. The temporary one lies beside it and ends in ``.tmp``.
    tensors:
        Arrays by tensor number, see :func:`daskevo.store.pack.pack`. They aren't copied if they are little-endian and
        C-contiguous.
    meta:
        JSON to keep in the header.
    sync:
        Make file and name survive the host (fsync) before returning.

    Raises
    ------
    RootUnusable
        If the disk is full or the folder can't be written: names the folder, bytes needed and free; nothing is left.
    InvalidInput
        If a dtype can't be stored.
    """
    path = Path(path)
    arrays, entries, payload_bytes = plan(tensors)
    header = dump_json({"meta": meta, "payload_bytes": payload_bytes, "tensors": [e.to_json() for e in entries]})
    if len(header) > MAX_HEADER_BYTES:
        raise InvalidInput(f"a segment header of {len(header)} bytes is above the limit of {MAX_HEADER_BYTES}")
    payload = round_up(_PREAMBLE.size + len(header))
    front = (_PREAMBLE.pack(MAGIC, VERSION, 0, len(header)) + header).ljust(payload, b"\0")
    file_bytes = payload + payload_bytes + _TRAILER.size
    trailer = _TRAILER.pack(file_bytes, zlib.crc32(file_bytes.to_bytes(8, "little"), zlib.crc32(front)), 0, END_MAGIC)
    name = temporary(path)
    with usable(path.parent, "write a segment", file_bytes):
        try:
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                _write_buffers(handle, _buffers(front, arrays, entries, payload_bytes, trailer))
                if sync:
                    os.fsync(handle)
                identity = _identity(os.fstat(handle))
            finally:
                os.close(handle)
            os.replace(name, path)
        except BaseException:
            remove(name)
            raise
        if sync:
            sync_folder(path.parent)
    return Segment(path, meta, {entry.number: entry for entry in entries}, payload, payload_bytes, file_bytes, identity)


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    with usable(path.parent, "read a segment"):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if path.parent.is_dir():
                raise corrupt(path, "there is no such file", 0) from None
            raise
        try:
            yield handle
        finally:
            os.close(handle)


def _read_header(path: Path, handle: int) -> Segment:
    status = os.fstat(handle)
    size = status.st_size
    preamble = os.pread(handle, _PREAMBLE.size, 0)
    if len(preamble) < _PREAMBLE.size:
        raise corrupt(path, f"{size} bytes are too few for a segment", size)
    magic, version, reserved, length = _PREAMBLE.unpack(preamble)
    if magic != MAGIC:
        raise corrupt(path, f"no segment file starts with {magic!r}", 0)
    if version != VERSION:
        raise corrupt(path, f"format version {version}; this daskevo reads {VERSION}", 8, "Use a daskevo that reads it")
    if length > min(MAX_HEADER_BYTES, size - _PREAMBLE.size - _TRAILER.size):
        raise corrupt(path, f"a header of {length} bytes in a file of {size}", 16)
    payload = round_up(_PREAMBLE.size + length)
    front = os.pread(handle, payload, 0)
    trailer = os.pread(handle, _TRAILER.size, max(0, size - _TRAILER.size))
    if len(front) < payload or len(trailer) < _TRAILER.size:
        raise corrupt(path, "the file is cut", size)
    file_bytes, crc, also_reserved, end = _TRAILER.unpack(trailer)
    if end != END_MAGIC or file_bytes != size or reserved or also_reserved:
        raise corrupt(path, f"the file is cut or its trailer damaged ({size} bytes)", size - _TRAILER.size)
    if zlib.crc32(trailer[:8], zlib.crc32(front)) != crc:
        raise corrupt(path, "the header isn't what was written (CRC-32 differs)", 0)
    header = parse_json(front[_PREAMBLE.size : _PREAMBLE.size + length], path, "the header", _PREAMBLE.size)
    if not isinstance(header, dict) or not {"meta", "payload_bytes", "tensors"} <= header.keys():
        raise corrupt(path, "the header lacks meta, payload_bytes or tensors", _PREAMBLE.size)
    payload_bytes = header["payload_bytes"]
    if type(payload_bytes) is not int or payload + payload_bytes + _TRAILER.size != size:
        raise corrupt(path, f"a payload of {payload_bytes!r} bytes in a file of {size}", _PREAMBLE.size)
    try:
        entries = parse_header(header["tensors"], payload_bytes)
    except CorruptRecord as error:
        raise corrupt(path, error.message, _PREAMBLE.size) from error
    by_number = {entry.number: entry for entry in entries}
    return Segment(path, header["meta"], by_number, payload, payload_bytes, size, _identity(status))


def _buffers(
    front: bytes, arrays: Mapping[int, Array], entries: Iterable[Entry], payload_bytes: int, trailer: bytes
) -> Iterator[memoryview]:
    yield memoryview(front)
    end = 0
    for entry in entries:
        if entry.offset > end:
            yield memoryview(bytes(entry.offset - end))
        yield raw(arrays[entry.number]).data
        end = entry.end
    yield memoryview(bytes(payload_bytes - end))
    yield memoryview(trailer)


def _write_buffers(handle: int, buffers: Iterable[memoryview]) -> None:
    batch: list[memoryview] = []
    for buffer in buffers:
        if buffer.nbytes:
            batch.append(buffer)
        if len(batch) == _BUFFERS:
            _write_batch(handle, batch)
            batch = []
    _write_batch(handle, batch)


def _write_batch(handle: int, batch: list[memoryview]) -> None:
    if not batch:
        return
    written = os.writev(handle, batch)
    for buffer in batch:
        # The kernel may stop anywhere (a signal, 2 GiB, a nearly full disk): finish what it left, buffer by buffer.
        if written < buffer.nbytes:
            write_all(handle, buffer[written:])
        written = max(0, written - buffer.nbytes)


def _read_exactly(path: Path, handle: int, buffers: list[np.ndarray[Any, np.dtype[np.uint8]]], offset: int) -> None:
    views = [buffer.data for buffer in buffers]
    while views:
        count = os.preadv(handle, views, offset)
        if count == 0:
            raise corrupt(path, "the file is cut", offset)
        offset += count
        while views and count >= views[0].nbytes:
            count -= views.pop(0).nbytes
        if views and count:
            views[0] = views[0][count:]
