"""Recognise a full disk under a run: SQLite reports it by several errors, none of which means a damaged record."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from daskevo.errors import RunFolderUnusable
from daskevo.store.files import FULL, free_bytes

_PROBE_BYTES = 1 << 16

# SQLite reports an exhausted quota, and a journal that can't be created or synced, like any other I/O failure.
_MAY_MEAN_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


@contextlib.contextmanager
def needs_room(folder: Path) -> Iterator[None]:
    """Replace the error of a failed write in this block if the folder's disk is full; pass on any other error.

    Raises
    ------
    RunFolderUnusable
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not _is_for_want_of_room(error, folder):
            raise
        free = free_bytes(folder)
        room = "" if free is None else f", {free} bytes are free"
        raise RunFolderUnusable(
            f"{folder} can't be written to: the disk is full ({_words(error)}{room}); free some space on the "
            f"disk of {folder}, and give the same command again; nothing recorded before is lost",
            path=str(folder),
        ) from error


def _is_for_want_of_room(error: OSError | sqlite3.Error, folder: Path) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says in which call it was
    return code == sqlite3.SQLITE_FULL or (code in _MAY_MEAN_FULL and _has_no_room(folder))


def _has_no_room(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno in FULL
    return False


def _words(error: OSError | sqlite3.Error) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
