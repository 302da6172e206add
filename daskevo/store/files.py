"""File operations for all files of a root: typed errors, strict JSON, atomic replacement, exclusive creation."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from daskevo.errors import CorruptRecord, InvalidInput, LaterVersion, RootUnusable
from daskevo.types import JSON

T = TypeVar("T")
Durability = Literal["volatile", "written", "synced"]
"""What is promised with an answer: nothing; written to the file (survives the process); fsync of file and folder
(survives the host).

With a root, `volatile` behaves as `written`: writing a record does not wait for the disk, so there is nothing to save,
and if a process kept records back, its death would lose data that others rely on (docs/durability.md).
"""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk or quota, or of a file above the size limit."""

RESERVE = "reserve"
"""File of a shard that keeps some room, for what has to be written on a full disk."""

_SYNC_FILE_RANGE_WRITE = 2

# A folder on a file system without hard links (some FUSE and SMB mounts) answers link() with one of these.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def free_bytes(folder: str | os.PathLike[str]) -> int | None:
    """Return the bytes that this user may still write to the file system of `folder`; None if that is unknown."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


@contextlib.contextmanager
def usable(folder: str | os.PathLike[str], what: str, needed_bytes: int | None = None) -> Iterator[None]:
    """Convert every OSError of the block to a RootUnusable that names the folder, and the bytes needed and free.

    Parameters
    ----------
    folder:
        Folder in which the block reads or writes.
    what:
        Description of the block, to follow "can't": ``write a segment``.
    needed_bytes:
        Bytes that the block writes; None if it only reads.

    Raises
    ------
    RootUnusable
        With the facts folder, needed_bytes, free_bytes and errno.
    """
    try:
        yield
    except OSError as error:
        free = free_bytes(folder)
        room = "" if needed_bytes is None else f" ({needed_bytes} bytes needed, {_bytes(free)} free)"
        raise RootUnusable(
            f"can't {what} in {os.fspath(folder)}{room}: {error.strerror or error}. {_remedy(error, needed_bytes)}",
            folder=os.fspath(folder),
            needed_bytes=needed_bytes,
            free_bytes=free,
            errno=error.errno,
        ) from error


def with_reserve(act: Callable[[], T], shards: Path, first: str = "*") -> T:
    """Call `act`, which writes little; while the disk is full, remove one reserve of the shards after another.

    One may not be enough: others that write at the same time take what it freed, and a shard on a disk that was full
    before may have none.

    Parameters
    ----------
    shards:
        Folder of the shards' folders.
    first:
        Name of the folder of the shard whose own reserve goes first.
    """
    while True:
        try:
            return act()
        except (OSError, RootUnusable) as error:
            if error.errno not in FULL - {errno.EFBIG}:
                raise
            found = [*shards.glob(f"{first}/{RESERVE}"), *sorted(shards.glob(f"*/{RESERVE}"))]
            if not found:
                raise
        with usable(shards, "use the reserve of a shard", 0):
            remove(found[0])


def _bytes(free: int | None) -> str:
    return "unknown" if free is None else str(free)


def _remedy(error: OSError, needed_bytes: int | None) -> str:
    if error.errno in FULL:
        return "Make room there or retire models, then try again; what was stored before is kept"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "Choose a folder that this user may write to" if needed_bytes is not None else "Check its permissions"
    return "Check that the folder is there and mounted on this host"


def dump_json(value: JSON) -> bytes:
    """Return `value` as ASCII JSON without blanks or control characters.

    Raises
    ------
    InvalidInput
        If JSON can't represent it, NaN and infinities included.
    """
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a record must be a finite JSON value to be stored: {error}") from error


def parse_json(data: bytes, path: str | os.PathLike[str], place: str, offset: int = 0, *, remedy: str = "") -> JSON:
    """Parse JSON that `dump_json` wrote; raise CorruptRecord with file and place if it is not strict JSON."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"{place} isn't JSON: {type(error).__name__}: {error}", offset, remedy) from error


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is beyond a double")
    return value


def corrupt(path: str | os.PathLike[str], found: str, offset: int, remedy: str = "") -> CorruptRecord:
    """Return the error for a damaged file, with its path, the byte offset of the damage, and a description."""
    return CorruptRecord(
        f"{os.fspath(path)} is damaged at byte {offset}: {found}. "
        + (remedy or "Nothing of it was used; restore the file from a copy, or retire what it held"),
        path=os.fspath(path),
        offset=offset,
        found=found,
    )


def later_version(path: str | os.PathLike[str], version: int, known: int, offset: int = 0) -> LaterVersion:
    """Return the error for a file of a later format version."""
    return LaterVersion(
        f"{os.fspath(path)} was written by a later version of daskevo: it has format version {version}, this one reads "
        f"{known}. Use a daskevo that reads it; nothing of it was used or changed",
        path=os.fspath(path),
        offset=offset,
        version=version,
        known=known,
    )


