"""The cluster of a command whose nodes are jobs of a batch system."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from daskevo_workflows.cli.interrupts import put_off

if TYPE_CHECKING:
    from distributed import Client

LOGS = "jobs"
"""Folder of what the jobs of a run write, in the run's folder."""


class Jobs(NamedTuple):
    """How many jobs there are: the same number for as long as the command runs, or as many as have work."""

    minimum: int
    maximum: int


class JobsType(click.ParamType[Jobs]):
    """``4``, or ``1-8``."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Jobs:
        if isinstance(value, Jobs):
            return value
        first, dash, last = str(value).partition("-")
        try:
            jobs = Jobs(int(first), int(last if dash else first))
        except ValueError:
            self.fail(f"{value!r} is neither a number nor two, as in 1-8", param, ctx)
        if not 1 <= jobs.minimum <= jobs.maximum:
            self.fail(f"{value!r}: use 1 or more, and the smaller number first", param, ctx)
        return jobs


class Batch(NamedTuple):
    """A batch system, jobs on it, and the folder for what they write."""

    kind: str
    jobs: Jobs
    logs: Path


def batch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `scheduler`, `cluster` and `jobs` to a command."""
    # click lists options in the reverse of the order in which decorators are applied: the last one here comes first.
    for option in (
        click.option(
            "--jobs",
            type=JobsType(),
            metavar="N|MIN-MAX",
            help="Jobs on the batch system, each a node with a provider and trainers; of two numbers, as many as have "
            "work.  [default: 1]",
        ),
        click.option(
            "--cluster",
            metavar="slurm|pbs|...",
            help="Run on a batch system through dask-jobqueue, as its YAML file says (cores, memory, walltime, queue, "
            "account). sge, lsf, oar, moab and htcondor are passed through, untested.",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Use this Dask scheduler's cluster instead of a local one."
        ),
    ):
        command = option(command)
    return command


def batch_of(options: dict[str, Any], folder: Path) -> Batch | None:
    """Return the batch system that was asked for; None: there is none.

    Raises
    ------
    InvalidInput
        If other options say otherwise.
    """
    from daskevo.errors import InvalidInput

    kind, jobs = options["cluster"], options["jobs"]
    if kind is None:
        if jobs is not None:
            raise InvalidInput("--jobs is for a batch system: name it with --cluster, such as --cluster slurm")
        return None
    if options["scheduler"] is not None or options["workers"] is not None:
        raise InvalidInput(
            "--cluster makes a cluster of jobs: leave --scheduler and --workers out (how many trainers a job has is "
            "daskevo.batch.trainers-per-job in Dask's configuration, or processes in dask-jobqueue's YAML)"
        )
    # Absolute: a job may begin in another folder than this command's (PBS: in the user's home).
    return Batch(kind, jobs or Jobs(1, 1), folder.absolute() / LOGS)


@contextlib.contextmanager
def a_batch_cluster(batch: Batch) -> Iterator[Client]:
    """Yield a client of a new cluster on a batch system, once the first trainer and provider are there.

    Raises
    ------
    BatchSystemError, InvalidInput
        As :func:`daskevo.batch_cluster` and its waiting do.
    """
    import daskevo
    from daskevo.deploy.batch.first_workers import wait_for_workers

    with contextlib.ExitStack() as stack:
        with put_off():
            cluster = stack.enter_context(daskevo.batch_cluster(batch.kind, log_directory=batch.logs))
        # Only now: a batch system may take a minute to take a job, and is interrupted meanwhile.
        cluster.scale(jobs=batch.jobs.minimum)
        click.echo(f"jobs of {batch.kind} write into {batch.logs}", err=True)
        wait_for_workers(cluster, on_wait=lambda words: click.echo(words, err=True))
        if batch.jobs.maximum > batch.jobs.minimum:
            cluster.adapt(minimum_jobs=batch.jobs.minimum, maximum_jobs=batch.jobs.maximum)
        yield stack.enter_context(cluster.get_client())
