"""The repository of a command that changes it: on the cluster that has it open, or on one of the command's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daskevo_workflows.cli.clusters import a_cluster
from daskevo_workflows.cli.invocation import command

if TYPE_CHECKING:
    from daskevo.repository import Repository

SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="The Dask scheduler of the job that has the repository open."
)


@contextlib.contextmanager
def open_to_change(
    root: Path, scope: str, scheduler: str | None, typed: Sequence[str | Path], objective: str | None = None
) -> Iterator[Repository]:
    """Yield a repository that can be changed.

    Parameters
    ----------
    root, scope, objective:
        As `daskevo.open` takes them.
    scheduler:
        The scheduler's address; None: a cluster of one worker is started.
    typed:
        The command, to be said with the right scheduler where another job has the repository open.

    Raises
    ------
    RepositoryTaken
        If another job has it open, with that command.
    """
    import daskevo
    from daskevo.errors import RepositoryTaken

    with a_cluster(scheduler, None if scheduler else 1, providers=0) as client:
        try:
            repository = daskevo.open(root, scope, client=client, objective=objective)
        except RepositoryTaken as error:
            address = error.facts.get("address")
            if scheduler is not None or address is None:
                raise
            raise type(error)(
                f"{error.message}. There, do it with\n    {command(*typed, '--scheduler', address)}", **error.facts
            ) from error
        yield repository
