"""`daskevo figures` and `daskevo frame`: runs for a paper, as figures in files and as tables."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from daskevo_workflows.cli.completion import FOLDER

FORMATS = ("svg", "png", "pdf")
KINDS = ("evaluations", "units", "models", "events")
"""Copies of those of :mod:`daskevo_workflows.reports` and `results.frames`: importing them would slow `--help` down."""

RUNS = click.argument("runs", type=FOLDER, nargs=-1, required=True, metavar="RUN...")


@click.command(short_help="Write figures of runs for a paper, each in a file.")
@RUNS
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to; made if it isn't there.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(FORMATS),
    multiple=True,
    default=("svg", "png"),
    show_default="svg and png",
    help="May be given several times. png has 300 dpi.",
)
def figures(runs: tuple[Path, ...], output: Path, formats: tuple[str, ...]) -> None:
    """Write the figures of the runs in folders RUN, each one column wide, and captions.md with what they show.

    \b
    quality         of all candidates over time          (Figure 6 of the EvoStore paper)
    time-to-target  until so good a model was found      (7)
    runtime         by trainers, the repository's share  (8)
    tasks           what ran when on which trainer       (9)
    storage         stored bytes and full copies         (10)

    \b
    A search beside its control arm; three seeds of both, drawn as median and range:
        daskevo figures runs/digits-seed0 runs/digits-seed0-no-transfer -o figures
        daskevo figures runs/digits-seed[012] runs/digits-seed[012]-no-transfer -o figures --format pdf

    Runs that differ by their seed only are an arm. The same runs give the same bytes.
    """
    from daskevo_workflows.reports import write_figures

    for path in write_figures(runs, output, formats=formats):
        click.echo(str(path))


@click.command(short_help="Write what runs did as CSV, for pandas, R or a spreadsheet.")
@RUNS
@click.option("--of", type=click.Choice(KINDS), default="evaluations", show_default=True, help="What has a row each.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write to.  [default: standard output]",
)
def frame(runs: tuple[Path, ...], of: str, output: Path | None) -> None:
    """Write a table of the runs in folders RUN as CSV; `run`, `arm` and `seed` are the first columns.

    \b
    All evaluations of two runs, and what has become of the models of one:
        daskevo frame runs/digits-seed0 runs/digits-seed0-no-transfer -o evaluations.csv
        daskevo frame runs/digits-seed0 --of models | column -s, -t | less -S

    docs/results.md has the columns. `pandas.read_csv` reads it; result.frame() of Python is the same.
    """
    from daskevo_workflows.results.atomic_files import write_file
    from daskevo_workflows.results.frames import write_csv
    from daskevo_workflows.results.look import rows_of_runs

    rows = rows_of_runs(runs, of)
    if output is None:
        write_csv(rows, sys.stdout)
        return
    text = io.StringIO(newline="")
    write_csv(rows, text)
    click.echo(str(write_file(output, text.getvalue())))
