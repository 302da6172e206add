"""A study in a process that is to be killed: what it stores and trains stands in files of the folder that it is given.

``python killed_script.py FOLDER [ENDS]``: where the ends of so many trials are stored, training waits to be killed.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from daskevo.search import Grid
from daskevo.tuning import Run, Trajectory
from daskevo_workflows.stage_training.origin import versions
from daskevo_workflows.studies.stored_snapshots import described
from tests.studies.pretending import pretended
from tests.studies.threads import ThreadCrew

END = 16
"""Steps of a trial."""


def read_store(folder: Path) -> list[dict[str, Any]]:
    """Return what was stored: name, state, metrics, step and trajectory of each."""
    path = folder / "store"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


class Writing(ThreadCrew):
    """Trainers that write down what they do, with some time for each step."""

    def __init__(self, folder: Path, session: int, stored: list[dict[str, Any]], ends: int | None) -> None:
        super().__init__("t0", "t1", store={one["name"]: one["state"] for one in stored}, before_step=self.train)
        self.folder, self.session = folder, session
        self.ends, self.ended = ends, sum(one["step"] == END for one in stored)

    def train(self, trajectory: Trajectory, step: int) -> None:
        time.sleep(0.05)
        while self.ends is not None and self.ended >= self.ends:
            time.sleep(1.0)
        with self.lock:
            append(self.folder / "trained", f"{self.session} {trajectory.key(step)}")

    def put(self, run: Run, step: int, state: str, metrics: Mapping[str, float] | None) -> str:
        name = f"snap-{uuid.uuid4().hex}"
        extra = {"trajectory": described(run.trajectory, step), "step": step, "versions": versions()}
        stored = {"name": name, "state": state, "step": step, "metrics": metrics, "extra": extra}
        self.store[name] = state
        with self.lock:
            append(self.folder / "store", json.dumps(stored))
            self.ended += step == END
        return name


def main(place: str, ends: int | None = None) -> None:
    folder = Path(place)
    append(folder / "sessions", str(len(read_store(folder))))
    session = len((folder / "sessions").read_text().splitlines()) - 1
    stored = read_store(folder)
    crew = Writing(folder, session, stored, ends)
    with pretended(crew, folder, stored=[SimpleNamespace(**one) for one in stored]) as study:
        result = study.run(Grid())
        told = {str(report.number): dict(report.metrics) for report in result.reports}
        sys.stdout.write(json.dumps({"metrics": told, "trained": result.figures.trained_steps}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
