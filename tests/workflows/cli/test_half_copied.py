"""A folder of which a copy lacks a file, or has half of one: said with the next step before a cluster is started, and
left as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daskevo.runs import RunRecord
from daskevo.search import AgedEvolution, Request
from daskevo.space import Candidate
from daskevo.store.root import Root
from daskevo.types import ModelId, Objective
from daskevo_workflows import tune as tuning
from daskevo_workflows.cli import main, run_frame
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.run_identity import identity_of
from daskevo_workflows.problems import refer

FILES = ("run.json", "run.sqlite", "repository/repository.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=["nas", "tune"])
def copied(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """Return a command that goes on with a run, and its folder; a cluster that was started would fail the test."""
    folder, goal, command = tmp_path / "run", Objective.parse("max val_accuracy"), str(request.param)
    if command == "nas":
        policy = {"seed": 0, "transfer": Transfer(), "control_share": 0.0, "epochs": None}
        identity = identity_of(refer("digits"), goal, AgedEvolution(), **policy)  # type: ignore[arg-type]
        words = "nas digits"
    else:
        reference = refer("digits-lr")
        loaded = reference.load()
        _, rows = tuning.data_to_tune(reference, loaded)
        identity = tuning.identity_of(reference, tuning.space_to_tune(loaded), goal, 0, rows)
        words = "tune digits-lr"
    root = folder / "repository"
    about = {"repository": str(root), "repository_id": Root.create(root, shards=2).repository_id}
    record = RunRecord(folder, identity, about)
    record.asked([Request(number, ModelId(f"m{number}"), Candidate((number,))) for number in range(200)])
    record.close()

    def start(*args: object, **options: object) -> None:
        raise AssertionError("a cluster would be started")

    monkeypatch.setattr(run_frame, "a_cluster", start)
    return words, folder


def goes_on(copied: tuple[str, Path]) -> Result:
    words, folder = copied
    return CliRunner().invoke(main, [*words.split(), "--run", str(folder)])


def damage(path: Path, how: str) -> None:
    if how == "missing":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if how == "cut" else b"")


def test_the_whole_one_goes_on(copied: tuple[str, Path]) -> None:
    assert "a cluster would be started" in goes_on(copied).stderr


@pytest.mark.parametrize("how", ["missing", "cut", "empty"])
@pytest.mark.parametrize("file", FILES)
def test_half_of_it_is_said_with_what_to_do(copied: tuple[str, Path], file: str, how: str) -> None:
    folder = copied[1]
    damage(folder / file, how)
    before = contents(folder)
    said = goes_on(copied)
    assert said.exit_code == 2, said.stderr
    assert Path(file).name in said.stderr or (file, how) == (FILES[2], "missing")
    assert str(folder) in said.stderr
    assert any(step in said.stderr for step in ("restore it", "restore the file", "say where it is now")), said.stderr
    assert contents(folder) == before


def test_without_its_repository(copied: tuple[str, Path]) -> None:
    folder = copied[1]
    damage(folder / "repository", "missing")
    before = contents(folder)
    said = goes_on(copied)
    assert said.exit_code == 2
    assert "which is not there: say where it is now with --repository" in said.stderr
    assert contents(folder) == before


@pytest.mark.parametrize("how", ["missing", "cut", "empty"])
def test_a_report_of_half_a_run(copied: tuple[str, Path], how: str) -> None:
    folder = copied[1]
    damage(folder / "run.sqlite", how)
    before = contents(folder)
    said = CliRunner().invoke(main, ["report", str(folder)])
    assert said.exit_code == 2
    assert "restore it from a copy" in said.stderr
    assert contents(folder) == before
