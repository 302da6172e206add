"""The script of jobs of several nodes in examples/batch, as it stands, on a real Slurm.

That of one such job has the same lines (tests/examples/test_batch.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import daskevo
from tests.slurm.command import write_problem
from tests.slurm.running import Slurm

SCRIPT = Path(__file__).parents[2] / "examples" / "batch" / "search-chain.slurm"
OF_THE_SITE = ("--account", "--partition", "--gpus-per-node", "--exclusive", "--nodes", "--cpus-per-task")


@pytest.mark.long
def test_a_search_in_one_job_of_two_nodes(slurm: Slurm, tmp_path: Path) -> None:
    lines = SCRIPT.read_text().splitlines()
    script = tmp_path / SCRIPT.name
    script.write_text(
        "\n".join(line for line in lines if not line.startswith(tuple(f"#SBATCH {n}" for n in OF_THE_SITE)))
    )
    run = tmp_path / "runs" / "one"
    asked = {
        "RUN": str(run),
        "PROBLEM": str(write_problem(tmp_path, 0.1)),
        "EVALUATIONS": "4",
        "TRAINERS": "1",
        "INTERFACE": "lo",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["sbatch", "--wait", "--nodes=2", "--cpus-per-task=2", f"--output={tmp_path}/said", str(script)],
        env={**slurm.environment, **asked},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = (tmp_path / "said").read_text()
    assert done.returncode == 0, said
    assert "4 evaluations" in said
    assert daskevo.open(run / "repository", "sleeping").verify().clean
    # The scheduler has ended, and took its file along.
    assert [path.name for path in run.parent.iterdir()] == ["one"]
    # The next job was there, and was withdrawn.
    assert slurm.jobs() == []
    assert len(slurm.jobs("CANCELLED")) == 1
