"""Journals: append-only files of JSON records with a checksum each (format: docs/formats.md).

A journal starts with a head, the records that recreate a state, and goes on with what happened after. Reading tells a
torn tail (the writer died in the middle of its last write: cut off) from damage (what had been written whole is
different now: an error).
"""

from __future__ import annotations

import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from daskevo.errors import InvalidInput, RootUnusable
from daskevo.store.files import corrupt, dump_json, parse_json, sync_folder, usable, write_all
from daskevo.types import JSON

MAGIC = b"\x89EVJNL\r\n"
VERSION = 1
MAX_RECORD_BYTES = 64 << 20
_FILE = struct.Struct("<8sIIQQQI")  # magic, version, shard, number, generation, base, CRC-32 of the fields before
# A payload is ASCII without control characters: neither the marker's first byte nor a zero can occur in one.
_MARKER = b"\x9eEV"
_RECORD = struct.Struct("<3scIQQII")  # marker, kind, length, sequence, flushed, CRC of the payload, CRC of the header
_HEAD, _HEAD_END, _EVENT = b"h", b"e", b"r"
_BATCH_BYTES = 8 << 20
# What a disk writes whole.
_SECTOR = 512


@dataclass(frozen=True)
class JournalContent:
    """What a journal holds.

    Attributes
    ----------
    number, generation, base:
        The journal's number, the coordinator's generation that its owner belonged to, and the number of the journal
        that its head was made from (0: none). All 0 if the writer died before it had written them.
    complete:
        Whether the head was written to its end. If not, nobody has ever served from this journal.
    records:
        Head and what came after, oldest first.
    torn_bytes:
        Length of the torn tail that was left out.
    """

    number: int
    generation: int
    base: int
    complete: bool
    records: tuple[JSON, ...]
    torn_bytes: int


