"""start.py says plainly why it can't go on; what it does when it can is the README's two commands, which CI runs."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

START = Path(__file__).parents[1] / "start.py"


def _start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(START), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_names_the_commands() -> None:
    told = _start("--help")
    assert told.returncode == 0
    assert "python3 start.py test" in told.stdout


def test_daskevo_learns_what_was_typed(tmp_path: Path) -> None:
    """The environment is a stand-in that counts as set up, whose `daskevo` tells what it was given."""
    start = runpy.run_path(str(START))
    (tmp_path / "bin").mkdir()
    (tmp_path / "daskevo-setup").write_text(start["wanted_stamp"](start["EXTRAS"]["run"]))
    stand_in = tmp_path / "bin" / "daskevo"
    stand_in.write_text('#!/bin/sh\necho "$DASKEVO_PROGRAM|$DASKEVO_AGAIN|$*"\n')
    stand_in.chmod(0o755)
    typed = f"{sys.executable} {START}"
    told = _start("nas", "digits", DASKEVO_VENV=str(tmp_path))
    assert told.stdout == f"{typed}||nas digits\n"
    told = _start(DASKEVO_VENV=str(tmp_path))
    assert told.stdout.startswith(f"{typed}|{typed}|nas flights ")


def test_missing_ensurepip_is_said_with_its_remedy(tmp_path: Path) -> None:
    """A venv module that fails as Debian's does without python3-venv: exit code 2, the remedy, nothing left behind."""
    (tmp_path / "stand_in" / "venv").mkdir(parents=True)
    (tmp_path / "stand_in" / "venv" / "__init__.py").touch()
    (tmp_path / "stand_in" / "venv" / "__main__.py").write_text("import sys\nprint('no ensurepip here')\nsys.exit(1)\n")
    told = _start("setup", PYTHONPATH=str(tmp_path / "stand_in"), DASKEVO_VENV=str(tmp_path / "env"))
    assert told.returncode == 2
    assert "no ensurepip here" in told.stderr
    assert "apt install python3." in told.stderr
    assert not (tmp_path / "env").exists()


def test_a_folder_of_other_things_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("chapter 1")
    told = _start("setup", DASKEVO_VENV=str(tmp_path))
    assert told.returncode == 2
    assert "DASKEVO_VENV" in told.stderr
    assert (tmp_path / "thesis.tex").read_text() == "chapter 1"
