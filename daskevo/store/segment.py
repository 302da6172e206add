"""Segment files: the tensors of one put, consolidated in one file (format: docs/formats.md).

:mod:`daskevo.store.segment_writer` writes them; they are never changed afterwards, and read by ranges or mapped.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from daskevo.errors import CorruptRecord
from daskevo.store.digests import FEW_BYTES, groups, threads
from daskevo.store.files import corrupt, later_version, open_inside, parse_json, usable
from daskevo.store.pack import Array, PackEntry, aligned_empty, parse_header, round_up, view
from daskevo.types import JSON, Attempt, ModelId

MAGIC = b"\x89EVSEG\r\n"
END_MAGIC = b"EVSEGEND"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQ")  # magic, version, reserved, header length
TRAILER = struct.Struct("<QII8s")  # file length, CRC-32 of everything but payload, reserved, end magic
MAX_HEADER_BYTES = 256 << 20
Memory = np.ndarray[Any, np.dtype[np.uint8]]
# Linux takes at most 1024 buffers in one call.
BUFFERS = 1024


class Replaced(CorruptRecord):
    """The file was replaced after its header had been read: open it again."""


@dataclass(frozen=True)
class Segment:
    """The header of a segment. Each read opens the file again, so no file handle is held between reads.

    Attributes
    ----------
    path:
        The file.
    meta:
        JSON of the writer, such as model id and attempt.
    entries:
        The tensors by number; offsets count from `payload`.
    payload, payload_bytes:
        Offset of the block of tensors in the file, and its size, in bytes.
    file_bytes:
        Size of the whole file.
    """

    path: Path
    meta: JSON
    entries: Mapping[int, PackEntry]
    payload: int
    payload_bytes: int
    file_bytes: int
    identity: tuple[int, int, int] = field(repr=False)
    """Inode, size and modification time, by which a replaced file is recognised."""

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

    def of(self, model_id: ModelId, attempt: Attempt) -> Segment:
        """Return this segment if its header names that model and attempt; raise CorruptRecord otherwise."""
        meta = self.meta if isinstance(self.meta, dict) else {}
        if (meta.get("model_id"), meta.get("attempt")) != (model_id, list(attempt)):
            raise corrupt(self.path, f"this is the segment of {meta.get('model_id')!r} {meta.get('attempt')}", 0)
        return self

    def is_there(self) -> bool:
        """Whether the file at the path, as this process sees it, is the one whose header was read."""
        try:
            return identity_of(os.stat(self.path)) == self.identity
        except OSError:
            return False

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
            Whether to compare each tensor with its digest.
        mapped:
            Whether to return views of a memory map, which lasts as long as the arrays, instead of copies.

        Returns
        -------
        dict
            Read-only arrays by number, 64-byte aligned; each has its own memory, unless mapped.

        Raises
        ------
        KeyError
            If a number isn't in the segment.
        Replaced
            If the file has been replaced: open it again.
        CorruptRecord, RootUnusable
            As in `open`.
        """
        # In the order of the file, so that neighbours can be read in one call.
        wanted = sorted(
            (self.entries[number] for number in (self.entries if numbers is None else set(numbers))),
            key=lambda entry: (entry.offset, entry.end),
        )
        with _opened(self.path) as handle:
            self._refuse_another(handle)
            if mapped:
                try:
                    memory = np.frombuffer(mmap.mmap(handle, self.file_bytes, prot=mmap.PROT_READ), np.uint8)
                except ValueError as error:
                    raise corrupt(self.path, "the file is cut", self.file_bytes) from error

            def take(group: list[PackEntry]) -> dict[int, Array]:
                memories = self._mapped(memory, group) if mapped else self._load(handle, group)
                return self._tensors(group, memories, check)

            if sum(entry.spec.nbytes for entry in wanted) < FEW_BYTES:
                return take(wanted)
            # Wait for all threads before closing the file, also if one of them fails.
            parts = [threads().submit(take, group) for group in groups(wanted, lambda entry: entry.spec.nbytes)]
            wait(parts)
            return {number: array for part in parts for number, array in part.result().items()}

    def range(self, number: int, start: int, stop: int) -> Memory:
        """Return bytes `start` to `stop` of one tensor, unchecked: the reader checks the digest after joining them.

        Raises
        ------
        KeyError, CorruptRecord, RootUnusable
            As in `read`.
        """
        entry = self.entries[number]
        memory = aligned_empty(stop - start)
        with _opened(self.path) as handle:
            self._refuse_another(handle)
            _read_exactly(self.path, handle, [memory], self.payload + entry.offset + start)
        return memory

    def check(self, numbers: Iterable[int]) -> None:
        """Compare tensors with their digests, a few at a time; raise the errors of `read`.

        The file is not mapped: a page that can't be read (a bad sector, a truncated file, a file server that is gone)
        has to raise an error here, and would kill the process in a map.
        """
        for few in groups(sorted(numbers), lambda number: self.entries[number].spec.nbytes):
            self.read(few)

    def verify(self) -> None:
        """Check every byte: digests of all tensors, and zeros between them; raise CorruptRecord as `read` does."""
        self.check(self.entries)
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

    def _refuse_another(self, handle: int) -> None:
        if identity_of(os.fstat(handle)) != self.identity:
            raise Replaced(
                f"{self.path} was replaced after its header had been read. Open it again", path=os.fspath(self.path)
            )

    def _tensors(self, group: list[PackEntry], memories: list[Memory], check: bool) -> dict[int, Array]:
        tensors = {}
        for entry, memory in zip(group, memories, strict=True):
            if check and xxhash.xxh3_128_hexdigest(memory.data) != entry.digest:
                raise corrupt(self.path, f"tensor {entry.number} isn't what was written", self.payload + entry.offset)
            memory.flags.writeable = False
            tensors[entry.number] = view(memory, entry.spec)
        return tensors

    def _mapped(self, memory: Memory, group: list[PackEntry]) -> list[Memory]:
        return [memory[self.payload + entry.offset : self.payload + entry.end] for entry in group]

    def _load(self, handle: int, wanted: list[PackEntry]) -> list[Memory]:
        memories = [aligned_empty(entry.spec.nbytes) for entry in wanted]
        run: list[Memory] = []
        start = end = 0
        for entry, memory in zip(wanted, memories, strict=True):
            # Adjacent tensors are read in one call, with the padding between them in a scratch buffer. Gaps of 4 KiB
            # and more, from tensors that are not wanted, are skipped.
            if not run or entry.offset - end >= 4096 or len(run) + 2 > BUFFERS:
                _read_exactly(self.path, handle, run, self.payload + start)
                run, start, end = [], entry.offset, entry.offset
            if entry.offset > end:
                run.append(np.empty(entry.offset - end, np.uint8))
            if memory.nbytes:
                run.append(memory)
            end = max(end, entry.end)
        _read_exactly(self.path, handle, run, self.payload + start)
        return memories


