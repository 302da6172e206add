"""Options shared by `daskevo nas` and `daskevo tune`: trainers, seed, folder, repository, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from daskevo_workflows.cli.completion import FOLDER

COUNT = click.IntRange(min=1)
SECONDS = click.FloatRange(min=0, min_open=True)


def _claim(context: click.Context, option: click.Parameter, typed: tuple[str, ...]) -> None:
    """Make trainings of this process claim the resources given on the command line."""
    if not typed:
        return
    import dask

    from daskevo.deploy.configured import RESOURCES, read_resources
    from daskevo.errors import InvalidInput

    try:
        found = read_resources(" ".join(typed), "--resource")
    except InvalidInput as error:
        raise click.BadParameter(error.message, context, option) from error
    # Searches and studies read what they claim from Dask's configuration.
    dask.config.set({RESOURCES: found})


def _quota(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Parse a number of bytes such as ``500GB``."""
    # resilient_parsing: completion in a shell parses words that are half typed, and must not fail.
    if value is None or context.resilient_parsing:
        return None
    from daskevo.deploy.settings import quota_bytes
    from daskevo.errors import InvalidInput

    try:
        return quota_bytes(value)
    except InvalidInput as error:
        raise click.BadParameter(error.message, context, option) from error


quota_option = click.option(
    "--quota",
    callback=_quota,
    metavar="BYTES",
    help="Maximum size of all tensors in the repository, such as 500GB.  [default: no limit]",
)

time_limit_option = click.option(
    "--time-limit", type=SECONDS, metavar="S", help="Stop after this many seconds; the same command continues."
)


def run_options(what: str, folder: str, shared: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options `workers`, `seed`, `folder` and `root` to a command.

    Parameters
    ----------
    what:
        The word for the run, for help texts.
    folder:
        The default of `folder`.
    shared:
        What the option `--repository` can share, for its help text.
    """
    options = (
        click.option(
            "--workers",
            type=COUNT,
            metavar="N",
            help="Number of trainers of the local cluster.  [default: one per core]",
        ),
        click.option(
            "--resource",
            multiple=True,
            metavar="NAME=AMOUNT",
            expose_value=False,
            callback=_claim,
            help="Dask resource that each training needs besides its slot, such as GPU=1; may be given several times.  "
            "[default: daskevo.resources in Dask's configuration]",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=0,
            show_default=True,
            metavar="N",
            help=f"Seed of the {what}.",
        ),
        click.option(
            "--run",
            "folder",
            metavar="DIR",
            type=FOLDER,
            help=f"Folder of the {what}; an existing one is continued.  [default: {folder}]",
        ),
        click.option(
            "--repository",
            "root",
            metavar="ROOT",
            type=FOLDER,
            help=f"Root of the repository, to share {shared}.  [default: the run's own; in its folder if the run is "
            "new]",
        ),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add