class Journal:
    """A journal to append to. It belongs to who created it; nobody ever appends to a journal that was there before.

    Thread-safe. Flushes are grouped: those who wait for a flush while one runs share the next.

    Parameters
    ----------
    folder, shard, number, generation:
        Where, and the facts that the file starts with.
    sync:
        Whether a flush is an fsync. If not, a record is flushed as soon as it is written.

    Raises
    ------
    FileExistsError
        If there is a journal of that number already.
    """

    def __init__(self, folder: Path, shard: int, number: int, generation: int, *, sync: bool) -> None:
        self.path = journal_path(folder, number)
        self._facts = (shard, number, generation)
        self._sync = sync
        self._seed = 0
        self._written = 0
        self._flushed = 0
        self._size = 0
        self._broken: OSError | None = None
        self._append_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._handle = os.open(self.path, flags, 0o666)
        if sync:
            sync_folder(folder)

    @property
    def broken(self) -> bool:
        """Whether a failed fsync or cut has left the file in a state that nobody knows."""
        return self._broken is not None

    def write_head(self, records: Iterable[JSON], *, base: int) -> None:
        """Write the state that this journal starts from, and flush it.

        Parameters
        ----------
        records:
            What recreates the state.
        base:
            Number of the journal that the state was read from, 0 if there was none.
        """
        front = _FILE.pack(MAGIC, VERSION, *self._facts, base, 0)[:-4]
        self._seed = zlib.crc32(front)
        front += self._seed.to_bytes(4, "little")
        with self._append_lock:
            self._write([front], 0)
            batch: list[bytes] = []
            count = nbytes = 0
            for record in records:
                batch.append(self._encode(_HEAD, record, len(batch)))
                count += 1
                nbytes += len(batch[-1])
                if nbytes >= _BATCH_BYTES:
                    self._write(batch, len(batch))
                    batch, nbytes = [], 0
            batch.append(self._encode(_HEAD_END, {"records": count}, len(batch)))
            self._write(batch, len(batch))
        self.flush()

    def append(self, records: Iterable[JSON]) -> int:
        """Write records at the end, all or none; return the count of records so far, for `flush`.

        Raises
        ------
        RootUnusable
            If the disk is full: the journal is as before.
        InvalidInput
            If a record isn't JSON, or is larger than 64 MiB.
        """
        with self._append_lock:
            batch: list[bytes] = []
            for record in records:
                batch.append(self._encode(_EVENT, record, len(batch)))
            if batch:
                self._write(batch, len(batch))
            return self._written

    def flush(self, upto: int | None = None) -> None:
        """Return when the first `upto` records (default: all that are written) survive what the setting promises."""
        if not self._sync:
            return
        upto = self._written if upto is None else upto
        with self._flush_lock:
            if self._flushed >= upto:
                return
            written = self._written
            with usable(self.path.parent, "flush a journal", 0):
                self._refuse_if_broken()
                try:
                    os.fsync(self._handle)
                except OSError as error:
                    # After a failed fsync nobody knows which pages are on disk; only reopening the shard tells.
                    self._broken = error
                    raise
            self._flushed = written

    def close(self) -> None:
        """Close the file; nothing is flushed."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        # A shard that was fenced, or whose opening failed, is dropped rather than closed.
        if hasattr(self, "_handle"):
            self.close()

    def _encode(self, kind: bytes, record: JSON, ahead: int) -> bytes:
        payload = dump_json(record)
        if len(payload) > MAX_RECORD_BYTES:
            raise InvalidInput(f"a record of {len(payload)} bytes is above the limit of {MAX_RECORD_BYTES}")
        flushed = self._flushed if self._sync else self._written
        crc = zlib.crc32(payload, self._seed)
        header = _RECORD.pack(_MARKER, kind, len(payload), self._written + ahead, flushed, crc, 0)[:-4]
        return header + zlib.crc32(header, self._seed).to_bytes(4, "little") + payload

    def _write(self, batch: list[bytes], records: int) -> None:
        data = b"".join(batch)
        with usable(self.path.parent, "append to a journal", len(data)):
            self._refuse_if_broken()
            try:
                write_all(self._handle, data)
            except OSError:
                self._cut()
                raise
        self._size += len(data)
        self._written += records

    def _cut(self) -> None:
        # What a failed write left must go, or later records would follow damage.
        try:
            os.ftruncate(self._handle, self._size)
        except OSError as error:
            self._broken = error

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise RootUnusable(
                f"{self.path} can't be written any more: {self._broken}. Open the shard again",
                folder=str(self.path.parent),
                needed_bytes=None,
                free_bytes=None,
                errno=self._broken.errno,
            )


def journal_path(folder: Path, number: int) -> Path:
    """Return the file of a shard's journal."""
    return folder / f"journal.{number}"


def journal_numbers(folder: Path) -> list[int]:
    """Return the numbers of the journals in a shard's folder, highest first."""
    found = (re.fullmatch(r"journal\.(0|[1-9]\d{0,18})", name, re.ASCII) for name in os.listdir(folder))
    return sorted((int(match[1]) for match in found if match), reverse=True)


def read_journal(folder: Path, shard: int, number: int) -> JournalContent:
    """Read a journal.

    Raises
    ------
    CorruptRecord
        If what had been written whole is different now, or the file is of another shard or a later version.
    FileNotFoundError
        If it isn't there (any more).
    """
    path = journal_path(folder, number)
    with open(path, "rb", buffering=1 << 20) as file:
        size = os.fstat(file.fileno()).st_size
        front = file.read(_FILE.size)
        if len(front) < _FILE.size or not any(front):
            if any(front) and not MAGIC.startswith(front[: len(MAGIC)]):
                raise corrupt(path, f"no journal starts with {front[: len(MAGIC)]!r}", 0)
            return JournalContent(0, 0, 0, False, (), size)
        magic, version, its_shard, its_number, generation, base, crc = _FILE.unpack(front)
        if magic != MAGIC:
            raise corrupt(path, f"no journal starts with {magic!r}", 0)
        if version != VERSION:
            raise corrupt(path, f"format version {version}; this daskevo reads {VERSION}", 8, "Use one that reads it")
        if zlib.crc32(front[:-4]) != crc:
            raise corrupt(path, "the file's first bytes aren't what was written (CRC-32 differs)", 0)
        if (its_shard, its_number) != (shard, number):
            raise corrupt(path, f"this is journal {its_number} of shard {its_shard}", 12)
        reader = _Reader(path, file, size, crc)
        records, complete = reader.records()
        return JournalContent(number, generation, base, complete, records, size - reader.offset)