def identity_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    with usable(path.parent, "read a segment"):
        try:
            handle = open_inside(path)
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
    preamble = os.pread(handle, PREAMBLE.size, 0)
    if len(preamble) < PREAMBLE.size:
        raise corrupt(path, f"{size} bytes are too few for a segment", size)
    magic, version, reserved, length = PREAMBLE.unpack(preamble)
    if magic != MAGIC:
        raise corrupt(path, f"no segment file starts with {magic!r}", 0)
    if version > VERSION:
        raise later_version(path, version, VERSION, 8)
    if version != VERSION:
        raise corrupt(path, f"format version {version}; this daskevo reads {VERSION}", 8, "Use a daskevo that reads it")
    if length > min(MAX_HEADER_BYTES, size - PREAMBLE.size - TRAILER.size):
        raise corrupt(path, f"a header of {length} bytes in a file of {size}", 16)
    payload = round_up(PREAMBLE.size + length)
    front = os.pread(handle, payload, 0)
    trailer = os.pread(handle, TRAILER.size, max(0, size - TRAILER.size))
    if len(front) < payload or len(trailer) < TRAILER.size:
        raise corrupt(path, "the file is cut", size)
    file_bytes, crc, also_reserved, end = TRAILER.unpack(trailer)
    if end != END_MAGIC or file_bytes != size or reserved or also_reserved:
        raise corrupt(path, f"the file is cut or its trailer damaged ({size} bytes)", size - TRAILER.size)
    if zlib.crc32(trailer[:8], zlib.crc32(front)) != crc:
        raise corrupt(path, "the header isn't what was written (CRC-32 differs)", 0)
    header = parse_json(front[PREAMBLE.size : PREAMBLE.size + length], path, "the header", PREAMBLE.size)
    if not isinstance(header, dict) or not {"meta", "payload_bytes", "tensors"} <= header.keys():
        raise corrupt(path, "the header lacks meta, payload_bytes or tensors", PREAMBLE.size)
    payload_bytes = header["payload_bytes"]
    if type(payload_bytes) is not int or payload + payload_bytes + TRAILER.size != size:
        raise corrupt(path, f"a payload of {payload_bytes!r} bytes in a file of {size}", PREAMBLE.size)
    try:
        entries = parse_header(header["tensors"], payload_bytes)
    except CorruptRecord as error:
        raise corrupt(path, error.message, PREAMBLE.size) from error
    by_number = {entry.number: entry for entry in entries}
    return Segment(path, header["meta"], by_number, payload, payload_bytes, size, identity_of(status))


def _read_exactly(path: Path, handle: int, buffers: list[Memory], offset: int) -> None:
    # Leave out empty buffers: a read of no bytes would look like the end of the file.
    views = [view for buffer in buffers if (view := buffer.data).nbytes]
    while views:
        count = os.preadv(handle, views, offset)
        if count == 0:
            raise corrupt(path, "the file is cut", offset)
        offset += count
        while views and count >= views[0].nbytes:
            count -= views.pop(0).nbytes
        if views and count:
            views[0] = views[0][count:]


def is_mapped(array: Array) -> bool:
    """Whether an array's memory is a read-only map of a file, which the processor protects from writes."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, mmap.mmap) and memoryview(base).readonly
