"""Find out when this process's batch job ends, by asking the batch system: fast, and never an error."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from daskevo.batch_formats import JOBS, qstat_facts, seconds_of

logger = logging.getLogger(__name__)

ASK_S = 10.0
"""Time limit for an answer of the batch system."""

Ask = Callable[[Sequence[str], Mapping[str, str]], str]
"""Runs a command with additional environment variables and returns its output; raises OSError or SubprocessError."""


class BatchJob(NamedTuple):
    """The job that this process runs in.

    Parameters
    ----------
    system:
        Name of its batch system, such as ``Slurm``.
    number:
        The job's id in the batch system.
    """

    system: str
    number: str

    def __str__(self) -> str:
        return f"{self.system} job {self.number}"


class Limit(NamedTuple):
    """When a job ends.

    Parameters
    ----------
    at:
        Seconds since the epoch; None: it has no end, or it is not known.
    source:
        Where this comes from, or why it is not known.
    """

    at: float | None
    source: str


def this_job(environment: Mapping[str, str] = os.environ) -> BatchJob | None:
    """Return the batch job that this process runs in; None if there is none."""
    found = ((system, environment.get(name, "")) for name, system in JOBS.items())
    return next((BatchJob(system, number) for system, number in found if number), None)


def limit_of(job: BatchJob, environment: Mapping[str, str] = os.environ, ask: Ask | None = None) -> Limit:
    """Return when a job ends, from the batch system if it answers, otherwise from the environment.

    Parameters
    ----------
    ask:
        Runs commands; None: as processes, each for `ASK_S` at most.
    """
    asking = ask or _ask
    if job.system == "Slurm":
        return _slurm(job.number, environment, asking)
    if job.system == "PBS":
        return _pbs(job.number, environment, asking)
    return Limit(None, f"how {job.system} says when a job ends is not known here")


def _slurm(number: str, environment: Mapping[str, str], ask: Ask) -> Limit:
    # Ask squeue first: the environment has the limit of the job's start, which `scontrol update` may have changed.
    command = ("squeue", "--noheader", f"--jobs={number}", "--format=%e")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = ask(command, {"SLURM_TIME_FORMAT": "%s"}).split()
        if words and words[0].isdigit():
            return Limit(float(words[0]), "squeue")
        if words and words[0] in ("N/A", "NONE", "Unknown"):
            return Limit(None, "it has no limit, squeue says")
    at = environment.get("SLURM_JOB_END_TIME", "")
    if at.isdigit():
        return Limit(float(at), "SLURM_JOB_END_TIME")
    return Limit(None, "squeue did not say when it ends, nor does SLURM_JOB_END_TIME")


def _pbs(number: str, environment: Mapping[str, str], ask: Ask) -> Limit:
    facts: dict[str, str] = {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        facts = qstat_facts(ask(("qstat", "-f", number), {}))
    remaining = seconds_of(facts.get("Walltime.Remaining", ""))
    if remaining is not None and math.isfinite(remaining):  # Torque's
        return Limit(time.time() + remaining, "qstat, Walltime.Remaining")
    walltime = seconds_of(facts.get("Resource_List.walltime", environment.get("PBS_WALLTIME", "")))
    if walltime is None:
        return Limit(None, "qstat did not say its walltime, nor does PBS_WALLTIME")
    if not math.isfinite(walltime):
        return Limit(None, "it has no limit, qstat says")
    for name in ("stime", "start_time"):
        with contextlib.suppress(ValueError):
            stated = datetime.strptime(facts.get(name, ""), "%a %b %d %H:%M:%S %Y").timestamp()
            return Limit(stated + walltime, f"qstat, {name} and walltime")
    begun = _session_began(ask)
    return Limit(None if begun is None else begun + walltime, "its walltime, since the job's script began")


def _session_began(ask: Ask) -> float | None:
    """Return when the first process of this session began, which is the job's script."""
    try:
        return time.time() - float(ask(("ps", "-o", "etimes=", "-p", str(os.getsid(0))), {}))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        logger.info("when the job's script began is not known: %s", error)
        return None


def _ask(command: Sequence[str], more: Mapping[str, str]) -> str:
    done = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        timeout=ASK_S,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **more},
    )
    return done.stdout


def say_limit(job: BatchJob, limit: Limit, now: float) -> str:
    """Describe a job's end on one line.

    Examples
    --------
    >>> say_limit(BatchJob("Slurm", "12"), Limit(1000.0, "squeue"), 400.0)
    'Slurm job 12 ends in 600.00 s (squeue)'
    >>> say_limit(BatchJob("LSF", "3"), Limit(None, "nobody says"), 0.0)
    'LSF job 3: nobody says; --walltime HH:MM:SS says when to end'
    """
    from daskevo_plugins.formatting import say_seconds

    if limit.at is None:
        return f"{job}: {limit.source}; --walltime HH:MM:SS says when to end"
    return f"{job} ends in {say_seconds(max(0.0, limit.at - now))} ({limit.source})"
