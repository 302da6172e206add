"""Read journals: leave out a torn tail, left by a writer that died while writing, and raise an error for damage."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from daskevo.protocol.limits import MAX_HEAD_RECORD_BYTES
from daskevo.store.files import corrupt, later_version, open_inside, parse_json
from daskevo.store.journal import (
    EVENT,
    FILE_HEADER,
    HEAD,
    HEAD_END,
    MAGIC,
    MARKER,
    RECORD_HEADER,
    VERSION,
    journal_path,
)
from daskevo.types import JSON

_SECTOR = 512
"""Bytes that a disk writes atomically: after a crash, each sector of a write is there as a whole, or not at all."""


@dataclass(frozen=True)
class JournalContent:
    """Content of a journal.

    Attributes
    ----------
    number, generation, base:
        The journal's number, the generation of its owner's coordinator, and the number of the journal from which its
        head was made (0: none). All are 0 if the writer died before it had written them.
    complete:
        Whether the head is complete. If not, no shard was ever served from this journal.
    records:
        Records of the head and later ones, oldest first.
    torn_bytes:
        Length of the torn tail that was left out, in bytes.
    """

    number: int
    generation: int
    base: int
    complete: bool
    records: tuple[JSON, ...]
    torn_bytes: int


def read_journal(folder: Path, shard: int, number: int, turn: threading.Lock | None = None) -> JournalContent:
    """Read a journal.

    Parameters
    ----------
    turn:
        Lock that is held while records are parsed, but not while waiting for the disk.

    Raises
    ------
    CorruptRecord
        If completely written bytes have changed, or the file belongs to another shard or a later version.
    FileNotFoundError
        If the journal doesn't exist (any more).
    """
    path = journal_path(folder, number)
    with open(open_inside(path), "rb", buffering=0) as opened, contextlib.ExitStack() as stack:
        size = os.fstat(opened.fileno()).st_size
        file = io.BufferedReader(opened if turn is None else _OutOfTurn(opened, turn), 1 << 20)
        if turn is not None:
            stack.enter_context(turn)
        front = file.read(FILE_HEADER.size)
        if len(front) < FILE_HEADER.size or not any(front):
            if any(front) and not MAGIC.startswith(front[: len(MAGIC)]):
                raise corrupt(path, f"no journal starts with {front[: len(MAGIC)]!r}", 0)
            return JournalContent(0, 0, 0, False, (), size)
        magic, version, its_shard, its_number, generation, base, crc = FILE_HEADER.unpack(front)
        if magic != MAGIC:
            raise corrupt(path, f"no journal starts with {magic!r}", 0)
        if version > VERSION:
            raise later_version(path, version, VERSION, 8)
        if version != VERSION:
            raise corrupt(path, f"format version {version}; this daskevo reads {VERSION}", 8, "Use one that reads it")
        if zlib.crc32(front[:-4]) != crc:
            raise corrupt(path, "the file's first bytes aren't what was written (CRC-32 differs)", 0)
        if (its_shard, its_number) != (shard, number):
            raise corrupt(path, f"this is journal {its_number} of shard {its_shard}", 12)
        reader = _Reader(path, file, size, crc)
        records, complete = reader.records()
        return JournalContent(number, generation, base, complete, records, size - reader.offset)


class _OutOfTurn(io.RawIOBase):
    """A file that releases a lock of its reader while it waits for the disk."""

    def __init__(self, file: io.FileIO, turn: threading.Lock) -> None:
        self._file = file
        self._turn = turn

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._turn.release()
        try:
            return self._file.readinto(buffer)
        finally:
            self._turn.acquire()


class _Reader:
    """Reads the records of one journal, up to its end or torn tail; `offset` is the place of the next record."""

    def __init__(self, path: Path, file: BinaryIO, size: int, seed: int) -> None:
        self.path = path
        self.file = file
        self.size = size
        self.seed = seed
        self.offset = FILE_HEADER.size
        self.sequence = 0

    def records(self) -> tuple[tuple[JSON, ...], bool]:
        records: list[JSON] = []
        complete = False
        while (found := self._next()) is not None:
            kind, payload = found
            record = parse_json(payload, self.path, "a record", self.offset + RECORD_HEADER.size)
            if complete != (kind == EVENT) or kind not in (HEAD, HEAD_END, EVENT):
                raise corrupt(self.path, f"a record of kind {kind!r} out of place", self.offset)
            if kind == HEAD_END:
                if record != {"records": len(records)}:
                    raise corrupt(
                        self.path, f"the head's end says {record}, its records are {len(records)}", self.offset
                    )
                complete = True
            else:
                records.append(record)
            self.offset += RECORD_HEADER.size + len(payload)
            self.sequence += 1
        return tuple(records), complete

    def _next(self) -> tuple[bytes, bytes] | None:
        header = self.file.read(RECORD_HEADER.size)
        if not header:
            return None
        if len(header) < RECORD_HEADER.size:
            if any(header) and not MARKER.startswith(header[: len(MARKER)]):
                raise corrupt(self.path, "these bytes start no record", self.offset)
            self._refuse_if_flushed(header)
            return None
        if (parsed := _parse(header, self.seed)) is None:
            tail = header + self.file.read(_SECTOR)
            if not _hole_in_header(tail, self.offset):
                raise corrupt(self.path, "a record's header isn't what was written (CRC-32 differs)", self.offset)
            self._refuse_if_flushed(tail)
            return None
        kind, length, sequence, _, crc = parsed
        if sequence != self.sequence:
            raise corrupt(self.path, f"record {sequence} where record {self.sequence} belongs", self.offset)
        # Bytes appended since the size was taken belong to a running writer, and are left out.
        payload = self.file.read(min(length, max(self.size - self.offset, 0)))
        if len(payload) == length:
            if zlib.crc32(payload, self.seed) == crc:
                return kind, payload
            if not _hole_in_payload(payload, self.offset + RECORD_HEADER.size):
                raise corrupt(self.path, f"record {sequence} isn't what was written (CRC-32 differs)", self.offset)
        self._refuse_if_flushed(header + payload)
        return None

    def _refuse_if_flushed(self, start: bytes) -> None:
        """Raise CorruptRecord if a later record shows that the record at `start` had been flushed.

        Each record has the number of records that were flushed before it was written. So a record that is broken
        although later ones count it as flushed is damage, not a torn tail.
        """
        tail = start + self.file.read()
        place = tail.find(MARKER, 1)
        while place >= 0:
            parsed = _parse(tail[place : place + RECORD_HEADER.size], self.seed)
            if parsed is not None and parsed[3] > self.sequence:
                raise corrupt(
                    self.path,
                    f"record {self.sequence} is gone, though record {parsed[2]}, at byte {self.offset + place}, "
                    "was written after it had been flushed",
                    self.offset,
                )
            place = tail.find(MARKER, place + 1)


def _hole_in_header(data: bytes, offset: int) -> bool:
    """Whether `data`, a header at `offset` and the bytes after it, has zeros for a sector that was never written.

    Headers have zeros of their own. A hole covers the first byte, which is never zero, or the last byte and all bytes
    after it up to the end of a sector.
    """
    size = RECORD_HEADER.size
    ahead = -offset % _SECTOR or _SECTOR
    after = -(offset + size) % _SECTOR
    return not any(data[: min(ahead, size)]) or not any(data[size - 1 : size + after])


def _hole_in_payload(payload: bytes, offset: int) -> bool:
    """Whether a payload at `offset` has a zero at the end of a sector, or at its own end.

    This is true of a hole. Payloads have no zeros, and a single damaged byte is rarely the last of a sector.
    """
    first = -offset % _SECTOR or _SECTOR
    return 0 in payload[first - 1 :: _SECTOR] or payload[-1:] == b"\0"


def _parse(header: bytes, seed: int) -> tuple[bytes, int, int, int, int] | None:
    """Return kind, length, sequence, flushed, payload CRC of a record's header; None if it is not a valid header."""
    if len(header) < RECORD_HEADER.size:
        return None
    marker, kind, length, sequence, flushed, crc, header_crc = RECORD_HEADER.unpack(header)
    if marker != MARKER or length > MAX_HEAD_RECORD_BYTES or zlib.crc32(header[:-4], seed) != header_crc:
        return None
    return kind, length, sequence, flushed, crc
