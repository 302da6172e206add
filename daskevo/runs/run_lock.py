"""The lock that keeps two processes out of one run: the system frees it when the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from daskevo.errors import RunFolderUnusable

FILE = "run.lock"

_early: dict[Path, TextIO] = {}
"""Locks of this process that nobody carries a run on with yet."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run's lock: one process at a time goes on with a run. One that was :func:`locked_early` is taken over.

    Raises
    ------
    RunFolderUnusable
        If another process has it, or another record of this one; the message names it.
    """
    with _early.pop(folder.resolve(), None) or _lock(folder):
        yield


@contextlib.contextmanager
def locked_early(folder: Path) -> Iterator[None]:
    """Hold the run's lock for the one that will carry it on in this block, such as while its cluster is started.

    If nobody has, nothing is left of it: a lock file that wasn't there before is taken away again.

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
    """Return who has the run's lock, in its own words; None if nobody has."""
    try:
        with (folder / FILE).open(encoding="utf-8", errors="replace") as file:
            try:
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
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise RunFolderUnusable(f"{path} can't be opened: {error.strerror}", path=str(path)) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with file:
                process = _words(file)
            raise RunFolderUnusable(
                f"the run in {folder} is being carried on by {process}; wait for it, or use another folder",
                path=str(folder),
            ) from error
        if _is_at(file, path):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            return file
        file.close()  # who had it has taken the file away: it locks nobody out any more


def _is_at(file: TextIO, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False
