"""A study that is killed in the middle, twice, and has little room: the same command ends as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daskevo.runs import RunView
from daskevo.search import Request
from daskevo.tuning import Trajectory
from daskevo_workflows import tune
from daskevo_workflows.problems import refer
from daskevo_workflows.studies.trial_lines import Lines
from tests.waiting import wait_for_reports
from tests.workflows.gate import Gate

pytestmark = [pytest.mark.processes, pytest.mark.long]


SNAPSHOT_BYTES = 200_000
QUOTA = f"{SNAPSHOT_BYTES * 9 // 2} B"
"""Room for four snapshots. Seven are made, but for two that a kill may come before."""


def start(problem: Path, folder: Path, log: Path) -> subprocess.Popen[str]:
    script = Path(__file__).parent / "study_script.py"
    with log.open("w") as errors:
        return subprocess.Popen(
            [sys.executable, str(script), str(problem), str(folder), QUOTA],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def test_killed_twice_and_started_again(tuned: Callable[..., Path], tmp_path: Path) -> None:
    gate, log = Gate(tmp_path / "gate", 0), tmp_path / "log"
    problem = tuned("looped.py", GATE=str(gate.folder), PADDING_BYTES=SNAPSHOT_BYTES)
    for reports in (1, 2):
        # One more trial is scored, and the next waits: the study is not over before it is killed.
        gate.let(gate.came + 1)
        process = start(problem, tmp_path, log)
        try:
            wait_for_reports(tmp_path, reports, process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    gate.let(1000)
    process = start(problem, tmp_path, log)
    out, _ = process.communicate(timeout=500)
    assert process.returncode == 0, log.read_text()[-3000:]
    found = json.loads(out.splitlines()[-1])
    assert found["clean"]
    assert found["figures"][:2] == [32, 20]
    stored = [set(json.loads(line)) for line in (tmp_path / "stored").read_text().splitlines()]
    assert len(stored) == 3
    assert stored[1]
    with RunView(tmp_path / "run") as view:
        assert [session.ended for session in view.sessions()] == [None, None, "closed"]
        requests = view.requests()
        assert view.events("evicted") or view.events("not stored")
        session = -1
        trained = 0
        for event in view.events():
            session += event.kind == "session"
            if event.kind == "stage":
                trained += event.facts["stop"] - event.facts["start"]
                # What was stored when a process began was not trained again by it.
                assert event.facts["stop"] == event.facts["start"] or event.facts["state"] not in stored[session]
    assert found["figures"][2] == trained
    check_as_if_alone(problem, {int(number): metrics for number, metrics in found["metrics"].items()}, requests)


def check_as_if_alone(problem: Path, found: dict[int, dict[str, float]], requests: list[Request]) -> None:
    """Every trial has an answer, and some are trained by themselves here, from the first step on."""
    from daskevo_workflows.stage_training import begin

    assert sorted(found) == list(range(4))
    reference = refer(problem)
    loaded = reference.load()
    lines = Lines(tune.space_to_tune(loaded))
    for request in requests:
        trajectory = Trajectory("alone", lines.add(request).trial.configuration)
        training = begin(loaded, trajectory, loaded.data(), seed=3)
        training.advance(8, lambda reached: True)
        assert training.score() == found[request.number]
