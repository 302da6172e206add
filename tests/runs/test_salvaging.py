"""A record that was cut or damaged: whatever rows can be read are saved, and nothing of the run is changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from daskevo.errors import RunFolderUnusable
from daskevo.runs import RunRecord, RunView
from daskevo.runs.salvage import salvage
from daskevo.search import Request
from tests.runs.test_record import IDENTITY, requests

COUNT = 400


def made(folder: Path) -> list[Request]:
    record = RunRecord(folder, IDENTITY)
    asked = requests(COUNT)
    record.asked(asked)
    for request in asked:
        record.event("looked at", "x" * 100, request.number)
    record.close()
    return asked


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def hole(data: bytes) -> bytes:
    return data[: len(data) // 3] + random.Random(0).randbytes(8192) + data[len(data) // 3 + 8192 :]


def end(data: bytes) -> bytes:
    return data[:-4096]


@pytest.mark.parametrize("damage", [cut, hole, end])
def test_what_can_be_read_is_saved(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    asked = made(tmp_path / "run")
    path = tmp_path / "run" / "run.sqlite"
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    saved = salvage(tmp_path / "run", tmp_path / "saved")
    assert path.read_bytes() == before
    with RunView(tmp_path / "saved") as view:
        found = view.requests()
        assert len(found) == saved["requests"]
        assert {json.dumps(request.to_json()) for request in found} <= {json.dumps(one.to_json()) for one in asked}
        assert view.info.identity["problem"] == IDENTITY["problem"]
        assert len(view.events("looked at")) <= COUNT
    assert saved["requests"] + saved["events"] > COUNT // 2
    if damage is not cut:
        assert saved["requests"] + saved["events"] > 2 * COUNT - 100, "both sides of a hole"


def test_a_whole_record_is_copied_whole(tmp_path: Path) -> None:
    asked = made(tmp_path / "run")
    assert salvage(tmp_path / "run", tmp_path / "saved")["requests"] == len(asked)


def test_what_is_no_run_or_no_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderUnusable, match="no folder"):
        salvage(tmp_path / "nothing", tmp_path / "saved")
    made(tmp_path / "run")
    with pytest.raises(RunFolderUnusable, match="holds something"):
        salvage(tmp_path / "run", tmp_path / "run")
    (tmp_path / "run" / "run.sqlite").write_bytes(b"nothing" * 1000)
    with pytest.raises(RunFolderUnusable, match=r"nothing of .* can be read"):
        salvage(tmp_path / "run", tmp_path / "saved")
