"""A file lock that lets one process at a time run a run; the system frees it when the process ends.

Own code, not filelock: that one empties the file before it has the lock, and with it the name of who holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from daskevo.errors import RunFolderUnusable
from daskevo.runs.full_disk import needs_room

FILE = "run.lock"

_early: dict[Path, TextIO] = {}
"""Locks that this process took early and no record has taken over yet."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run's lock in this block, taking over one from :func:`locked_early`.

    Raises
    ------
    RunFolderUnusable
        If another process holds it, or another record of this process; the message names the holder.
    """
    # Leaving closes the file, and with it frees the lock.
    with _early.pop(folder.resolve(), None) or _lock(folder):
        yield


@contextlib.contextmanager
def locked_early(folder: Path) -> Iterator[None]:
    """Hold the run's lock before its record is opened, for example while a cluster is started for it.

    If no record takes the lock over, a lock file that did not exist before is removed.

    Raises
    ------
    RunFolderUnusable
        As `locked`.
    """
    path, was_there = folder.resolve(), (folder / FILE).exists()
    file = _early[path] = _lock(folder)
    try:
        yield
    finally:
        if _early.get(path) is file:
            del _early[path]
            with file:
                if not was_there:
                    (folder / FILE).unlink(missing_ok=True)


def holder(folder: Path) -> str | None:
    """Return the lock's holder as written in its file; None if it is free."""
    try:
        with (folder / FILE).open(encoding="utf-8", errors="replace") as file:
            try:
                # A shared lock: two readers that ask at once must not take each other for the run's process.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _words(file)
    except OSError:
        pass
    return None


def _words(file: TextIO) -> str:
    file.seek(0)
    return file.read(200).strip() or "another process"


def _lock(folder: Path) -> TextIO:
    path = folder / FILE
    while True:
        try:
            with needs_room(folder):
                # Not "w", which would empty the file, with the name of its holder, before the lock is had.
                file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise RunFolderUnusable(f"{path} can't be opened: {error.strerror}", path=str(path)) from error
        try:
            # Not `lockf`: its lock would let a second record of this process in, and end when either closes the file.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with file:
                process = _words(file)
            raise RunFolderUnusable(
                f"the run in {folder} is being carried on by {process}; wait for it, or use another folder",
                path=str(folder),
            ) from error
        if _is_at(file, path):
            try:
                with needs_room(folder):
                    file.truncate(0)
                    # Past the buffer: what a full disk has refused would be written again when the file is closed.
                    os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
            except BaseException:
                file.close()
                raise
            return file
        file.close()  # the last holder deleted this file between our open and lock, so it locks nobody out: try again


def _is_at(file: TextIO, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False
