"""The command `daskevo` on a Slurm of its own, configured as its users do: by YAML files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from daskevo.runs import RunView
from tests.slurm.running import Slurm

BATCH: Mapping[str, Any] = {
    "cores": 2,
    "memory": "4GiB",
    "processes": 1,
    "walltime": "00:10:00",
    "scheduler-options": {"host": "127.0.0.1"},
}


def write_problem(folder: Path, seconds: float) -> Path:
    """Write a problem whose evaluations sleep for so long."""
    text = (Path(__file__).parent / "sleeping.py").read_text()
    path = folder / "sleeping.py"
    path.write_text(text.replace("SECONDS = 1.0", f"SECONDS = {seconds}"))
    return path


def environment(slurm: Slurm, folder: Path, kind: str = "slurm", **batch: Any) -> dict[str, str]:
    """Return an environment in which Dask's configuration lies in a folder, for commands on this Slurm."""
    folder.mkdir(parents=True, exist_ok=True)
    words = {
        "jobqueue": {kind: {**BATCH, "local-directory": str(folder / "scratch"), **batch}},
        "distributed": {"deploy": {"lost-worker-timeout": "3s"}},
    }
    (folder / "batch.yaml").write_text(yaml.safe_dump(words))
    return {**slurm.environment, "DASK_CONFIG": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}


def daskevo(*words: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Start a command of daskevo."""
    code = "from daskevo_workflows.cli import main; main(prog_name='daskevo')"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **{"env": os.environ, **options},
    )


def summary(stdout: str) -> dict[str, Any]:
    """Return the last line, of JSON."""
    found: dict[str, Any] = json.loads(stdout.strip().splitlines()[-1])
    return found


def finished(run: Path) -> int:
    """Return how many evaluations a run has finished."""
    if not (run / "run.json").exists():
        return 0
    with RunView(run) as view:
        return sum(report.status == "finished" for report in view.reports())
