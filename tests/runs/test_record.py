"""The record of a run: one transaction per decision, resume, mismatches, unusable folders, reading beside the
writer."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, RunFolderUnusable, RunMismatch
from daskevo.runs import LabelChange, RunRecord, RunView, plan
from daskevo.runs.folder import prepare_folder
from daskevo.runs.run_lock import locked_early
from daskevo.runs.schema import TABLES, VERSION
from daskevo.search import Failure, Report, Request
from daskevo.space import Candidate
from daskevo.types import ModelId
from tests.runs.identity import IDENTITY


def requests(count: int, first: int = 0) -> list[Request]:
    return [Request(n, ModelId(f"m{n}"), Candidate((n, 1)), parent=ModelId("m0")) for n in range(first, first + count)]


def report(number: int, **fields: Any) -> Report:
    return Report(number, ModelId(f"m{number}"), "finished", quality=0.5, step=45, **fields)


def test_how_units_ended_is_not_lost_with_a_write_that_failed(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY, {"scope": "x"})
    record.asked(requests(1))
    units = plan(requests(1))
    record.planned({}, units)
    record.unit_placed(units[-1].key, "trainer-0")
    record.unit_ended(units[-1].key, "done", 1.0, 2.0)
    record._connection.execute(
        "CREATE TEMP TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(sqlite3.IntegrityError):
        record.event("any", "")
    record._connection.execute("DROP TRIGGER full")
    record.close()
    with RunView(tmp_path) as view:
        assert [(unit.worker, unit.state) for unit in view.units()][-1] == ("trainer-0", "done")


def test_units_of_a_process_that_was_killed_are_lost(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY, {"scope": "x"})
    record.asked(requests(1))
    record.planned({}, plan(requests(1), session=record.session))
    record._stack.close()  # as with its process
    again = RunRecord(tmp_path, IDENTITY, {"scope": "x"})
    assert again.session == record.session + 1
    again.planned({}, plan(requests(1), session=again.session))
    again.close()
    with RunView(tmp_path) as view:
        assert [unit.state for unit in view.units()] == ["lost", "lost", "submitted", "submitted"]


def test_everything_comes_back(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY, {"scope": "x"})
    assert not record.resumed
    record.asked(requests(3))
    units = plan(requests(3), seconds=2.0)
    record.planned({0: "a", 1: "b"}, units)
    record.unit_placed(units[1].key, "trainer-0")
    full = report(0, metrics={"q": 0.5}, seconds={"put": 0.1}, ancestor=ModelId("m9"), worker="trainer-0", started=1.0)
    record.reported(full, [ModelId("m0")], [LabelChange("hold", "best:x", ModelId("m0"))])
    broken = Report(1, ModelId("m1"), "failed", failure=Failure("error", "ValueError: no", "Traceback ..."))
    record.reported(broken, [ModelId("m0")], [])
    record.unit_ended(units[1].key, "done", 1.0, 2.0)
    record.event("recycled", "trainer-0", 2, worker="trainer-0")
    record.close("finished")

    with RunView(tmp_path) as view:
        assert view.requests() == requests(3)
        assert view.reports() == [full, broken]
        assert view.identities() == {0: "a", 1: "b"}
        assert view.population() == ["m0"]
        row = view.units()[1]
        assert (row.key, row.worker, row.state, row.started, row.ended) == (units[1].key, "trainer-0", "done", 1.0, 2.0)
        assert row.estimated_s == 2.0
        assert view.unit_counts() == {"evaluate": {"done": 1, "submitted": 2}, "match": {"submitted": 1}}
        (event,) = view.events()
        assert (event.kind, event.number, event.message, event.facts) == (
            "recycled",
            2,
            "trainer-0",
            {"worker": "trainer-0"},
        )
        assert view.events("other") == []
        assert [session.ended for session in view.sessions()] == ["finished"]
        assert view.info.about == {"scope": "x", "folder": str(tmp_path)}
        assert set(view.report_times()) == {0, 1}


def test_a_run_is_resumed_with_the_same_id(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    first = record.info
    record.close()
    record = RunRecord(tmp_path, IDENTITY)
    assert record.resumed
    assert record.info == first
    record.close()
    with RunView(tmp_path) as view:
        assert len(view.sessions()) == 2


def test_labels_are_carried_out_once_and_in_order(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(2))
    changes = [LabelChange("hold", "best:x", ModelId("m0")), LabelChange("release", "population:x", ModelId("m1"))]
    record.reported(report(0), [ModelId("m0")], changes)
    record.close()
    record = RunRecord(tmp_path, IDENTITY)
    found = record.label_changes()
    assert [change for _, change in found] == changes
    record.labels_changed([found[0][0]])
    assert [change for _, change in record.label_changes()] == changes[1:]
    record.close()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"seed": 1}, "seed"),
        ({"problem": {"name": "digits", "content": "other"}}, "problem.content"),
        ({"strategy": {"name": "random", "settings": {"keep": 6}}}, "strategy.settings.keep"),
        ({"objective": "min q"}, "objective"),
        ({"policy": {"transfer": False, "freeze": "prefix"}}, "policy.transfer"),
    ],
)
def test_another_run_is_refused_and_nothing_is_touched(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(1))
    record.close()
    with pytest.raises(RunMismatch) as caught:
        RunRecord(tmp_path, IDENTITY | change)
    assert caught.value.parts == [part]
    with RunView(tmp_path) as view:
        assert len(view.requests()) == 1
        assert len(view.sessions()) == 1


HERE = {"repository": "/here", "repository_id": "a"}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"repository": "/there", "repository_id": "b"}, r"/here \(a\), not to repository /there \(b\)"),
        ({"repository": "/here", "repository_id": "b"}, r"/here \(a\), not to repository /here \(b\)"),
        ({"repository": "/there", "repository_id": None}, r"/here \(a\), not to repository /there \(where none is\)"),
        ({"repository": None, "repository_id": None}, r"/here \(a\), not to a repository in memory"),
        ({"repository": "/there"}, r"/here \(a\), not to repository /there"),
    ],
)
def test_a_run_belongs_to_one_repository(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    RunRecord(tmp_path, IDENTITY, HERE).close()
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(RunMismatch, match=said) as caught:
        RunRecord(tmp_path, IDENTITY, other)
    assert caught.value.parts == ["repository"]
    assert (tmp_path / "run.json").read_bytes() == before
    with RunView(tmp_path) as view:
        assert len(view.sessions()) == 1


def test_a_copy_does_not_go_on_in_the_repository_of_the_original(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    about = {"repository": str(home / "repository"), "repository_id": "a"}
    RunRecord(home, IDENTITY, about).close()
    shutil.copytree(home, copy)
    with pytest.raises(RunMismatch, match=rf"{copy} is a copy of the run in {home}, which has the repository"):
        RunRecord(copy, IDENTITY, about)
    RunRecord(home, IDENTITY, about).close()
    (tmp_path / "same").symlink_to(home)
    RunRecord(tmp_path / "same", IDENTITY, about).close()
    # With a repository of its own, or once the original has gone, it goes on.
    RunRecord(copy, IDENTITY, about | {"repository": str(copy / "repository")}).close()
    shutil.rmtree(home)
    RunRecord(copy, IDENTITY, about).close()


def test_a_copy_of_a_run_whose_repository_lies_elsewhere(tmp_path: Path) -> None:
    home, copy, moved = tmp_path / "home", tmp_path / "copy", tmp_path / "moved"
    about = {"repository": str(tmp_path / "shared"), "repository_id": "a"}
    RunRecord(home, IDENTITY, about).close()
    RunRecord(tmp_path / "other", IDENTITY, about).close()  # of a run of its own in the same repository
    shutil.copytree(home, copy)
    with pytest.raises(RunMismatch, match=rf"{copy} is a copy of the run in {home}, which has the repository"):
        RunRecord(copy, IDENTITY, about)
    RunRecord(copy, IDENTITY, about | {"repository": str(tmp_path / "copied")}).close()
    shutil.rmtree(copy)
    # One that was moved goes on, and is the original from then on.
    home.rename(moved)
    RunRecord(moved, IDENTITY, about).close()
    shutil.copytree(moved, copy)
    with pytest.raises(RunMismatch, match=rf"{copy} is a copy of the run in {moved}"):
        RunRecord(copy, IDENTITY, about)


def test_a_folder_in_which_a_run_is_being_begun(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "run")
    with locked_early(tmp_path / "run"), pytest.raises(RunFolderUnusable, match=f"yet: process {os.getpid()} on"):
        RunView(tmp_path / "run")
    with pytest.raises(RunFolderUnusable, match="holds no run: it is empty"):
        RunView(tmp_path / "run")


def test_its_repository_may_move(tmp_path: Path) -> None:
    first = RunRecord(tmp_path, IDENTITY, HERE | {"scope": "x"})
    first.close()
    RunRecord(tmp_path, IDENTITY, HERE | {"repository": "/moved"}).close()
    with RunView(tmp_path) as view:
        about = {"repository": "/moved", "repository_id": "a", "scope": "x", "folder": str(tmp_path)}
        assert view.info.about == about
        assert view.info.id == first.info.id


def test_a_refused_transaction_leaves_nothing(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(1))
    with pytest.raises(sqlite3.IntegrityError):
        record.asked([*requests(1, first=1), *requests(1)])
    assert [request.number for request in record.requests()] == [0]
    record.close()


def test_two_writers(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    with pytest.raises(RunFolderUnusable, match=f"process {os.getpid()}"):
        RunRecord(tmp_path, IDENTITY)
    record.close()
    RunRecord(tmp_path, IDENTITY).close()


def test_reading_while_it_is_written(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    with RunView(tmp_path) as view:
        assert view.requests() == []
        record.asked(requests(2))
        assert len(view.requests()) == 2
        assert view.sessions()[0].ended is None
        with pytest.raises(CorruptRecord, match="readonly"):
            list(view._rows("DELETE FROM requests"))
    record.close()


_KILLED = """
import os, sys, sqlite3
sys.path.insert(0, {root!r})
from tests.runs.test_record import IDENTITY, RunRecord, requests
record = RunRecord({folder!r}, IDENTITY)
record.asked(requests(2))
record._connection.execute("PRAGMA cache_size = 1")
record._connection.execute("BEGIN IMMEDIATE")
for n in range(2, 400):
    record._connection.execute("INSERT INTO requests VALUES (?, ?, ?, NULL, 0)", (n, f"x{{n}}", "y" * 2000))
