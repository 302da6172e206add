"""The scripts of chains of jobs, in a real shell, with a batch system that only notes what it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

BATCH = Path(__file__).parents[2] / "examples" / "batch"

SUBMIT = {"slurm": "sbatch --parsable --dependency=afterany:7", "pbs": "qsub -W depend=afterany:7"}
WITHDRAW = {"slurm": "scancel 8", "pbs": "qdel 8"}


def run(kind: str, folder: Path, daskevo: str) -> subprocess.Popen[str]:
    """Start a job's script; what its commands were called with is in the file `told`."""
    programs = {"sbatch": "echo '8;here'", "qsub": "echo 8", "scancel": "", "qdel": "", "daskevo": daskevo}
    (folder / "bin").mkdir()
    for name, does in programs.items():
        path = folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/told\n{does}\n')
        path.chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(folder), "PBS_JOBID": "7", "PBS_O_WORKDIR": str(folder)}
    environment = {**os.environ, **variables, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.Popen(["bash", str(BATCH / f"chain.{kind}")], env=environment, text=True, start_new_session=True)


def told(folder: Path) -> list[str]:
    path = folder / "told"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
@pytest.mark.parametrize("code", [0, 1, 2, 75, 130])
def test_the_next_job_is_there_until_it_is_not_needed(kind: str, code: int, tmp_path: Path) -> None:
    assert run(kind, tmp_path, f"exit {code}").wait(60) == code
    submitted, searched, *withdrawn = told(tmp_path)
    assert submitted == f"{SUBMIT[kind]} {tmp_path}/chain.{kind}"
    assert searched.startswith("daskevo nas flights --evaluations 2000 --run ")
    assert withdrawn == ([] if code == 75 else [WITHDRAW[kind]])


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_a_word_to_all_processes_leaves_the_search_its_time(kind: str, tmp_path: Path) -> None:
    waits = f"trap 'sleep 0.5; echo ended >> {tmp_path}/told; exit 75' TERM\ntouch {tmp_path}/on\nsleep 60 & wait"
    process = run(kind, tmp_path, waits)
    deadline = time.monotonic() + 60
    while not (tmp_path / "on").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 75
    assert told(tmp_path)[-1] == "ended"
