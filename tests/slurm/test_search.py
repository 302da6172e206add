"""Searches whose nodes are jobs of a real Slurm: some are cancelled, one reaches its walltime, the budget is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import daskevo
from daskevo.runs import RunView
from tests.slurm.command import daskevo as command
from tests.slurm.command import environment, finished, summary, write_problem
from tests.slurm.running import Slurm
from tests.waiting import wait_until


@pytest.mark.long
def test_a_job_that_is_cancelled_and_one_at_its_walltime(slurm: Slurm, tmp_path: Path) -> None:
    problem, run = write_problem(tmp_path, 4.0), tmp_path / "run"
    words = ["nas", problem, "--evaluations", "60", "--cluster", "slurm", "--jobs", "3", "--run", run, "--json"]
    process = command(*words, env=environment(slurm, tmp_path / "config"))
    try:
        wait_until(lambda: (finished(run) > 2 and len(slurm.jobs("RUNNING")) == 3) or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
        first, second, third = sorted(slurm.jobs("RUNNING"), key=int)
        # Slurm looks at limits every half minute.
        slurm.run("scontrol", "update", f"JobId={first}", "TimeLimit=1")
        slurm.run("scancel", second)
        wait_until(lambda: slurm.state(first) == "TIMEOUT")
        wait_until(lambda: process.poll() is not None)
        out, err = process.communicate()
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()
    assert summary(out)["evaluations"] == 60
    assert slurm.state(second) == "CANCELLED"
    with RunView(run) as view:
        reports = view.reports()
        again = view.events("again")
        places = Counter(unit.worker for unit in view.units() if unit.worker is not None)
    assert Counter(report.status for report in reports)["finished"] == 60
    assert len({report.number for report in reports}) == len(reports)
    assert again
    # All three were there, and those that went were replaced.
    assert len(places) == 3
    assert max(int(job) for job in slurm.jobs("ALL")) >= int(third) + 2
    assert not slurm.jobs("RUNNING", "PENDING")
    assert daskevo.open(run / "repository", "sleeping").verify().clean


@pytest.mark.long
def test_the_pbs_class(slurm: Slurm, tmp_path: Path) -> None:
    problem, run = write_problem(tmp_path, 0.1), tmp_path / "run"
    process = command(
        *["nas", problem, "--evaluations", "6", "--cluster", "pbs", "--run", run, "--json"],
        env=environment(slurm, tmp_path / "config", "pbs"),
        cwd=tmp_path,  # where jobs of PBS write
    )
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert summary(out)["evaluations"] == 6
    assert daskevo.open(run / "repository", "sleeping").verify().clean
