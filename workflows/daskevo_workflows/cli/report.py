"""The command `daskevo report`: the HTML report of one run, or of several side by side."""

from __future__ import annotations

from pathlib import Path

import click

from daskevo_workflows.cli.completion import FOLDER


@click.command(short_help="Write the report of a run, or of several side by side, as one HTML file.")
@click.argument("run", type=FOLDER)
@click.argument("others", type=FOLDER, nargs=-1)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page.  [default: RUN/report.html, or RUN/report-with-OTHER.html]",
)
def report(run: Path, others: tuple[Path, ...], output: Path | None) -> None:
    """Write the report of the run in folder RUN; with OTHERS, compare all of them.

    \b
    A running search; a search and its baseline; three seeds of both:
        daskevo report runs/digits-seed0
        daskevo report runs/digits-seed0 runs/digits-seed0-no-transfer
        daskevo report runs/digits-seed[012] runs/digits-seed[012]-no-transfer

    With more than two, runs that differ only in their seed are drawn as median and range. The page is one HTML file
    that loads nothing else; `daskevo figures` writes the figures as separate files, for a paper.
    """
    from daskevo_workflows.reports import write_report

    click.echo(str(write_report(run, *others, output=output)))
