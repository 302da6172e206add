"""The command `daskevo forecast`: estimate hours, jobs and bytes of a search from a few measured evaluations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.completion import PROBLEM
from daskevo_workflows.cli.invocation import command, keep_whole
from daskevo_workflows.cli.json_lines import AS_JSON, FORECAST_KEYS, print_json_line
from daskevo_workflows.cli.nas import nas
from daskevo_workflows.cli.paths import RUN, problem_word
from daskevo_workflows.cli.run_options import COUNT
from daskevo_workflows.cli.walltime import WalltimeType

if TYPE_CHECKING:
    from daskevo_workflows.execution.machine_load import Load
    from daskevo_workflows.results.forecast import Forecast, Range


@click.command(short_help="Estimate hours, jobs and bytes of a search.")
@click.argument("problem", metavar="PROBLEM|RUN", type=PROBLEM)
@click.option(
    "--evaluations", type=COUNT, required=True, metavar="N", help="Number of finished evaluations of the whole search."
)
@click.option("--trainers", type=COUNT, required=True, metavar="N", help="Total number of trainers on all nodes.")
@click.option(
    "--walltime", type=WalltimeType(), metavar="[D-]HH:MM:SS", help="Time limit of each job that the search runs in."
)
@click.option(
    "--measure",
    type=click.IntRange(min=3),
    default=10,
    show_default=True,
    metavar="N",
    help="Evaluations to measure first, on this machine with one trainer, unless a run's folder is given.",
)
@click.option(
    "--first",
    type=click.IntRange(min=3),
    metavar="N",
    help="Use only the first N evaluations of a run, to compare the estimate with its actual end.  [default: all]",
)
@AS_JSON
def forecast(
    problem: str,
    evaluations: int,
    trainers: int,
    walltime: Any,
    measure: int,
    first: int | None,
    as_json: bool,
) -> None:
    """Estimate what a search will need, and on which assumptions: hours, jobs of a given walltime, bytes on disk.

    PROBLEM is one that daskevo nas takes. A few evaluations of it are run first, on this machine with default settings,
    in runs/PROBLEM-forecast, where later forecasts reuse them. RUN is the folder of an existing run, best one on the
    machine and with the settings that you will use.

    \b
    Ten evaluations on this machine, then what 2000 would take on 4 nodes of 4 GPUs:
        daskevo forecast flights --evaluations 2000 --trainers 16 --walltime 02:00:00
    From an existing run:
        daskevo forecast runs/flights --evaluations 2000 --trainers 16
    """
    from daskevo_workflows.execution.run_deadline import grace_s
    from daskevo_workflows.results.forecast import forecast as foretell
    from daskevo_workflows.results.forecast_measures import measure as read

    folder, again = Path(problem), ""
    if not (folder / RUN).exists():
        folder = Path("runs") / f"{problem_word(problem)}-forecast"
        again = f" (it measures anew once {folder} is removed)"
        _run_some(problem, folder, measure)
    # auto and none are for a command that runs in the job itself; here they set no limit.
    seconds = walltime if isinstance(walltime, float) else None
    found = foretell(read(folder, first), evaluations, trainers, seconds, grace_s())
    _say(found, folder, err=as_json)
    if found.load is not None and found.load.is_too_much:
        click.echo(_warning(found.load) + again, err=True)
    if as_json:
        print_json_line(FORECAST_KEYS, asdict(found))


def _run_some(problem: str, folder: Path, evaluations: int) -> None:
    """Run a short search in a folder that later forecasts reuse."""
    click.echo(f"Measuring {evaluations} evaluations on this machine, with one trainer:", err=True)
    context = click.get_current_context()
    # Hints of that search repeat `daskevo forecast` as it was typed, which takes no --run.
    keep_whole(context)
    try:
        context.invoke(nas, problem=problem, evaluations=evaluations, folder=folder, workers=1, as_json=False)
    # `nas` ends its command; 0 means that there are evaluations to read.
    except SystemExit as ending:
        if ending.code:
            raise


def _say(found: Forecast, folder: Path, *, err: bool) -> None:
    from daskevo_plugins.formatting import say_bytes, say_count, say_seconds

    seconds = found.seconds
    click.echo(
        f"{say_count(found.evaluations, 'evaluation')} on {say_count(found.trainers, 'trainer')}: "
        f"{say_seconds(seconds.value)} ({say_seconds(seconds.low)} to {say_seconds(seconds.high)})",
        err=err,
    )
    if found.jobs is not None:
        click.echo(f"jobs: {_whole(found.jobs)}, of some {found.evaluations_per_job} evaluations each", err=err)
    click.echo(
        f"on the disk: {say_bytes(found.living_bytes)} of the living models at the end; {say_bytes(found.all_bytes)} "
        f"if none were retired; {say_bytes(found.full_bytes)} as full copies",
        err=err,
    )
    click.echo(f"measured in {folder}. It rests on this:", err=err)
    for line in found.assumptions:
        click.echo(f"  - {line}", err=err)
    click.echo(f"More evaluations there make it better: {command('nas', '...', '--run', folder)}", err=err)


def _warning(load: Load) -> str:
    from daskevo_plugins.formatting import say_count

    return (
        f"Warning: the machine had more to do than it has cores while this was measured, a load average of "
        f"{load.mean:.1f} on {say_count(load.cores, 'core')}: where less runs beside it, a search takes less. Two "
        "forecasts compare only if their loads do; measure when nothing else runs"
    )


def _whole(jobs: Range) -> str:
    return f"{jobs.value:.0f}" if jobs.low == jobs.high else f"{jobs.value:.0f} ({jobs.low:.0f} to {jobs.high:.0f})"
