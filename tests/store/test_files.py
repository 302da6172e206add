"""Small files: replaced whole, made once, read strictly; errors that say what to do."""

from __future__ import annotations

import errno
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, InvalidInput, RootUnusable
from daskevo.store import files as module
from daskevo.store.files import create_file, dump_json, parse_json, read_small, replace_file, usable


@pytest.fixture(params=[True, False], ids=["links", "no links"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """On file systems with and without hard links."""
    if not request.param:

        def refused(source: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "operation not permitted")

        monkeypatch.setattr(module.os, "link", refused)
    return bool(request.param)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.usefixtures("links")
def test_of_many_makers_one_makes_the_file(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "file"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: create_file(path, b"%d" % n * 100, sync=sync), range(8)))
    assert sum(made) == 1
    assert path.read_bytes() == b"%d" % made.index(True) * 100
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("links")
def test_a_file_that_can_not_be_made_is_an_error_not_a_lost_race(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_file(tmp_path / "gone" / "file", b"x")


@pytest.mark.parametrize("sync", [True, False])
def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old", sync=sync)
    replace_file(path, b"newer", sync=sync)
    for name in ("write", "replace"):

        def failing(*args: Any) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(module.os, name, failing)
            with pytest.raises(OSError, match="no space"):
                replace_file(path, b"newest", sync=sync)
        assert path.read_bytes() == b"newer"
        assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("value", [None, True, 1, -1.5, "ü\n\0", [], {}, {"a": [1, {"b": None}]}, 2**70, "\ud800"])
def test_json_comes_back_as_ascii(tmp_path: Path, value: Any) -> None:
    data = dump_json(value)
    assert data.isascii()
    assert 0 not in data
    assert parse_json(data, tmp_path, "it") == value


@pytest.mark.parametrize(
    "data", [b"", b"NaN", b"-Infinity", b"1e400", b"\xff", b"{'a':1}", b"[" * 100_000, b"1" * 5000]
)
def test_what_is_not_json_is_named_with_its_place(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="the thing isn't JSON") as caught:
        parse_json(data, tmp_path / "file", "the thing", 17)
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / "file"), 17)


def test_what_json_can_not_carry_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (float("inf"), float("nan"), b"x", object(), {1: object()}, deep):
        with pytest.raises(InvalidInput):
            dump_json(value)


def test_a_small_file_that_is_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(11))
    assert len(read_small(tmp_path / "file", 11)) == 11
    with pytest.raises(CorruptRecord):
        read_small(tmp_path / "file", 10)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "retire models"),
        (errno.EDQUOT, "retire models"),
        (errno.EROFS, "may write to"),
        (errno.EACCES, "may write to"),
        (errno.ENOENT, "mounted on this host"),
        (errno.ESTALE, "mounted on this host"),
    ],
)
def test_errors_of_the_system_say_what_to_do(tmp_path: Path, number: int, remedy: str) -> None:
    with pytest.raises(RootUnusable, match=remedy) as caught, usable(tmp_path, "write it", 123):
        raise OSError(number, os.strerror(number))
    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - errors cross processes so
    assert (error.folder, error.needed_bytes, error.errno) == (str(tmp_path), 123, number)
    assert error.free_bytes > 0
    assert f"123 bytes needed, {error.free_bytes} free" in str(error)


def test_a_folder_that_is_gone_has_unknown_room(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="unknown free") as caught, usable(tmp_path / "gone", "write it", 1):
        os.stat(tmp_path / "gone")
    assert caught.value.free_bytes is None


@pytest.mark.parametrize("known", [True, False], ids=["a system with the call", "one without"])
def test_writeback_that_begins_early_changes_no_bytes(
    tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not known:
        monkeypatch.setattr(module, "_sync_file_range", lambda: None)
    with open(tmp_path / "file", "wb", buffering=0) as file:
        file.write(b"some bytes")
        module.begin_writeback(file.fileno(), 0, 10)
        module.begin_writeback(file.fileno(), 5, 1 << 40)  # beyond the end is no error
    assert (tmp_path / "file").read_bytes() == b"some bytes"
