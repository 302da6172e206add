"""`daskevo report`: the HTML report of one run, or of two side by side."""

from __future__ import annotations

from pathlib import Path

import click

from daskevo_workflows.cli.completion import FOLDER


@click.command(short_help="Write the report of a run, or of two side by side, as one HTML file.")
@click.argument("run", type=FOLDER)
@click.argument("other", type=FOLDER, required=False)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page.  [default: RUN/report.html, or RUN/report-with-OTHER.html]",
)
def report(run: Path, other: Path | None, output: Path | None) -> None:
    """Write the report of the run in folder RUN; with OTHER, of both side by side.

    \b
    A search while it goes on, and beside another one:
        daskevo report runs/digits-seed0
        daskevo report runs/digits-seed0 runs/digits-seed0-no-transfer

    The page is one HTML file that loads nothing.
    """
    from daskevo_workflows.reports import write_report

    click.echo(str(write_report(run, other, output)))
