"""Importing Keras quietly keeps what matters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daskevo_workflows.evaluation.quiet_import import _without


def test_only_harmless_lines_are_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    with _without((b"port.cc",)):
        os.write(2, b"I0000 port.cc:153] oneDNN custom operations are on.\nE0000 no GPU driver\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "E0000 no GPU driver\nafter\n"


@pytest.mark.long
def test_a_fresh_process_says_nothing(tmp_path: Path) -> None:
    """What TensorFlow prints while it is loaded, by a problem file that imports Keras at its top."""
    source = tmp_path / "mine.py"
    source.write_text((Path(__file__).parents[2] / "examples" / "03_my_problem.py").read_text())
    code = f"from daskevo_workflows.problems import load_problem; load_problem({str(source)!r}).build"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stderr == ""
