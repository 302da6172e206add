"""A study that is killed in the middle, twice, ends as if nothing had happened, and trains nothing that was stored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daskevo.runs import RunView
from daskevo.tuning import Configuration, Trajectory
from daskevo_workflows.studies.trial_lines import Lines
from tests.studies.killed_script import read_store
from tests.studies.pretending import small_grid
from tests.studies.threads import figures
from tests.waiting import wait_for_reports


def start(folder: Path, *ends: int) -> subprocess.Popen[str]:
    script = Path(__file__).parent / "killed_script.py"
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), *map(str, ends)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
    )


@pytest.mark.long
def test_killed_twice_and_started_again(tmp_path: Path) -> None:
    for reports in (2, 6):
        process = start(tmp_path, reports)
        try:
            wait_for_reports(tmp_path, reports, process)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    process = start(tmp_path)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found = json.loads(out.splitlines()[-1])

    with RunView(tmp_path / "run") as view:
        assert [session.ended for session in view.sessions()] == [None, None, "closed"]
        requests, reports = view.requests(), view.reports()
    assert len(reports) == len(requests) == 12
    lines = Lines(small_grid())
    for request in requests:
        trial = lines.add(request).trial
        assert found["metrics"][str(request.number)] == figures(
            Trajectory("pretended", trial.configuration), trial.until
        )

    # What was stored when a process began, was not trained by it, nor anything on the way there.
    stored, counts = read_store(tmp_path), [int(line) for line in (tmp_path / "sessions").read_text().splitlines()]
    assert 0 == counts[0] < counts[1] < counts[2]
    trained: list[set[str]] = [set(), set(), set()]
    for line in (tmp_path / "trained").read_text().splitlines():
        session, key = line.split()
        assert key not in trained[int(session)]
        trained[int(session)].add(key)
    for session in (1, 2):
        covered: set[str] = set()
        for one in stored[: counts[session]]:
            trajectory = Trajectory("pretended", Configuration.from_json(one["extra"]["trajectory"]["configuration"]))
            covered.update(trajectory.key(step) for step in range(1, one["step"] + 1))
        assert trained[session]
        assert not trained[session] & covered
