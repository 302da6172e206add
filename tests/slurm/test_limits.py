"""When a job ends, as a real Slurm says it: by squeue, and by the qstat that it has for users of PBS."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from daskevo.batch_formats import qstat_facts
from daskevo_workflows.execution.batch_job_deadline import BatchJob, limit_of
from tests.slurm.running import Slurm
from tests.waiting import wait_until


@pytest.fixture
def job(slurm: Slurm, tmp_path: Path) -> str:
    """A job of ten minutes that runs."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\nsleep 600\n")
    number = slurm.run("sbatch", "--parsable", "--time=10", "--output=/dev/null", str(script))
    wait_until(lambda: slurm.state(number) == "RUNNING")
    return number


def end_of(slurm: Slurm, job: str) -> float:
    words = slurm.run("scontrol", "--oneliner", "show", "job", job).split()
    return datetime.fromisoformat(next(word[8:] for word in words if word.startswith("EndTime="))).timestamp()


@pytest.mark.long
def test_the_end_of_a_job_is_found_out_and_may_change(slurm: Slurm, job: str) -> None:
    def ask(command: Sequence[str], more: Mapping[str, str]) -> str:
        return slurm.run("env", *(f"{name}={value}" for name, value in more.items()), *command)

    try:
        for minutes in (10, 20):
            slurm.run("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")
            assert limit_of(BatchJob("Slurm", job), {}, ask) == (end_of(slurm, job), "squeue")
        # The qstat of Slurm's own says no more of a job's beginning than its walltime.
        assert qstat_facts(ask(("qstat", "-f", job), {}))["Resource_List.walltime"] == "00:20:00"
        began = time.time() - 100
        found = limit_of(BatchJob("PBS", job), {}, lambda *asked: "100" if asked[0][0] == "ps" else ask(*asked))
        assert found.at == pytest.approx(began + 20 * 60, abs=60)
    finally:
        slurm.run("scancel", job)
