"""A run whose disk is full says so, and what it has recorded stays: room is what it needs, not another record."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daskevo.errors import RunFolderUnusable
from daskevo.runs import RunRecord, RunView
from tests.runs.identity import IDENTITY
from tests.tmpfs import own_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with own_disk(tmp_path / "disk", 1 << 20) as folder:
        yield folder


def fill(disk: Path) -> Path:
    """Leave no page of a disk free."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def check_says_it(message: str, disk: Path) -> None:
    assert "is full" in message
    assert f"free some space on the disk of {disk}" in message
    assert "salvage" not in message
    assert "restore" not in message


def test_a_run_is_not_resumed_before_there_is_room(disk: Path) -> None:
    folder = disk / "run"
    with contextlib.closing(RunRecord(folder, IDENTITY)) as record:
        record.event("a", "first")
    filler = fill(disk)

    with pytest.raises(RunFolderUnusable) as refused:
        RunRecord(folder, IDENTITY, {"repository": str(disk)})
    check_says_it(refused.value.message, folder)

    filler.unlink()
    with contextlib.closing(RunRecord(folder, IDENTITY)) as record:
        assert record.resumed
        assert [event.message for event in record.events()] == ["first"]


def test_a_run_that_fills_its_disk_says_so(disk: Path) -> None:
    folder = disk / "run"
    record = RunRecord(folder, IDENTITY)
    filler = fill(disk)
    with pytest.raises(RunFolderUnusable, match="nothing recorded before is lost") as refused:
        record.event("a", "x" * 100_000)
    check_says_it(refused.value.message, folder)

    filler.unlink()
    record.event("a", "there")
    record.close()
    with RunView(folder) as view:
        assert [event.message for event in view.events()] == ["there"]


def test_a_run_is_not_begun_before_there_is_room(disk: Path) -> None:
    filler = fill(disk)
    with pytest.raises(RunFolderUnusable) as refused:
        RunRecord(disk / "run", IDENTITY)
    check_says_it(refused.value.message, disk / "run")

    filler.unlink()
    with contextlib.closing(RunRecord(disk / "run", IDENTITY)) as record:
        assert not record.resumed


def test_a_reader_that_needs_a_copy_names_the_disk_of_the_copy(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(RunRecord(tmp_path / "run", IDENTITY)) as record:
        record.event("a", "first")
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    filler = fill(disk)
    with RunView(tmp_path / "run") as view:
        with pytest.raises(RunFolderUnusable) as refused:
            view._connect_to_copy(tmp_path / "run" / "run.sqlite")
        check_says_it(refused.value.message, disk)

        filler.unlink()
        with contextlib.closing(view._connect_to_copy(tmp_path / "run" / "run.sqlite")) as connection:
            assert connection.execute("SELECT message FROM events").fetchone() == ("first",)
