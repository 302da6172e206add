"""What the crash of a host may leave on its disk: a recorder of what this process asks of it, and images made of that.

A strict reading of POSIX: bytes count for sure if their file was fsynced after they were written, a name if its folder
was. What was not may be there or not: each name by itself, and each sector of a file as it was at some moment since.
"""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

SECTOR = 512
BASE = 0

Rest = Literal["lost", "kept", "mixed"]
"""What becomes of that which no fsync made safe."""


class Killed(BaseException):
    """Of a process that the recorder has killed: nothing of it touches the disk any more."""


class Step(NamedTuple):
    """One change: bytes of a file, a name of a folder (``target`` None: it goes), or the promise of an fsync."""

    kind: Literal["bytes", "name", "sync"]
    inode: int
    data: bytes = b""
    offset: int = 0
    name: str = ""
    target: int | None = None
    former: str = ""
    is_folder: bool = False


class _Open(NamedTuple):
    inode: int
    path: Path
    appends: bool


class Recorder:
    """Records what this process does below a folder, in order.

    Parameters
    ----------
    base:
        The folder. It is there, is empty, and survives.
    left_out:
        Says of the path of a file or folder whether its fsyncs are left out.
    """

    def __init__(self, base: Path, left_out: Callable[[Path], bool] = lambda path: False) -> None:
        self.steps: list[Step] = []
        self.dies_at: int | None = None
        """After how many steps this process is killed."""
        self._base = base
        self._left_out = left_out
        self._lock = threading.RLock()
        self._inodes: dict[Path, int] = {base: BASE}
        self._made = BASE
        self._files: dict[int, _Open] = {}
        self._offsets: dict[int, int] = {}
        self._sizes: dict[int, int] = defaultdict(int)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Stand between this process and the system while the block runs."""
        real = {name: getattr(os, name) for name in ("close", *_BY_PATH, *_BY_HANDLE)}

        def at_path(name: str, path: Any, *args: Any, **kwargs: Any) -> Any:
            with self._lock:
                if not self._is_below(args[0] if name in ("replace", "link") else path):
                    return real[name](path, *args, **kwargs)
                if name != "open" or args[0] & os.O_CREAT:
                    self._die()
                was_there = os.path.exists(path)
                result = real[name](path, *args, **kwargs)
                _BY_PATH[name](self, Path(path), was_there, result, *args)
                return result

        def at_handle(name: str, handle: int, *args: Any) -> Any:
            with self._lock:
                if handle not in self._files:
                    return real[name](handle, *args)
                self._die()
                result = real[name](handle, *args)
                _BY_HANDLE[name](self, handle, result, *args)
                return result

        def close(handle: int) -> None:
            with self._lock:
                self._files.pop(handle, None)
                real["close"](handle)

        def wrapped(wrapper: Callable[..., Any], name: str) -> Callable[..., Any]:
            return lambda *args, **kwargs: wrapper(name, *args, **kwargs)

        for name in _BY_PATH:
            setattr(os, name, wrapped(at_path, name))
        for name in _BY_HANDLE:
            setattr(os, name, wrapped(at_handle, name))
        os.close = close
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def _is_below(self, path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and Path(path).is_relative_to(self._base)

    def _die(self) -> None:
        if self.dies_at is not None and len(self.steps) >= self.dies_at:
            raise Killed

    def _name(self, path: Path, target: int | None, former: Path | None = None, *, is_folder: bool = False) -> None:
        folder, old = self._inodes[path.parent], former.name if former else ""
        self.steps.append(Step("name", folder, name=path.name, target=target, former=old, is_folder=is_folder))
        for gone in {path, former} - {None}:
            self._inodes.pop(gone, None)  # type: ignore[arg-type]
        if target is not None:
            self._inodes[path] = target

    def _new(self) -> int:
        self._made += 1
        return self._made

    def _opened(self, path: Path, was_there: bool, handle: int, flags: int, *mode: Any) -> None:
        if not was_there:
            self._name(path, self._new())
        self._files[handle] = _Open(self._inodes[path], path, bool(flags & os.O_APPEND))
        self._offsets[handle] = 0

    def _made_folder(self, path: Path, *rest: Any) -> None:
        self._name(path, self._new(), is_folder=True)

    def _replaced(self, path: Path, was_there: bool, result: None, target: Any) -> None:
        self._name(Path(target), self._inodes[path], path)

    def _linked(self, path: Path, was_there: bool, result: None, target: Any) -> None:
        self._name(Path(target), self._inodes[path])

    def _unlinked(self, path: Path, *rest: Any) -> None:
        self._name(path, None)

    def _wrote(self, handle: int, written: int, data: Any) -> None:
        file = self._files[handle]
        offset = self._sizes[file.inode] if file.appends else self._offsets[handle]
        self._offsets[handle] = offset + written
        self._wrote_at(handle, written, [data], offset)

    def _wrote_at(self, handle: int, written: int, buffers: Sequence[Any], offset: int) -> None:
        inode = self._files[handle].inode
        data = b"".join(bytes(memoryview(buffer).cast("B")) for buffer in buffers)[:written]
        self._sizes[inode] = max(self._sizes[inode], offset + written)
        self.steps.append(Step("bytes", inode, data, offset))

    def _synced(self, handle: int, *rest: Any) -> None:
        if not self._left_out(self._files[handle].path):
            self.steps.append(Step("sync", self._files[handle].inode))


_BY_PATH: dict[str, Callable[..., None]] = {
    "open": Recorder._opened,
    "mkdir": Recorder._made_folder,
    "replace": Recorder._replaced,
    "link": Recorder._linked,
    "unlink": Recorder._unlinked,
}
_BY_HANDLE: dict[str, Callable[..., None]] = {
    "write": Recorder._wrote,
    "pwritev": Recorder._wrote_at,
    "fsync": Recorder._synced,
}


def image(steps: Sequence[Step], folder: Path, rest: Rest, rng: random.Random) -> None:
    """Make the folder of a disk whose host crashed after some steps.

    Parameters
    ----------
    folder:
        Made here.
    rest:
        What becomes of that which no fsync made safe: nothing of it is there, all, or what `rng` says.
    """
    synced = {step.inode: number for number, step in enumerate(steps) if step.kind == "sync"}
    names: dict[int, dict[str, int]] = defaultdict(dict)
    files: dict[int, list[tuple[bool, Step]]] = defaultdict(list)
    chance = rng.random()
    for number, step in enumerate(steps):
        safe = number < synced.get(step.inode, -1)
        if step.kind == "bytes":
            files[step.inode].append((safe, step))
        elif step.kind == "name" and (safe or rest == "kept" or (rest == "mixed" and rng.random() < chance)):
            names[step.inode].pop(step.former, None)
            if step.target is None:
                names[step.inode].pop(step.name, None)
            else:
                names[step.inode][step.name] = step.target
    folders = {step.target for step in steps if step.is_folder}

    def write(inode: int, path: Path) -> None:
        for name, target in names[inode].items():
            if target in folders:
                (path / name).mkdir()
                write(target, path / name)
            else:
                (path / name).write_bytes(_content(files[target], rest, rng))

    folder.mkdir()
    write(BASE, folder)


def _content(writes: Sequence[tuple[bool, Step]], rest: Rest, rng: random.Random) -> bytes:
    safe = sum(is_safe for is_safe, _ in writes)
    if rest == "lost":
        return _after(writes[:safe])
    whole = _after(writes)
    if rest == "kept" or safe == len(writes):
        return whole
    versions = [_after(writes[:count]) for count in (safe, rng.randint(safe, len(writes)), len(writes))]
    size = len(rng.choice(versions))
    sectors = (rng.choice(versions)[start : start + SECTOR].ljust(SECTOR, b"\0") for start in range(0, size, SECTOR))
    return b"".join(sectors)[:size]


def _after(writes: Sequence[tuple[bool, Step]]) -> bytes:
    content = bytearray()
    for _, step in writes:
        if len(content) < step.offset:
            content.extend(bytes(step.offset - len(content)))
        content[step.offset : step.offset + len(step.data)] = step.data
    return bytes(content)
