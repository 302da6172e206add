"""A work whose states find no room: copies are gone without, for what is needed room is asked for."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from daskevo.errors import DaskevoError, PutFailed, PutUnknown, QuotaReached
from daskevo.repository import Snapshot
from daskevo.types import ModelId, Objective
from daskevo_workflows.studies import snapshot_writer
from daskevo_workflows.studies.assignment import Setting
from daskevo_workflows.studies.room_request import RoomRequest
from daskevo_workflows.studies.snapshot_writer import Storing

FULL = QuotaReached("no room", needed_bytes=100, free_bytes=30, errno=None)
DISK = PutFailed("no room", errno=errno.ENOSPC)
BROKEN = PutFailed("a provider died")
SNAPSHOT = Snapshot(None, (), {"loop/w": np.zeros(4)}, {})


class Shelf:
    """Answers puts with what it is given, one after the other."""

    def __init__(self, *answers: DaskevoError | None) -> None:
        self.answers = list(answers)
        self.puts: list[dict[str, Any]] = []

    def begin_put_snapshot(self, snapshot: Snapshot, **given: Any) -> Future[ModelId]:
        self.puts.append(given)
        future: Future[ModelId] = Future()
        if (error := self.answers.pop(0)) is None:
            future.set_result(ModelId(f"snap-{len(self.puts)}"))
        else:
            future.set_exception(error)
        return future


class Work:
    def __init__(self, *answers: DaskevoError | None, made: Sequence[bool] = ()) -> None:
        self.shelf, self.room, self.made = Shelf(*answers), RoomRequest(), list(made)
        self.told: list[tuple[Any, ...]] = []
        setting = Setting(
            SimpleNamespace(),
            self.shelf,
            0,
            Objective.parse("min loss"),
            "request:r",
            "cache:r",  # type: ignore[arg-type]
        )
        self.storing = Storing(
            setting,
            "base",
            self.room,
            lambda *what: self.told.append(("stored", *what)),
            self.lacking,
            lambda step, kind, error: self.told.append(("unsaved", step, kind, error.message)),
        )

    def lacking(self, step: int, nbytes: int) -> None:
        self.told.append(("lacking", step, nbytes))
        if self.made:
            self.room.answer(self.made.pop(0))

    def put(self, step: int, kind: str) -> None:
        self.storing.put(step, SNAPSHOT, {"loss": 0.0}, kind)


@pytest.mark.parametrize("error", [FULL, DISK, BROKEN, PutUnknown("nobody answers")])
@pytest.mark.parametrize("kind", ["pause", "known"])
def test_what_is_not_needed_is_gone_without(error: DaskevoError, kind: str) -> None:
    work = Work(error, None)
    work.put(4, kind)
    work.put(8, "mark")
    work.storing.finish()
    assert work.told == [("unsaved", 4, kind, error.message), ("stored", 8, "snap-2", "mark")] or work.told == [
        ("stored", 8, "snap-2", "mark"),
        ("unsaved", 4, kind, error.message),
    ]
    assert [put["labels"] for put in work.shelf.puts] == [
        ("cache:r",) if kind == "pause" else ("request:r",),
        ("request:r",),
    ]
    # What was not stored is nothing to refer to.
    assert [put["base"] for put in work.shelf.puts] == ["base", "base"]


def test_what_is_needed_is_put_again_once_room_was_made() -> None:
    work = Work(FULL, DISK, None, made=[True, True])
    work.put(4, "mark")
    work.storing.look()
    assert work.told == [("lacking", 4, 70), ("lacking", 4, 32), ("stored", 4, "snap-3", "mark")]
    work.storing.finish()
    assert len(work.shelf.puts) == 3


def test_what_is_needed_is_gone_without_if_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(FULL, FULL, None, made=[True, False])
    work.put(4, "mark")
    work.put(8, "mark")
    work.storing.finish()
    assert ("unsaved", 4, "mark", "no room") in work.told
    assert work.told[-1] == ("stored", 8, "snap-3", "mark")
    # Nobody answers.
    monkeypatch.setattr(snapshot_writer, "ROOM_S", 0.01)
    work = Work(FULL)
    work.put(4, "mark")
    work.storing.finish()
    assert work.told == [("lacking", 4, 70), ("unsaved", 4, "mark", "no room")]


def test_a_put_that_failed_otherwise_is_tried_once_more() -> None:
    work = Work(BROKEN, None, BROKEN, BROKEN, PutUnknown("nobody answers"))
    work.put(4, "mark")
    work.put(8, "mark")
    work.put(12, "mark")
    assert work.told == [("stored", 4, "snap-2", "mark"), ("unsaved", 8, "mark", "a provider died")]
    with pytest.raises(PutUnknown):
        work.storing.finish()