def read_json(path: Path, place: str, known: int, limit_bytes: int = 1 << 20, *, remedy: str = "") -> JSON:
    """Read a small file of JSON; raise the errors of `read_small` and `parse_json`, LaterVersion above `known`."""
    value = parse_json(read_small(path, limit_bytes), path, place, remedy=remedy)
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is int and version > known:
        raise later_version(path, version, known)
    return value


def open_inside(path: str | os.PathLike[str]) -> int:
    """Open a file of a root for reading, without following links, which could lead out of a foreign root.

    Raises
    ------
    CorruptRecord
        If it is a link, a pipe or a device, which daskevo never creates.
    """
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer otherwise.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise linked(path) from error
        raise
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise corrupt(path, "it is no file but a pipe or a device", 0)


def refuse_links(*folders: Path) -> None:
    """Raise CorruptRecord if one of these folders of a root is a symbolic link; missing ones are ignored."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISLNK(os.lstat(folder).st_mode):
                raise linked(folder)


def linked(path: str | os.PathLike[str]) -> CorruptRecord:
    """Return the error for a link inside a root."""
    return corrupt(
        path,
        "it is a link, which daskevo neither makes nor follows inside a repository",
        0,
        "Put what it leads to in its place; the root itself may be a link",
    )


def read_small(path: Path, limit_bytes: int = 1 << 20) -> bytes:
    """Read a whole small file; raise CorruptRecord if it is larger than `limit_bytes`, or a link."""
    with open(open_inside(path), "rb") as file:
        # Not simply the limit: `read` allocates as much as it is asked for, however short the file is.
        data = file.read(min(limit_bytes, os.fstat(file.fileno()).st_size) + 1)
    if len(data) > limit_bytes:
        raise corrupt(path, f"more than {limit_bytes} bytes where a small record was expected", limit_bytes)
    return data


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync a folder, so that the names of its files survive a crash of the host."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path, *, sync: bool = False) -> None:
    """Create a folder and its parents if missing; with `sync`, their names survive a crash of the host."""
    os.makedirs(path, exist_ok=True)
    if not sync:
        return
    # Existing folders are synced, too: the process that created them may have died before it synced their names.
    device = os.stat(path).st_dev
    for folder in path.parents:
        if os.stat(folder).st_dev != device:
            return
        with contextlib.suppress(PermissionError):  # a folder of others, such as /home
            sync_folder(folder)


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write all bytes, in several calls if needed; Linux writes at most 2 GiB in one."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def begin_writeback(handle: int, offset: int, nbytes: int) -> None:
    """Start writing bytes of a file from the page cache to the disk, without waiting for it.

    This promises nothing. It only shortens a later fsync, which also reports errors. No effect on systems without
    ``sync_file_range``.
    """
    if (call := _sync_file_range()) is not None:
        call(handle, offset, nbytes, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    try:
        call = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


@contextlib.contextmanager
def _temporary(path: Path, sync: bool) -> Iterator[tuple[int, Path]]:
    """Create a temporary file beside `path`, recognisable by its suffix; it is removed only if the block raises."""
    name = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield handle, name
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        remove(name)
        raise


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[int]:
    """Open a new file for writing, which atomically replaces `path` at the end of the block; on errors it is removed.

    Readers see either the old or the new bytes, also if the writer dies at any time.
    """
    with _temporary(path, sync) as (handle, name):
        yield handle
    try:
        os.replace(name, path)
    except BaseException:
        remove(name)
        raise
    if sync:
        sync_folder(path.parent)  # the content is synced already; this makes the rename survive


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Replace the content of `path` as `replacing` does."""
    with replacing(path, sync=sync) as handle:
        write_all(handle, data)


def create_file(path: Path, data: bytes, *, sync: bool = False) -> bool:
    """Create `path` with its content if it does not exist; of several concurrent callers exactly one gets True.

    Readers never see a partial file if the file system has hard links; otherwise they may, for a moment.
    """
    with _temporary(path, sync) as (handle, name):
        write_all(handle, data)
    created = True
    try:
        # Unlike a rename, creating a link fails if the name exists: that decides between concurrent callers.
        os.link(name, path)
    except FileExistsError:
        created = False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        created = _create_in_place(path, data, sync)
    finally:
        remove(name)
    if sync:
        # Also if it existed: the process that created it may have died before it synced the name.
        sync_folder(path.parent)
    return created


def _create_in_place(path: Path, data: bytes, sync: bool) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    try:
        write_all(handle, data)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)
    return True


def remove(path: Path) -> None:
    """Remove a file; a missing one is no error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
