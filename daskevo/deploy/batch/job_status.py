"""What the batch system says of a job: that it waits and why, that it runs, that it is over."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from daskevo.batch_formats import qstat_facts

State = Literal["waiting", "running", "over", "unknown"]

ASK_S = 20.0
"""Longest wait for a word of the batch system."""

SLURM_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED")
SLURM_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT")
PBS_STATES: dict[str, State] = {"Q": "waiting", "H": "waiting", "W": "waiting", "T": "waiting", "S": "waiting"}
PBS_STATES |= {"R": "running", "E": "running", "B": "running", "C": "over", "F": "over", "X": "over"}


class JobReport(NamedTuple):
    """What is known of a job."""

    state: State
    why: str = ""
    """The batch system's own words for why it is not running."""


def ask_for(kind: str, job_id: str, run: Callable[[Sequence[str]], str | None] | None = None) -> JobReport:
    """Ask the batch system for a job; ``unknown`` where it can't be asked.

    Parameters
    ----------
    kind:
        ``slurm`` or ``pbs``; others are not asked.
    run:
        Runs a command and returns what it says; None if it fails.
    """
    run = run or _run
    if kind == "slurm":
        said = run(["scontrol", "--oneliner", "show", "job", job_id])
        return JobReport("unknown") if said is None else read_scontrol(said)
    if kind == "pbs":
        # PBS Professional tells of ended jobs with `-x` only. Torque tells of them without, and means XML by it.
        for words in (["qstat", "-f", job_id], ["qstat", "-x", "-f", job_id]):
            if (said := run(words)) is not None:
                return read_qstat(said)
    return JobReport("unknown")


def read_scontrol(said: str) -> JobReport:
    """Return what `scontrol show job` says of a job.

    Examples
    --------
    >>> read_scontrol("JobId=7 JobState=PENDING Reason=Resources Dependency=(null)")
    JobReport(state='waiting', why='PENDING (Resources)')
    >>> read_scontrol("JobId=7 JobState=FAILED Reason=NonZeroExitCode ExitCode=2:0")
    JobReport(state='over', why='FAILED (NonZeroExitCode), exit code 2:0')
    """
    fields = dict(re.findall(r"(\w+)=(\S*)", said))
    state, reason = fields.get("JobState", ""), fields.get("Reason", "None")
    words = state if reason in ("None", "") else f"{state} ({reason})"
    if state in SLURM_WAITING:
        return JobReport("waiting", words)
    if state in SLURM_RUNNING:
        return JobReport("running", words)
    if not state:
        return JobReport("unknown")
    # Slurm's other states are ends of a job: COMPLETED, FAILED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, and so on.
    return JobReport("over", f"{words}, exit code {fields.get('ExitCode', 'unknown')}")


def read_qstat(said: str) -> JobReport:
    """Return what `qstat -f` says of a job.

    Examples
    --------
    >>> read_qstat("Job Id: 7.pbs\\n    job_state = Q\\n    comment = Not Running: no free nodes\\n\\tat the moment\\n")
    JobReport(state='waiting', why='Q (Not Running: no free nodes at the moment)')
    """
    fields = qstat_facts(said)
    letter = fields.get("job_state", "")
    state = PBS_STATES.get(letter, "unknown")
    words = f"{letter} ({fields['comment']})" if fields.get("comment") else letter
    if state == "over":
        words += f", exit code {fields.get('Exit_status', fields.get('exit_status', 'unknown'))}"
    return JobReport(state, words)


def _run(words: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
