"""Write journals: append-only files of JSON records with a checksum each (format: docs/formats.md).

A journal starts with a head, whose records recreate a state, followed by the records of later changes.
:mod:`daskevo.store.journal_reader` reads it.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path

from daskevo.errors import InvalidInput, RootUnusable
from daskevo.protocol.limits import MAX_HEAD_RECORD_BYTES, MAX_RECORD_BYTES
from daskevo.store.files import dump_json, sync_folder, usable, write_all
from daskevo.types import JSON

MAGIC = b"\x89EVJNL\r\n"
VERSION = 1
FILE_HEADER = struct.Struct("<8sIIQQQI")  # magic, version, shard, number, generation, base, CRC-32 of the fields before
# A payload is ASCII without control characters: neither the marker's first byte nor a zero can occur in one.
MARKER = b"\x9eEV"
RECORD_HEADER = struct.Struct(
    "<3scIQQII"
)  # marker, kind, length, sequence, flushed, CRC of the payload, CRC of the header
HEAD, HEAD_END, EVENT = b"h", b"e", b"r"
_BATCH_BYTES = 8 << 20


class Journal:
    """A new journal to append to. Only its creator appends to it; an existing journal is never continued.

    Thread-safe. Flushes are grouped: callers that wait while a flush runs share the next one.

    Parameters
    ----------
    folder, shard, number, generation:
        The shard's folder, and the values in the file's header.
    sync:
        Whether a flush is an fsync. If not, a record counts as flushed as soon as it is written.

    Raises
    ------
    FileExistsError
        If a journal with that number exists.
    """

    def __init__(self, folder: Path, shard: int, number: int, generation: int, *, sync: bool) -> None:
        self.path = journal_path(folder, number)
        self._facts = (shard, number, generation)
        self._sync = sync
        self._seed = 0
        self._written = 0
        self._flushed = 0
        self._size = 0
        self.head_bytes = 0
        self._broken: OSError | None = None
        self._append_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        # O_EXCL: of two owners that want the same number, one gets it.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._handle = os.open(self.path, flags, 0o666)
        if sync:
            sync_folder(folder)

    @property
    def nbytes(self) -> int:
        """Size of the file so far, in bytes, including `head_bytes` of its head."""
        return self._size

    @property
    def broken(self) -> bool:
        """Whether a failed fsync or truncation has left the file in an unknown state."""
        return self._broken is not None

    def write_head(self, records: Iterable[JSON], *, base: int) -> None:
        """Write and flush the head; may be called again if it failed on a full disk.

        Parameters
        ----------
        records:
            Records that recreate the state.
        base:
            Number of the journal from which the state was read, 0 if there was none.
        """
        front = FILE_HEADER.pack(MAGIC, VERSION, *self._facts, base, 0)[:-4]
        # The checksum of the file's header is the seed of all others: a record copied from another journal fails.
        self._seed = zlib.crc32(front)
        front += self._seed.to_bytes(4, "little")
        with self._append_lock:
            self._size = self._written = 0
            self._cut()
            self._write([front], 0)
            batch: list[bytes] = []
            count = nbytes = 0
            for record in records:
                batch.append(self._encode(HEAD, record, len(batch)))
                count += 1
                nbytes += len(batch[-1])
                if nbytes >= _BATCH_BYTES:
                    self._write(batch, len(batch))
                    batch, nbytes = [], 0
            batch.append(self._encode(HEAD_END, {"records": count}, len(batch)))
            self._write(batch, len(batch))
            self.head_bytes = self._size
        self.flush()

    def append(self, records: Iterable[JSON]) -> int:
        """Append records, all or none; return the number of records so far, for `flush`.

        Raises
        ------
        RootUnusable
            If the disk is full: the journal is unchanged.
        InvalidInput
            If a record isn't JSON, or is larger than 64 MiB.
        """
        with self._append_lock:
            # All are encoded before anything is written, so that an invalid record leaves the journal unchanged.
            batch = [self._encode(EVENT, record, ahead) for ahead, record in enumerate(records)]
            if batch:
                self._write(batch, len(batch))
            return self._written

    def flush(self, upto: int | None = None) -> None:
        """Wait until the first `upto` records (default: all written ones) have the promised durability."""
        if not self._sync:
            return
        upto = self._written if upto is None else upto
        with self._flush_lock:
            if self._flushed >= upto:
                return  # the flush that this call waited for has included them
            # Read before the fsync: records written during it may not be on disk.
            written = self._written
            with usable(self.path.parent, "flush a journal", 0):
                self._refuse_if_broken()
                try:
                    os.fsync(self._handle)
                except OSError as error:
                    # After a failed fsync it is unknown which pages are on disk; reading the journal again tells.
                    self._broken = error
                    raise
            self._flushed = written

    def close(self) -> None:
        """Close the file after running writes and flushes; nothing is flushed."""
        # With both locks: the number of a closed file descriptor may be reused while a thread still writes to it.
        with self._append_lock, self._flush_lock:
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1

    def __del__(self) -> None:
        # Shards that were fenced, or failed to open, are dropped without being closed.
        if hasattr(self, "_handle"):
            self.close()

    def _encode(self, kind: bytes, record: JSON, ahead: int) -> bytes:
        payload = dump_json(record)
        limit = MAX_RECORD_BYTES if kind == EVENT else MAX_HEAD_RECORD_BYTES
        if len(payload) > limit:
            raise InvalidInput(f"a record of {len(payload)} bytes is above the limit of {limit}")
        flushed = self._flushed if self._sync else self._written
        crc = zlib.crc32(payload, self._seed)
        header = RECORD_HEADER.pack(MARKER, kind, len(payload), self._written + ahead, flushed, crc, 0)[:-4]
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
        # Remove the bytes of a failed write: readers would take a record after them for damage.
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
