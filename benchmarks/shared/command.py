"""The options that the benchmarks with a rival have in common, and how their outcome is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo.errors import DaskevoError
from daskevo_workflows.measurements.plots import check_plot, save_plot

if TYPE_CHECKING:
    from benchmarks.shared.outcome import Outcome

Say = Callable[[str], None]
"""Takes one line about what is measured now."""


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
        try:
            if plot is not None:
                check_plot(plot)
            outcome = measure(quick, lambda line: click.echo(line, err=True), **options)
            if plot is not None:
                save_plot(outcome.draw, plot)
        except DaskevoError as error:
            refused = click.ClickException(str(error))
            refused.exit_code = 2
            raise refused from error
        click.echo(str(outcome), err=as_json)
        if as_json:
            click.echo(json.dumps(outcome.value, allow_nan=False))

    return run
