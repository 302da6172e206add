"""What batch systems say of the job that a process runs in: read, or done without, never an error."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import pytest

from daskevo_workflows.execution import batch_job_deadline
from daskevo_workflows.execution.batch_job_deadline import BatchJob, Limit, limit_of, say_limit, this_job

SLURM, PBS = BatchJob("Slurm", "12"), BatchJob("PBS", "7.head")


class Answers:
    """Answers each program with a text, or fails as told."""

    def __init__(self, **texts: str | Exception) -> None:
        self.texts = texts
        self.asked: list[tuple[tuple[str, ...], Mapping[str, str]]] = []

    def __call__(self, command: Sequence[str], more: Mapping[str, str]) -> str:
        self.asked.append((tuple(command), more))
        found = self.texts.get(command[0], FileNotFoundError(command[0]))
        if isinstance(found, Exception):
            raise found
        return found


def test_only_a_process_of_a_job_has_one() -> None:
    assert this_job({"PATH": "/bin", "SLURM_JOB_ID": ""}) is None
    assert this_job({"SLURM_JOB_ID": "12"}) == SLURM
    assert this_job({"PBS_JOBID": "7.head"}) == PBS
    assert str(this_job({"LSB_JOBID": "3"})) == "LSF job 3"


def test_slurm_is_asked_before_what_held_when_the_job_began() -> None:
    answers = Answers(squeue="1700000900\n")
    began = {"SLURM_JOB_END_TIME": "1700000000"}
    assert limit_of(SLURM, began, answers) == Limit(1700000900.0, "squeue")
    ((command, more),) = answers.asked
    assert "--jobs=12" in command
    assert more == {"SLURM_TIME_FORMAT": "%s"}


@pytest.mark.parametrize(
    "answer",
    ["", "soon", FileNotFoundError("squeue"), subprocess.TimeoutExpired("squeue", 10), PermissionError("squeue")],
)
def test_a_slurm_without_an_answer(answer: str | Exception) -> None:
    assert limit_of(SLURM, {"SLURM_JOB_END_TIME": "1700000000"}, Answers(squeue=answer)).at == 1700000000.0
    silent = limit_of(SLURM, {}, Answers(squeue=answer))
    assert silent.at is None
    assert "--walltime" in say_limit(SLURM, silent, 0.0)


def test_a_slurm_job_without_a_limit() -> None:
    assert limit_of(SLURM, {}, Answers(squeue="N/A")) == Limit(None, "it has no limit, squeue says")


@pytest.mark.parametrize("name", ["stime", "start_time"])
def test_pbs_says_when_it_began_and_for_how_long(name: str) -> None:
    began = "Mon Nov 27 06:51:13 2023"
    text = f"Job Id: 7.head\n    Job_Name = x\n    Resource_List.walltime = 01:00:00\n    {name} = {began}\n"
    at = datetime(2023, 11, 27, 7, 51, 13).timestamp()
    assert limit_of(PBS, {}, Answers(qstat=text)).at == at


def test_torque_says_what_remains() -> None:
    before = time.time()
    found = limit_of(PBS, {}, Answers(qstat="    Walltime.Remaining = 90\n"))
    assert found.at is not None
    assert before + 90 <= found.at <= time.time() + 90


def test_a_pbs_without_an_answer_has_its_walltime_from_the_environment() -> None:
    before = time.time()
    found = limit_of(PBS, {"PBS_WALLTIME": "600"}, Answers(ps="  100\n"))
    assert found.at is not None
    assert before + 500 <= found.at <= time.time() + 500
    assert limit_of(PBS, {"PBS_WALLTIME": "600"}, Answers(ps="?")).at is None
    assert limit_of(PBS, {}, Answers(qstat=subprocess.CalledProcessError(1, "qstat"))).at is None


def test_another_batch_system_has_no_limit_that_is_known() -> None:
    found = limit_of(BatchJob("LSF", "3"), {}, Answers())
    assert found.at is None
    assert "LSF" in found.source


def test_a_batch_system_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process, which would sleep for an hour."""
    monkeypatch.setattr(batch_job_deadline, "ASK_S", 0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        batch_job_deadline._ask(("sleep", "3600"), {})
    monkeypatch.setattr(batch_job_deadline, "ASK_S", 60.0)
    assert batch_job_deadline._ask(("printenv", "DASKEVO_TOLD"), {"DASKEVO_TOLD": "more"}) == "more\n"
