"""Waits for the first trainer and provider of a batch cluster, and says why they don't come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from daskevo.deploy.batch.job_status import JobReport, ask_for
from daskevo.deploy.configured import seconds
from daskevo.deploy.roles import EVALUATION, PROVIDER
from daskevo.errors import BatchSystemError

START_S = 3600.0
"""Default of ``daskevo.batch.start-timeout``: how long jobs may wait in the queue."""
ARRIVE_S = 180.0
"""Default of ``daskevo.batch.arrive-timeout``: how long a job may run before its workers are there."""
LOOK_S = 0.5
ASK_EVERY_S = 5.0
SILENT_S = 15.0
"""Seconds without any answer of the batch system after which that is said."""
LINES = 12
"""Last lines of a job's log that are quoted."""


def wait_for_workers(
    cluster: Any,
    *,
    start_timeout_s: float | None = None,
    arrive_timeout_s: float | None = None,
    on_wait: Callable[[str], None] | None = None,
    ask: Callable[[str, str], JobReport] = ask_for,
) -> None:
    """Wait until a batch cluster has a trainer and a provider.

    Parameters
    ----------
    cluster:
        Of :func:`daskevo.batch_cluster`, scaled.
    start_timeout_s, arrive_timeout_s:
        How long jobs may wait in the queue, and run before their workers are there; None: as configured under
        ``daskevo.batch.start-timeout`` and ``daskevo.batch.arrive-timeout``.
    on_wait:
        Called with what the batch system says of the jobs, whenever that changes.
    ask:
        Asks for a job, given the kind of batch system and the job's number.

    Raises
    ------
    BatchSystemError
        If no job was taken, all have ended, none starts in time, or what one starts doesn't come.
    """
    start_s = start_timeout_s or seconds("daskevo.batch.start-timeout", START_S)
    arrive_s = arrive_timeout_s or seconds("daskevo.batch.arrive-timeout", ARRIVE_S)
    began, asked = time.monotonic(), 0.0
    running: dict[str, float] = {}
    said = ""
    while (missing := _missing(cluster)) is not None:
        now = time.monotonic()
        jobs = {str(job.job_id): name for name, job in list(cluster.workers.items()) if job.job_id is not None}
        # Only then: as long as some job was taken, workers may come of that one.
        if not jobs:
            cluster.raise_failure()
        if jobs and now - asked > ASK_EVERY_S:
            asked = now
            reports = {job_id: ask(cluster.kind, job_id) for job_id in jobs}
            for job_id, report in reports.items():
                if report.state in ("running", "unknown"):
                    running.setdefault(job_id, now)
                else:
                    # Requeued, or it was only asked for in vain: what it has run counts from its next start.
                    running.pop(job_id, None)
            said = _tell(say_jobs(reports), said, on_wait)
            _check(cluster, reports, running, now, arrive_s, missing)
        if not jobs and cluster.worker_spec and now - began > SILENT_S:
            said = _tell(f"the batch system has not answered {cluster.job_cls.submit_command} yet", said, on_wait)
        if now - began > start_s and not jobs:
            raise BatchSystemError(
                f"no {missing} came within {start_s:g} s, and no job was submitted: {said or 'none was asked for'}",
                jobs=[],
            )
        if now - began > start_s:
            raise BatchSystemError(
                f"no {missing} came within {start_s:g} s: {said or 'nothing is known of the jobs'}. Wait for longer "
                "(daskevo.batch.start-timeout in Dask's configuration), or ask for less: fewer cores, a shorter "
                "walltime, another queue",
                jobs=sorted(jobs),
            )
        time.sleep(LOOK_S)


def _tell(words: str, said: str, on_wait: Callable[[str], None] | None) -> str:
    """Say something, unless it was said last; return it."""
    if words != said and on_wait is not None:
        on_wait(words)
    return words


def _missing(cluster: Any) -> str | None:
    """Return the role that no worker has yet."""
    # A copy: the cluster updates this on the event loop, in another thread.
    found = [worker.get("resources") or {} for worker in dict(cluster.scheduler_info["workers"]).values()]
    return next(
        (role for role, key in (("trainer", EVALUATION), ("provider", PROVIDER)) if not any(key in f for f in found)),
        None,
    )


def _check(
    cluster: Any,
    reports: Mapping[str, JobReport],
    running: Mapping[str, float],
    now: float,
    arrive_s: float,
    missing: str,
) -> None:
    """Raise if all jobs have ended, or one runs for long without any of its workers having joined."""
    if all(report.state == "over" for report in reports.values()):
        job_id, report = list(reports.items())[-1]
        raise BatchSystemError(
            f"job {job_id} ended before a {missing} of it came: {report.why}. {last_words(cluster, job_id)}",
            jobs=[job_id],
        )
    late = [job_id for job_id, since in running.items() if job_id in reports and now - since > arrive_s]
    late = [job_id for job_id in late if reports[job_id].state in ("running", "unknown")]
    if late:
        address = cluster.scheduler_address
        raise BatchSystemError(
            f"job {late[0]} has run for {arrive_s:g} s and no {missing} of it has come to the scheduler at {address}. "
            "Can a node reach that address? If it is one that only this host knows, name the network that both are on: "
            f"interface in dask-jobqueue's YAML, such as ib0. {last_words(cluster, late[0])}",
            jobs=late,
            address=address,
        )


def say_jobs(reports: Mapping[str, JobReport]) -> str:
    """Return what is known of some jobs, in a line.

    Examples
    --------
    >>> say_jobs({"7": JobReport("waiting", "PENDING (Resources)"), "8": JobReport("running", "RUNNING")})
    'job 7: PENDING (Resources); job 8: RUNNING'
    """
    return "; ".join(f"job {job_id}: {report.why or report.state}" for job_id, report in reports.items())


def last_words(cluster: Any, job_id: str) -> str:
    """Say what a job has written, or where it would have."""
    folder = Path(cluster.log_directory)
    number = job_id.partition(".")[0]
    # By the whole number: job 1 must not be given the words of job 12. Nodes may write their files late.
    files = [path for path in sorted(folder.glob(f"*{number}*")) if number in re.split(r"\D+", path.name)]
    written = [path for path in files if path.is_file() and path.stat().st_size]
    if not written:
        return f"It has written nothing yet into {folder}"
    lines = written[0].read_text(errors="replace").strip().splitlines()[-LINES:]
    return f"The last lines of {written[0]}:\n  " + "\n  ".join(lines)
