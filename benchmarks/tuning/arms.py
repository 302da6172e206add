"""Arms of a comparison, each a process of its own: what is finished is not done again, what was stopped begins anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from daskevo_workflows.measurements.machine import machine_line

ROOT = Path(__file__).parents[2]
"""From where this package can be imported."""

FIGURES = "figures.json"

Row = dict[str, Any]


def arm(folder: Path, module: str, *words: str) -> dict[str, Any]:
    """Return the figures that `python -m MODULE FOLDER WORDS` leaves in the folder; time is of one go."""
    done = folder / FIGURES
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", module, str(folder.absolute()), *words], check=True, cwd=ROOT)
    return json.loads(done.read_text())


def done(folder: Path, figures: Mapping[str, Any]) -> None:
    """Leave an arm's figures."""
    (folder / FIGURES).write_text(json.dumps(figures))


def since_start_s() -> float:
    """Return the seconds since this process was started."""
    return time.time() - psutil.Process().create_time()


def keep(file: Path, rows: Iterable[Row]) -> None:
    """Write a file of figures: the machine, and a line for each arm."""
    machine = machine_line(["dask", "keras", "tensorflow", "optuna"])
    lines = ",\n".join(json.dumps(rounded(row), ensure_ascii=False) for row in rows)
    file.write_text(f'{{"machine": {json.dumps(machine)}, "arms": [\n{lines}\n]}}\n')


def kept(file: Path) -> tuple[str, list[Row]]:
    """Return machine and rows of a file of figures."""
    found = json.loads(file.read_text())
    return found["machine"], found["arms"]


def rounded(value: Any) -> Any:
    """Return figures with five digits, which is more than they are good for.

    >>> rounded({"s": [1.23456789, 2]})
    {'s': [1.2346, 2]}
    """
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, (list, tuple)) else value
