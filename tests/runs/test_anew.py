"""A run that came to nothing is begun anew with its problem, mended; any other is refused and left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import RunMismatch
from daskevo.runs import RunRecord, RunView
from daskevo.runs.begun_anew import empty, is_mended
from daskevo.search import Failure, Report, Request
from daskevo.space import Candidate
from daskevo.types import ModelId
from tests.runs.identity import IDENTITY

MENDED = IDENTITY | {"problem": {**IDENTITY["problem"], "content": "mended"}}


def begun(folder: Path, *, finished: bool = False, pending: bool = False) -> str:
    """Leave a run with a failed evaluation, and perhaps others; return its id."""
    record = RunRecord(folder, IDENTITY)
    requests = [Request(number, ModelId(f"m{number}"), Candidate((number,))) for number in range(2 + pending)]
    record.asked(requests)
    failure = Failure("build", "ValueError: no such layer", "")
    record.reported(Report(0, ModelId("m0"), "failed", failure=failure), [], [])
    second = Report(1, ModelId("m1"), "finished", quality=0.5) if finished else Report(1, ModelId("m1"), "failed")
    record.reported(second, [], [])
    record.close()
    return record.info.id


def nobody(name: ModelId) -> bool:
    return False


@pytest.mark.parametrize("pending", [False, True])
def test_it_is_begun_anew(tmp_path: Path, pending: bool) -> None:
    before = begun(tmp_path, pending=pending)
    record = RunRecord(tmp_path, MENDED, was_put=nobody)
    assert not record.resumed
    assert record.info.id != before
    assert record.info.identity == MENDED
    assert (record.requests(), record.reports()) == ([], [])
    (event,) = record.events()
    assert event.kind == "begun anew"
    assert "evaluations that had failed before: 2, the first because ValueError: no such layer" in event.message
    record.close()
    again = RunRecord(tmp_path, MENDED, was_put=nobody)
    assert again.resumed
    again.close()


@pytest.mark.parametrize(
    ("left", "asked", "was_put"),
    [
        ({"finished": True}, MENDED, nobody),
        ({"pending": True}, MENDED, lambda name: name == "m2"),
        ({}, MENDED, None),
        ({}, IDENTITY | {"seed": 9}, nobody),
        ({}, IDENTITY | {"problem": {"name": "another", "content": "mended"}}, nobody),
    ],
)
def test_any_other_is_refused_and_left(tmp_path: Path, left: dict[str, bool], asked: Any, was_put: Any) -> None:
    before = begun(tmp_path, **left)
    with pytest.raises(RunMismatch):
        RunRecord(tmp_path, asked, was_put=was_put)
    with RunView(tmp_path) as view:
        assert view.info.id == before
        assert len(view.reports()) == 2


def test_killed_in_between_it_is_begun_anew_again(tmp_path: Path) -> None:
    before = begun(tmp_path)
    empty(tmp_path)
    with RunView(tmp_path) as view:
        assert (view.info.id, view.requests()) == (before, [])
    record = RunRecord(tmp_path, MENDED, was_put=nobody)
    assert record.info.id != before
    record.close()


def test_what_counts_as_mended() -> None:
    assert is_mended(IDENTITY, MENDED)
    assert is_mended(IDENTITY, MENDED | {"objective": "min q", "seed": 4})
    assert not is_mended(IDENTITY, IDENTITY)
    assert not is_mended(IDENTITY, IDENTITY | {"objective": "min q"})
