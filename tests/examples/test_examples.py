"""Each example runs as its docstring says, in a process of its own, and is short enough to be read at one go.

Those from 07 on run in `tests/docs/test_blocks.py`, on the one cluster of the pages.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(folder: Path, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=550, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.long
def test_search(tmp_path: Path) -> None:
    told = _run(tmp_path, sys.executable, str(EXAMPLES / "01_search.py"), "run")
    assert "reaches val_accuracy 0." in told
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.long
def test_repository(tmp_path: Path) -> None:
    told = _run(tmp_path, sys.executable, str(EXAMPLES / "02_repository.py"), "root")
    assert "3 classes: ancestor None, 0% of its vertices frozen" in told
    assert "75% of its vertices frozen" in told
    assert "left after both were released: 0 bytes" in told


def test_my_problem(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("daskevo")), "nas", str(EXAMPLES / "03_my_problem.py")]
    told = _run(tmp_path, *command, "--evaluations", "2", "--workers", "1", "--run", "moons", "--json")
    assert '"evaluations": 2, "failures": 0' in told.splitlines()[-1]


@pytest.mark.long
def test_tune(tmp_path: Path) -> None:
    told = _run(tmp_path, sys.executable, str(EXAMPLES / "06_tune.py"), "run")
    assert "a grid would train 64 epochs, of which 42 differ" in told
    assert "four epochs later: 0." in told
    asked, trained = map(int, re.search(r"asked for (\d+) epochs, trained (\d+)", told).groups())
    assert trained < asked


@pytest.mark.long
def test_deephyper(tmp_path: Path) -> None:
    pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")
    told = _run(tmp_path, sys.executable, str(EXAMPLES / "05_deephyper.py"), "log")
    assert "3 models are kept" in told
    assert len((tmp_path / "log" / "results.csv").read_text().splitlines()) == 9


@pytest.mark.parametrize(
    ("kind", "variable"), [("slurm", "#SBATCH"), pytest.param("pbs", "#PBS", marks=pytest.mark.long)]
)
def test_batch_script(kind: str, variable: str, tmp_path: Path) -> None:
    """A job is one provider beside four trainers that end before the walltime; no batch system is needed to see it."""
    script = _run(tmp_path, sys.executable, str(EXAMPLES / "04_batch_system.py"), kind, str(tmp_path), "0").splitlines()
    assert any(line.startswith(variable) for line in script)
    (node,) = (line for line in script if " node tcp://" in line)
    assert "--trainers 4 --providers 1" in node
    assert "--lifetime 6900s --lifetime-stagger 300s" in node


def test_batch_script_without_dask_jobqueue_says_what_to_install(tmp_path: Path) -> None:
    example = str(EXAMPLES / "04_batch_system.py")
    code = f"import runpy, sys; sys.modules['dask_jobqueue'] = None; runpy.run_path({example!r}, run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", code, "slurm", str(tmp_path), "0"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 1
    assert "pip install dask-jobqueue" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
