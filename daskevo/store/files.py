"""What all files of a root have in common: named errors, strict JSON, atomic replacement, exclusive creation."""

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
"""What an answer promises: nothing; in the file (survives any process); fsync of file and folder (survives a host).

With a root, `volatile` is written as `written` is: a record is one write that waits for no disk, so that there is no
wait to leave out, and records kept back would let a process that dies take what others rely on (docs/durability.md).
"""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of a system that has no room for what was written."""

_SYNC_FILE_RANGE_WRITE = 2

# A folder on a file system without hard links (some FUSE and SMB mounts) answers link() with one of these.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def free_bytes(folder: str | os.PathLike[str]) -> int | None:
    """Return the bytes that a user may still write to the file system of `folder`; None if it can't be asked."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


@contextlib.contextmanager
def usable(folder: str | os.PathLike[str], what: str, needed_bytes: int | None = None) -> Iterator[None]:
    """Turn every OSError of the block into a RootUnusable that names the folder, the bytes needed and free.

    Parameters
    ----------
    folder:
        Where the block reads or writes.
    what:
        What the block does, as it goes on after "can't": ``write a segment``.
    needed_bytes:
        Bytes that the block wants to write, if it does.

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


def with_reserve(act: Callable[[], T], give_up: Callable[[], None]) -> T:
    """Do what takes little room; on a full disk once more, after `give_up` has removed what is kept back for that."""
    try:
        return act()
    except (OSError, RootUnusable) as error:
        if error.errno not in FULL:
            raise
    give_up()
    return act()


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
        If it holds anything that JSON can't carry, NaN and infinities included.
    """
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a record must be a finite JSON value to be stored: {error}") from error


def parse_json(data: bytes, path: str | os.PathLike[str], place: str, offset: int = 0, *, remedy: str = "") -> JSON:
    """Read what `dump_json` wrote; raises CorruptRecord, naming file and place, on anything that isn't strict JSON."""
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
    """Return the error for a damaged file, naming the file, the place (byte offset) and what was found there."""
    return CorruptRecord(
        f"{os.fspath(path)} is damaged at byte {offset}: {found}. "
        + (remedy or "Nothing of it was used; restore the file from a copy, or retire what it held"),
        path=os.fspath(path),
        offset=offset,
        found=found,
    )


def later_version(path: str | os.PathLike[str], version: int, known: int, offset: int = 0) -> LaterVersion:
    """Return the error for a file of a version that this daskevo doesn't know yet."""
    return LaterVersion(
        f"{os.fspath(path)} was written by a later version of daskevo: it has format version {version}, this one reads "
        f"{known}. Use a daskevo that reads it; nothing of it was used or changed",
        path=os.fspath(path),
        offset=offset,
        version=version,
        known=known,
    )


def refuse_later(value: JSON, path: str | os.PathLike[str], known: int) -> None:
    """Raise LaterVersion if a small file's JSON says a format version above `known`."""
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is int and version > known:
        raise later_version(path, version, known)


def open_inside(path: str | os.PathLike[str]) -> int:
    """Open a file of a root for reading; who copied a stranger's root is led nowhere else by it.

    Raises
    ------
    CorruptRecord
        If it is a link, a pipe or a device: daskevo makes none.
    """
    try:
        # A pipe would be waited for otherwise, until somebody writes to it.
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
    """Make sure that folders of a root, where they are, are folders and lead nowhere else; raises CorruptRecord."""
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
    """Read a whole small file; raises CorruptRecord if it is larger than anything daskevo writes there, or a link."""
    with open(open_inside(path), "rb") as file:
        # Not the limit: so much memory would be taken, however short the file is.
        data = file.read(min(limit_bytes, os.fstat(file.fileno()).st_size) + 1)
    if len(data) > limit_bytes:
        raise corrupt(path, f"more than {limit_bytes} bytes where a small record was expected", limit_bytes)
    return data


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder survive the host."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path, *, sync: bool = False) -> None:
    """Make a folder with its parents, if it isn't there; with `sync` its name and theirs survive the host."""
    os.makedirs(path, exist_ok=True)
    if not sync:
        return
    # Also those that were there: who made them may have died before their names were synced.
    device = os.stat(path).st_dev
    for folder in path.parents:
        if os.stat(folder).st_dev != device:
            return
        with contextlib.suppress(PermissionError):  # a folder of others, such as /home
            sync_folder(folder)


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write all bytes, however many calls it takes (Linux writes at most 2 GiB in one)."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def begin_writeback(handle: int, offset: int, nbytes: int) -> None:
    """Let the disk begin with bytes that were written to a file, without waiting for it.

    Promises nothing: only fsync does, which has less to wait for then, and names what went wrong. Does nothing where
    the system has no such call.
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
    """Open a new file beside `path`, known by its ending to readers of the folder; it stays unless the block fails."""
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
    """Open a new file to write to, which replaces `path` in one step when the block ends; on an error nothing is left.

    A reader sees the old bytes or the new ones, whenever the writer dies.
    """
    with _temporary(path, sync) as (handle, name):
        yield handle
    try:
        os.replace(name, path)
    except BaseException:
        remove(name)
        raise
    if sync:
        sync_folder(path.parent)


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Replace the content of `path` as `replacing` does."""
    with replacing(path, sync=sync) as handle:
        write_all(handle, data)


def create_file(path: Path, data: bytes, *, sync: bool = False) -> bool:
    """Create `path` whole, if it isn't there: of several callers at once exactly one gets True.

    A reader never sees it half written where the file system has hard links; elsewhere it may, for a moment.
    """
    with _temporary(path, sync) as (handle, name):
        write_all(handle, data)
    created = True
    try:
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
        # Also if it was there: who made it may have died before its name was synced.
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
    """Remove a file; one that has gone already is as good."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
