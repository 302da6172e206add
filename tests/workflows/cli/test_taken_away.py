"""A run that no candidate can finish does not spend its folder; whatever else was there stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskevo.errors import DaskevoError, InvalidInput, InvalidProblem
from daskevo.runs import RunRecord, run_lock, schema
from daskevo.search import Report, Request
from daskevo.space import Candidate
from daskevo_workflows.cli.paths import OWN, run_folder
from daskevo_workflows.problems.content import MAKING, SOURCES

IDENTITY = {"problem": {"name": "digits"}, "objective": "max val_acuracy", "seed": 0}


def begin(folder: Path, status: str = "failed") -> None:
    """Leave in a folder what a run leaves there whose first evaluation has ended."""
    record = RunRecord(folder, IDENTITY)
    request = Request(0, f"{record.info.label}-0", Candidate((1,)))  # type: ignore[arg-type]
    record.asked([request])
    record.reported(Report(0, request.model_id, status, quality=0.5 if status == "finished" else None), (), ())  # type: ignore[arg-type]
    record.close("error")
    (folder / "repository" / "shards").mkdir(parents=True, exist_ok=True)
    (folder / "repository" / "repository.json").write_text("{}")


def fail(folder: Path, error: Exception, status: str = "failed", *, begun: bool = True) -> DaskevoError:
    def command() -> None:
        with run_folder(folder):
            if begun:
                begin(folder, status)
            raise error

    with pytest.raises(DaskevoError) as raised:
        command()
    assert type(raised.value) is type(error)
    return raised.value


WRONG = InvalidProblem("no metric 'val_acuracy'\nuse another folder", path="there", reason="no metric 'val_acuracy'")


def test_a_new_run_is_taken_away(tmp_path: Path) -> None:
    error = fail(tmp_path / "runs" / "one", WRONG)
    assert not (tmp_path / "runs").exists()
    assert error.message.startswith("no metric 'val_acuracy'\nNo candidate would fare better.")
    assert "taken away again" in error.message


def test_all_that_a_run_creates_is_its_own() -> None:
    assert {SOURCES, MAKING, run_lock.FILE, schema.FILE, "run.json", "repository"} < set(OWN)


def test_what_lay_there_stays(tmp_path: Path) -> None:
    (tmp_path / "run" / "repository").mkdir(parents=True)
    (tmp_path / "run" / "repository" / "mine").touch()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    fail(tmp_path / "run", WRONG)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["notes.txt", "repository"]
    assert (tmp_path / "run" / "repository" / "mine").exists()


@pytest.mark.parametrize(
    ("error", "status"),
    [(WRONG, "finished"), (InvalidInput("another error"), "failed"), (DaskevoError("another"), "failed")],
)
def test_other_runs_stay(error: Exception, status: str, tmp_path: Path) -> None:
    said = fail(tmp_path / "run", error, status)
    assert str(said) == str(error)
    assert (tmp_path / "run" / "run.json").exists()
    assert (tmp_path / "run" / "repository" / "repository.json").exists()


def test_a_run_that_was_there_before_stays(tmp_path: Path) -> None:
    begin(tmp_path / "run")
    assert str(fail(tmp_path / "run", WRONG, begun=False)) == str(WRONG)
    assert (tmp_path / "run" / "run.json").exists()


def test_a_problem_that_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    assert str(fail(tmp_path / "run", WRONG, begun=False)) == str(WRONG)
    assert not (tmp_path / "run").exists()