os.kill(os.getpid(), 9)
"""

_READ = """
import os, sys
import urllib.parse  # pathlib imports it when a path is to be a URI: too late, where Python belongs to root alone
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.runs.test_record import check_state_before
# Root may write anywhere, so that the reader must be somebody else.
if os.geteuid() == 0:
    os.setuid(65534)
check_state_before(Path({folder!r}))
"""


@pytest.mark.processes
def test_killed_in_the_middle_of_a_transaction() -> None:
    """A writer killed with half a transaction on disk: readers see the state before, with no right to write as well."""
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "run"
        root = str(Path(__file__).parents[2])
        done = subprocess.run([sys.executable, "-c", _KILLED.format(root=root, folder=str(folder))], timeout=180)
        assert done.returncode == -9
        journal = folder / "run.sqlite-journal"
        assert journal.stat().st_size > 0
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-c", _READ.format(root=root, folder=str(folder))]
        subprocess.run(command, timeout=180, check=True)
        assert journal.stat().st_size > 0
        folder.chmod(0o755)
        for file in folder.iterdir():
            file.chmod(0o644)
        check_state_before(folder)
        assert not journal.exists()  # a reader's rollback deletes it
        RunRecord(folder, IDENTITY).close()


def check_state_before(folder: Path) -> None:
    with RunView(folder) as view:
        assert [request.number for request in view.requests()] == [0, 1]
        assert view.sessions()[0].ended is None


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderUnusable, match="can't be used"):
        RunRecord(tmp_path / "file" / "run", IDENTITY)


def test_a_folder_that_can_not_be_written() -> None:
    with pytest.raises(RunFolderUnusable):
        RunRecord("/proc/self/run", IDENTITY)


def test_no_run_there(tmp_path: Path) -> None:
    with pytest.raises(RunFolderUnusable, match="holds no run: it is empty"):
        RunView(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "daskevo run"}',
        '{"format": "daskevo run", "version": 2}',
        '{"format": "x"}',
        '{"format": "daskevo run", "version": 1, "id": "x", "name": "n", "created": 1, "identity": {}, "about": {}}',
        '{"format": "daskevo run", "version": 1, "id": [], "name": "n", "created": 1, "identity": {}, "about": {}}',
        '{"format": "daskevo run", "version": 1, "id": "00000000-0000-4000-8000-000000000000", "name": "n", '
        '"created": 1e99, "identity": {}, "about": {}}',
    ],
)
def test_a_run_json_of_another_make(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    for attempt in (lambda: RunView(tmp_path), lambda: RunRecord(tmp_path, IDENTITY)):
        with pytest.raises(RunFolderUnusable, match=r"run\.json"):
            attempt()


@pytest.mark.parametrize(
    ("version", "said"), [(VERSION + 1, "a later daskevo wrote it"), (-7, "no daskevo"), (0, "empty")]
)
def test_a_record_of_another_version(tmp_path: Path, version: int, said: str) -> None:
    RunRecord(tmp_path, IDENTITY).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "run.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = (tmp_path / "run.sqlite").read_bytes()
    for attempt in (lambda: RunView(tmp_path), lambda: RunRecord(tmp_path, IDENTITY)):
        with pytest.raises(RunFolderUnusable, match=said):
            attempt()
    assert (tmp_path / "run.sqlite").read_bytes() == before


def test_what_a_description_lacks_is_named(tmp_path: Path) -> None:
    RunRecord(tmp_path, {}).close()
    with (
        RunView(tmp_path) as view,
        pytest.raises(RunFolderUnusable, match=r"run\.json says nothing of the run's objective"),
    ):
        view.info.identity["objective"]


def test_a_record_that_another_process_has_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RunRecord(tmp_path, IDENTITY).close()
    monkeypatch.setattr("daskevo.runs.view.BUSY_S", 0.1)
    with contextlib.closing(sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunFolderUnusable, match="locked by another process"):
            RunView(tmp_path)


def test_a_record_that_is_no_database(tmp_path: Path) -> None:
    RunRecord(tmp_path, IDENTITY).close()
    (tmp_path / "run.sqlite").write_bytes(b"not a database at all" * 100)
    for attempt in (lambda: RunView(tmp_path), lambda: RunRecord(tmp_path, IDENTITY)):
        with pytest.raises(RunFolderUnusable):
            attempt()


@pytest.mark.parametrize("lost", ["run.sqlite", "run.json"])
def test_half_a_run_is_not_begun_anew(tmp_path: Path, lost: str) -> None:
    """Under the same ids, a run begun anew would take in the models of the old one."""
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(2))
    record.close()
    (tmp_path / lost).unlink()
    with pytest.raises(RunFolderUnusable, match=rf"{lost} is missing.*restore it from a copy"):
        RunRecord(tmp_path, IDENTITY)
    assert not (tmp_path / lost).exists()


def test_an_emptied_record_is_not_begun_anew(tmp_path: Path) -> None:
    RunRecord(tmp_path, IDENTITY).close()
    (tmp_path / "run.sqlite").write_bytes(b"")
    for attempt in (lambda: RunView(tmp_path), lambda: RunRecord(tmp_path, IDENTITY)):
        with pytest.raises(RunFolderUnusable, match=r"run\.sqlite"):
            attempt()
    assert (tmp_path / "run.sqlite").stat().st_size == 0


def test_a_run_that_was_killed_before_it_was_named(tmp_path: Path) -> None:
    """The tables are made before `run.json`: what is left by a kill in between is no run yet."""
    with sqlite3.connect(tmp_path / "run.sqlite") as connection:
        connection.executescript(TABLES)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.close()
    record = RunRecord(tmp_path, IDENTITY)
    assert not record.resumed
    record.close()


def test_a_record_that_is_damaged_in_the_middle(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(400))
    record.close()
    path = tmp_path / "run.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + random.Random(0).randbytes(len(whole) // 2) + whole[8192 + len(whole) // 2 :])
    with pytest.raises(RunFolderUnusable, match=r"run\.sqlite.*restore it from a copy"):
        RunRecord(tmp_path, IDENTITY)


def test_a_record_that_is_damaged_while_it_is_written(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(400))
    path = tmp_path / "run.sqlite"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(random.Random(0).randbytes(path.stat().st_size - 4096))
    record._connection.execute("PRAGMA cache_size = 0")
    record._connection.execute("PRAGMA shrink_memory")
    with pytest.raises(CorruptRecord, match="damaged"):
        record.asked(requests(400, first=400))
    record._stack.close()


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record.asked(requests(1))
    record._connection.execute("UPDATE requests SET request = ?", (json.dumps({"number": 0}),))
    with pytest.raises(CorruptRecord):
        record.requests()
    record._connection.execute("UPDATE requests SET request = 'nonsense'")
    with pytest.raises(CorruptRecord):
        record.requests()
    record.close()


@pytest.mark.parametrize(
    ("change", "read", "name"),
    [
        ("UPDATE reports SET reported = 'yesterday'", "report_times", "reported"),
        ("UPDATE reports SET report = x'00'", "reports", "report"),
        ("UPDATE requests SET identity = x'07'", "identities", "identity"),
        ("UPDATE sessions SET last = 'soon'", "sessions", "last"),
        ("UPDATE sessions SET ended = x'00'", "sessions", "how"),
        ("INSERT INTO events (time, kind, message, facts) VALUES ('now', 'k', 'm', '{}')", "events", "time"),
        ("INSERT INTO events (time, kind, number, message, facts) VALUES (1, 'k', 'x', 'm', '{}')", "events", "number"),
        (
            "INSERT INTO units (key, kind, numbers, state, submitted) VALUES ('k', 'k', '[]', 's', '')",
            "units",
            "submitted",
        ),
        ("REPLACE INTO state VALUES ('population', x'00')", "population", "value"),
        ("INSERT INTO labels (action, label, model_id) VALUES ('hold', x'00', 'm')", "label_changes", "label"),
    ],
)
def test_what_a_column_cannot_hold_is_named(tmp_path: Path, change: str, read: str, name: str) -> None:
    """SQLite takes text for a number, and what it can't make text of for text."""
    with RunRecord(tmp_path, IDENTITY) as record:
        record.asked(requests(1))
        record.reported(report(0), [], [])
        getattr(record, read)()
        record._connection.execute(change)
        with pytest.raises(CorruptRecord, match=f"for '{name}'; restore it from a copy"):
            getattr(record, read)()


@pytest.mark.parametrize(
    ("folder", "name"),
    [("attn", "attn"), ("my run (2)", "my-run--2"), ("x" * 200, "x" * 60), ("...", "run"), ("ü", "run")],
)
def test_names_fit_for_ids(tmp_path: Path, folder: str, name: str) -> None:
    record = RunRecord(tmp_path / folder, IDENTITY)
    assert record.info.name == name
    assert record.info.label == f"{name}-{record.info.id[:8]}"
    record.close()


def test_runtime_is_the_sum_of_the_sessions(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, IDENTITY)
    record._connection.execute("UPDATE sessions SET opened = 100, last = 107")
    record._connection.execute("INSERT INTO sessions (opened, last, process) VALUES (200, 203, 'x')")
    assert record.runtime_s == 10
    record.close()
