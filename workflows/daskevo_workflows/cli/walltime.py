"""The time limit of a command: from its batch job, from `--walltime`, or from the batch system's first SIGTERM."""

from __future__ import annotations

import math
import signal
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click

from daskevo_workflows.cli.exit_codes import STOPPED_FOR_TIME
from daskevo_workflows.cli.interrupts import INTERRUPTED, Interrupts
from daskevo_workflows.cli.run_messages import how_to_go_on, kept

TOO_SHORT = 2
"""Exit code if the whole time was too short for any work: repeating the command would not help."""

ASK_EVERY_S = 300.0
"""Interval at which the batch system is asked again, since limits of running jobs can be changed."""


class WalltimeType(click.ParamType[Any]):
    """``auto``, ``none``, or seconds as ``[D-]HH:MM:SS``."""

    name = "walltime"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from daskevo.batch_formats import seconds_of

        # click hands over defaults too, and requires that a value which is converted already passes.
        if value in ("auto", "none") or isinstance(value, float):
            return value
        seconds = seconds_of(str(value))
        if not seconds or not math.isfinite(seconds):
            self.fail(f"{value!r} is neither auto, none, nor a time such as 12:00:00 or 1-00:00:00", param, ctx)
        return seconds


walltime_option = click.option(
    "--walltime",
    type=WalltimeType(),
    metavar="auto|none|[D-]HH:MM:SS",
    default="auto",
    show_default=True,
    help="End within this time: start nothing that would take longer, keep finished work, and end with exit code 75; "
    "the same command continues. auto: the time limit of the Slurm or PBS job that the command runs in; none: no "
    "limit.",
)
"""Adds `walltime` to a command."""


class Walltime:
    """The time limit of one command, counted from now.

    Parameters
    ----------
    asked:
        The option.
    interrupts:
        Receives the signals.
    """

    def __init__(self, asked: str | float, interrupts: Interrupts) -> None:
        from daskevo_workflows.execution.batch_job_deadline import this_job

        self._interrupts = interrupts
        self._job = this_job()
        self._at = time.time() + asked if isinstance(asked, float) else None
        self._asks = asked == "auto" and self._job is not None
        self._asked_at = 0.0

    def gently(self) -> AbstractContextManager[None]:
        """In a batch job let the first SIGTERM set a deadline instead of ending the work at once."""
        from daskevo_workflows.execution.run_deadline import grace_s

        return self._interrupts.gently(None if self._job is None else grace_s())

    @property
    def is_told(self) -> bool:
        """Whether the batch system has told this process to end."""
        return self._interrupts.ends is not None

    def say(self) -> None:
        """Print the time limit found, on stderr."""
        from daskevo_workflows.execution.batch_job_deadline import limit_of, say_limit

        if self._job is None or not self._asks:
            return
        limit, now = limit_of(self._job), time.time()
        self._at, self._asked_at = limit.at, time.monotonic()
        click.echo(say_limit(self._job, limit, now), err=True)

    def deadline(self) -> float | None:
        """Return the current deadline, in seconds since the epoch; None if there is none."""
        # What the batch system says by SIGTERM goes before what it said about the limit: a job may be preempted.
        if (told := self._interrupts.ends) is not None:
            return told
        if self._asks and self._job is not None and time.monotonic() - self._asked_at > ASK_EVERY_S:
            from daskevo_workflows.execution.batch_job_deadline import limit_of

            self._asked_at = time.monotonic()
            # No answer this time: the last one known stays, rather than no limit at all.
            self._at = limit_of(self._job).at or self._at
        return self._at


def end_stopped(interrupts: Interrupts, folder: Path, what: str) -> None:
    """End a command that was interrupted, by the batch system (whose next job continues) or by a user."""
    from daskevo_workflows.execution.batch_job_deadline import this_job

    click.echo(how_to_go_on(folder, what), err=True)
    # 75 lets the next job of a chain go on. Outside of a job a SIGTERM comes from a person, who wants an end.
    sys.exit(STOPPED_FOR_TIME if interrupts.number == signal.SIGTERM and this_job() is not None else INTERRUPTED)


def end_out_of_time(folder: Path, what: str, *, done: bool, why: str) -> None:
    """End a command whose time is over.

    Parameters
    ----------
    what:
        What is kept, such as ``Every finished evaluation is kept``.
    done:
        Whether anything was done in its time.
    why:
        Why it ended, as a sentence.
    """
    if done:
        click.echo(f"Stopped for its walltime. {kept(folder, what)}", err=True)
        sys.exit(STOPPED_FOR_TIME)
    # Not 75: each job of a chain would end like this one, for ever.
    more = "with a longer walltime (--walltime, and the job's own limit), the same command gets further"
    click.echo(f"Nothing was finished within this walltime: {why}. {kept(folder, what, more)}", err=True)
    sys.exit(TOO_SHORT)
