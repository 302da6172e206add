"""`daskevo bench`: measure daskevo against its rivals on this machine; one subcommand per benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from daskevo_workflows.cli.group import Commands

if TYPE_CHECKING:
    from daskevo_workflows.bench.outcome import Outcome

Say = Callable[[str], None]
"""Takes one line about what is measured now."""


@click.group(cls=Commands)
def bench() -> None:
    """Measure daskevo against its rivals on this machine."""


def measured(measure: Callable[..., Outcome]) -> Callable[..., None]:
    """Give a benchmark, a function of (quick, say) and of options of its own, the options that all of them have."""

    @click.option("--json", "as_json", is_flag=True, help="End with one line of JSON; the tables go to stderr.")
    @click.option(
        "--plot",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write a plot too, as SVG or PNG by the file's suffix.",
    )
    @click.option("--quick", is_flag=True, help="Toy sizes, seconds: to see that it runs, not to measure.")
    @wraps(measure)
    def run(as_json: bool, plot: Path | None, quick: bool, **options: Any) -> None:
        if plot is not None:
            from daskevo_workflows.bench.plots import check_plot

            check_plot(plot)
        outcome = measure(quick, lambda line: click.echo(line, err=True), **options)
        if plot is not None:
            from daskevo_workflows.bench.plots import save_plot

            save_plot(outcome.draw, plot)
        click.echo(str(outcome), err=as_json)
        if as_json:
            click.echo(json.dumps(outcome.value, allow_nan=False))

    return run


@bench.command()
@measured
def store(quick: bool, say: Say) -> Outcome:
    """Puts and reads of models through a repository, against HDF5, Keras' files, safetensors, raw files and memcpy.

    Takes some minutes, and about 4 GB in the folder for temporary files and in memory.
    """
    from daskevo_workflows.bench.store import measure

    return measure(quick, say)


@bench.command()
@measured
def nas(quick: bool, say: Say) -> Outcome:
    """Time to the first step, the repository's part of an evaluation, overhead beyond training."""
    from daskevo_workflows.bench.nas import measure

    return measure(quick, say)


@bench.command()
@click.option(
    "--models", type=click.IntRange(min=1000), help="Only catalogues of this size.  [default: 60000, and 600000]"
)
@click.option("--catalogue", type=click.Choice(["random", "lineage"]), help="Only this kind.  [default: both]")
@measured
def prefix(quick: bool, say: Say, models: int | None, catalogue: Literal["random", "lineage"] | None) -> Outcome:
    """Best-match queries: the index against Algorithm 1, SQLite and Redis.

    The JSON describes the first catalogue of the table.
    """
    from daskevo.index import PrefixIndex

    PrefixIndex().warm()  # says what to install where there is no numba, which the benchmark's own modules import too
    from daskevo_workflows.bench.prefix import CATALOGUES, SIZES, measure

    return measure(
        quick,
        say,
        CATALOGUES if catalogue is None else [catalogue],
        SIZES if models is None else [models],
    )
