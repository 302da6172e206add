"""What batch systems say of a job, in their own words, and the walltimes that they take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from daskevo.deploy.batch.job_status import JobReport, ask_for, read_qstat, read_scontrol
from daskevo.deploy.batch.walltime import margin_s, walltime_s
from daskevo.errors import InvalidInput

SCONTROL = (
    "JobId=12 JobName=daskevo UserId=me(1000) Account=mine QOS=normal JobState={state} Reason={reason} "
    "Dependency=(null) Requeue=1 ExitCode={code} RunTime=00:00:12 TimeLimit=00:10:00"
)
QSTAT = "Job Id: 12.pbs\n    Job_Name = daskevo\n    job_state = {state}\n    queue = prod\n{more}"


@pytest.mark.parametrize(
    ("state", "reason", "code", "expected"),
    [
        ("PENDING", "Priority", "0:0", JobReport("waiting", "PENDING (Priority)")),
        ("PENDING", "QOSMaxJobsPerUserLimit", "0:0", JobReport("waiting", "PENDING (QOSMaxJobsPerUserLimit)")),
        ("CONFIGURING", "None", "0:0", JobReport("waiting", "CONFIGURING")),
        ("RUNNING", "None", "0:0", JobReport("running", "RUNNING")),
        ("COMPLETING", "None", "0:0", JobReport("running", "COMPLETING")),
        ("TIMEOUT", "TimeLimit", "0:15", JobReport("over", "TIMEOUT (TimeLimit), exit code 0:15")),
        ("CANCELLED", "None", "0:0", JobReport("over", "CANCELLED, exit code 0:0")),
        ("NODE_FAIL", "None", "1:0", JobReport("over", "NODE_FAIL, exit code 1:0")),
    ],
)
def test_scontrol(state: str, reason: str, code: str, expected: JobReport) -> None:
    assert read_scontrol(SCONTROL.format(state=state, reason=reason, code=code)) == expected


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        ("Q", "", JobReport("waiting", "Q")),
        ("H", "    comment = held by user\n", JobReport("waiting", "H (held by user)")),
        ("R", "    comment = Job run at Sun\n", JobReport("running", "R (Job run at Sun)")),
        ("F", "    Exit_status = 271\n", JobReport("over", "F, exit code 271")),
        ("C", "", JobReport("over", "C, exit code unknown")),
        ("?", "", JobReport("unknown", "?")),
    ],
)
def test_qstat(state: str, more: str, expected: JobReport) -> None:
    assert read_qstat(QSTAT.format(state=state, more=more)) == expected


def test_an_ended_job_is_looked_for_in_the_history_of_pbs() -> None:
    asked: list[list[str]] = []

    def run(words: Sequence[str]) -> str | None:
        asked.append(list(words))
        return QSTAT.format(state="F", more="    Exit_status = 1\n") if "-x" in words else None

    assert ask_for("pbs", "12.pbs", run) == JobReport("over", "F, exit code 1")
    assert asked == [["qstat", "-f", "12.pbs"], ["qstat", "-x", "-f", "12.pbs"]]


@pytest.mark.parametrize("kind", ["slurm", "pbs", "lsf"])
def test_who_says_nothing_is_no_reason_to_give_up(kind: str) -> None:
    assert ask_for(kind, "12", lambda words: None) == JobReport("unknown")


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error", "JobId=12"])
def test_words_that_are_not_understood(said: str) -> None:
    assert read_scontrol(said).state == "unknown"
    assert read_qstat(said).state == "unknown"


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("30", "slurm", 1_800),
        ("30:15", "slurm", 1_815),
        ("1-0", "slurm", 86_400),
        ("1-02:03", "slurm", 93_780),
        ("1-02:03:04", "slurm", 93_784),
        ("UNLIMITED", "slurm", math.inf),
        ("infinite", "slurm", math.inf),
        ("02:00:00", "pbs", 7_200),
        ("3600", "pbs", 3_600),
        ("48:00:00", "pbs", 172_800),
        ("2:00", "lsf", 7_200),
        ("120", "lsf", 7_200),
        ("02:00:00", "oar", 7_200),
        (3_600, "sge", 3_600),
    ],
)
def test_walltimes(text: object, kind: str, expected: float) -> None:
    assert walltime_s(text, kind=kind) == expected


@pytest.mark.parametrize("text", ["", "soon", "2h", "1:2:3:4", "-5", "00:00:00", "1:", "1-"])
def test_walltimes_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="walltime"):
        walltime_s(text)


@pytest.mark.parametrize("walltime", [30, 60, 600, 7_200, 604_800])
def test_workers_leave_between_the_beginning_and_the_walltime(walltime: float) -> None:
    assert 0 < margin_s(walltime) <= min(300, walltime / 2)
