"""A run's lock, taken before there is anything to carry on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daskevo.errors import RunFolderUnusable
from daskevo.runs import RunRecord, run_lock
from daskevo.runs.run_lock import locked, locked_early
from tests.runs.identity import IDENTITY

OTHER = """
import sys
from pathlib import Path
from daskevo.errors import RunFolderUnusable
from daskevo_workflows.cli.paths import run_folder
try:
    with run_folder(Path(sys.argv[1])):
        print("free")
except RunFolderUnusable as error:
    print(error)
"""


def test_a_command_that_starts_keeps_others_out_at_once(tmp_path: Path) -> None:
    """As two terminals do: the second is told before it starts a cluster and asks for the repository."""
    folder = tmp_path / "run"
    folder.mkdir()
    with locked_early(folder):
        said = subprocess.run(
            [sys.executable, "-c", OTHER, folder], capture_output=True, text=True, check=True, timeout=60
        )
    assert said.stdout.startswith(f"the run in {folder} is being carried on by process ")
    assert not list(folder.iterdir())


def test_it_is_handed_to_the_record(tmp_path: Path) -> None:
    with locked_early(tmp_path):
        record = RunRecord(tmp_path, IDENTITY)
        with pytest.raises(RunFolderUnusable, match="is being carried on by process"):
            RunRecord(tmp_path, IDENTITY)
        record.close()
        RunRecord(tmp_path, IDENTITY).close()  # nobody has it in between, as ever
    assert (tmp_path / "run.lock").exists()
    RunRecord(tmp_path, IDENTITY).close()


def test_nothing_is_left_where_nobody_began(tmp_path: Path) -> None:
    with locked_early(tmp_path), pytest.raises(RunFolderUnusable), locked_early(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
    assert not run_lock._early
    (tmp_path / "run.lock").touch()
    with locked_early(tmp_path):
        pass
    assert (tmp_path / "run.lock").exists()


def test_a_file_that_was_taken_away_meanwhile_locks_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Path] = []
    is_at = run_lock._is_at

    def taken_away(file: object, path: Path) -> bool:
        if not taken:
            path.unlink()
            taken.append(path)
        return is_at(file, path)  # type: ignore[arg-type]

    monkeypatch.setattr(run_lock, "_is_at", taken_away)
    with locked(tmp_path):
        assert (tmp_path / "run.lock").exists()
        monkeypatch.undo()
        with pytest.raises(RunFolderUnusable), locked(tmp_path):
            pass