class _Reader:
    """Reads the records of one journal, up to its end or torn tail; `offset` is where the next one would start."""

    def __init__(self, path: Path, file: BinaryIO, size: int, seed: int) -> None:
        self.path = path
        self.file = file
        self.size = size
        self.seed = seed
        self.offset = _FILE.size
        self.sequence = 0

    def records(self) -> tuple[tuple[JSON, ...], bool]:
        records: list[JSON] = []
        complete = False
        while (found := self._next()) is not None:
            kind, payload = found
            record = parse_json(payload, self.path, "a record", self.offset + _RECORD.size)
            if complete != (kind == _EVENT) or kind not in (_HEAD, _HEAD_END, _EVENT):
                raise corrupt(self.path, f"a record of kind {kind!r} out of place", self.offset)
            if kind == _HEAD_END:
                if record != {"records": len(records)}:
                    raise corrupt(
                        self.path, f"the head's end says {record}, its records are {len(records)}", self.offset
                    )
                complete = True
            else:
                records.append(record)
            self.offset += _RECORD.size + len(payload)
            self.sequence += 1
        return tuple(records), complete

    def _next(self) -> tuple[bytes, bytes] | None:
        header = self.file.read(_RECORD.size)
        if not header:
            return None
        if len(header) < _RECORD.size:
            if any(header) and not _MARKER.startswith(header[: len(_MARKER)]):
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
        payload = self.file.read(min(length, self.size - self.offset))
        if len(payload) == length:
            if zlib.crc32(payload, self.seed) == crc:
                return kind, payload
            if not _hole_in_payload(payload, self.offset + _RECORD.size):
                raise corrupt(self.path, f"record {sequence} isn't what was written (CRC-32 differs)", self.offset)
        self._refuse_if_flushed(header + payload)
        return None

    def _refuse_if_flushed(self, start: bytes) -> None:
        """Make sure that nothing after `start`, the torn record, says that it had once been flushed."""
        tail = start + self.file.read()
        place = tail.find(_MARKER, 1)
        while place >= 0:
            parsed = _parse(tail[place : place + _RECORD.size], self.seed)
            if parsed is not None and parsed[3] > self.sequence:
                raise corrupt(
                    self.path,
                    f"record {self.sequence} is gone, though record {parsed[2]}, at byte {self.offset + place}, "
                    "was written after it had been flushed",
                    self.offset,
                )
            place = tail.find(_MARKER, place + 1)


def _hole_in_header(data: bytes, offset: int) -> bool:
    """Return whether `data`, a header at `offset` and what follows, has zeros for a sector that never was written.

    Headers have zeros of their own: a hole reaches over the first byte, which is never zero, or over the last and all
    that follows up to a sector's end.
    """
    ahead = -offset % _SECTOR or _SECTOR
    after = -(offset + _RECORD.size) % _SECTOR
    return not any(data[: min(ahead, _RECORD.size)]) or not any(data[_RECORD.size - 1 : _RECORD.size + after])


def _hole_in_payload(payload: bytes, offset: int) -> bool:
    """Return whether a payload at `offset` has a zero at the end of a sector, or at its own end.

    A hole has. Payloads have no zeros, and one damaged byte is rarely the last of a sector.
    """
    first = -offset % _SECTOR or _SECTOR
    return 0 in payload[first - 1 :: _SECTOR] or payload[-1:] == b"\0"


def _parse(header: bytes, seed: int) -> tuple[bytes, int, int, int, int] | None:
    """Return kind, length, sequence, flushed, payload CRC of a record's header; None if it is none."""
    if len(header) < _RECORD.size:
        return None
    marker, kind, length, sequence, flushed, crc, header_crc = _RECORD.unpack(header)
    if marker != _MARKER or length > MAX_RECORD_BYTES or zlib.crc32(header[:-4], seed) != header_crc:
        return None
    return kind, length, sequence, flushed, crc
