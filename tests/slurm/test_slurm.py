"""The Slurm that the other tests of this folder use: jobs run on its nodes, and are told before they are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.running import Slurm
from tests.waiting import wait_until


@pytest.mark.long
def test_a_job_that_is_cancelled_is_told_before_it_is_killed(slurm: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(
        # Slurm tells nobody of a job that is still being launched, as it is for a moment once its script runs.
        f"#!/bin/bash\ntrap 'echo told > {tmp_path}/told; exit' TERM\nsleep 3\ntouch {tmp_path}/on\nsleep 60 & wait\n"
    )
    job = slurm.run("sbatch", "--parsable", "--output=/dev/null", str(script))
    wait_until((tmp_path / "on").exists)
    assert slurm.state(job) == "RUNNING"
    slurm.run("scancel", "--full", job)
    wait_until(lambda: slurm.state(job) == "CANCELLED")
    wait_until((tmp_path / "told").exists)
