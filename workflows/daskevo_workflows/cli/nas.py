"""`daskevo nas`: search architectures for a problem on a local cluster or one that runs already."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.lines import NAS_KEYS, print_json_line
from daskevo_workflows.cli.places import REPOSITORY, default_run_folder

if TYPE_CHECKING:
    from distributed import Client

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@click.command()
@click.argument("problem")
@click.option(
    "--evaluations", type=click.IntRange(min=1), default=100, show_default=True, help="Finished evaluations in total."
)
@click.option("--workers", type=click.IntRange(min=1), help="Trainers of the local cluster.  [default: one per core]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search.")
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path, file_okay=True),
    help="Folder of the run; a run that is there goes on.  [default: runs/PROBLEM-seedSEED]",
)
@click.option(
    "--repository",
    "root",
    type=click.Path(path_type=Path),
    help="Root of the repository.  [default: in the run's folder]",
)
@click.option(
    "--strategy",
    type=click.Choice(["evolution", "random"]),
    default="evolution",
    show_default=True,
    help="How candidates are chosen.",
)
@click.option("--population", type=click.IntRange(min=1), help="Members of the population of evolution.")
@click.option("--no-transfer", is_flag=True, help="Train each candidate from scratch: the baseline.")
@click.option(
    "--freeze",
    type=click.Choice(["prefix", "none"]),
    default="prefix",
    show_default=True,
    help="What of the inherited prefix is frozen.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Stop after so many seconds; the same command goes on.",
)
@click.option(
    "--evaluation-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Give an evaluation up after so many seconds.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Use the Dask cluster of this scheduler instead of a local one.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON for programs.")
def nas(problem: str, folder: Path | None, as_json: bool, **options: Any) -> None:
    """Search architectures for PROBLEM: a shipped one, or the path of a Python file.

    Candidates inherit and freeze the longest prefix that an earlier model has trained already. The same command started
    again goes on where it stopped.
    """
    transfer = not options["no_transfer"]
    if folder is None:
        folder = default_run_folder(problem, options["seed"], transfer=transfer, freeze=options["freeze"])
    with _stopped_like_ctrl_c(signal.SIGTERM):
        try:
            result = _search(problem, folder, transfer, options)
        except KeyboardInterrupt:
            click.echo(_how_to_go_on(folder), err=True)
            sys.exit(INTERRUPTED)
    if as_json:
        print_json_line(NAS_KEYS, result.summary())


def _search(problem: str, folder: Path, transfer: bool, options: dict[str, Any]) -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from daskevo.types import Objective
    from daskevo_workflows import nas as pipeline
    from daskevo_workflows.cli.progress import ProgressLine
    from daskevo_workflows.problems import load_problem

    loaded = load_problem(problem)
    strategy = _strategy(options)
    line = ProgressLine(Objective.parse(loaded.objective).metric)
    with _cluster(options["scheduler"], options["workers"]) as client, contextlib.closing(line):
        import daskevo

        root = options["root"] or folder / REPOSITORY
        repository = daskevo.open(root, client=client)
        return pipeline.search(
            loaded,
            strategy,
            repository=repository,
            client=client,
            evaluations=options["evaluations"],
            seed=options["seed"],
            run=folder,
            transfer=transfer,
            freeze=options["freeze"],
            time_limit_s=options["time_limit"],
            evaluation_limit_s=options["evaluation_limit"],
            on_progress=line,
        )


def _strategy(options: dict[str, Any]) -> Any:
    from daskevo.search import AgedEvolution, Random

    if options["strategy"] == "random":
        return Random()
    return AgedEvolution() if options["population"] is None else AgedEvolution(population=options["population"])


@contextlib.contextmanager
def _cluster(scheduler: str | None, workers: int | None) -> Iterator[Client]:
    """Yield a client of the scheduler at this address, or of a new local cluster.

    Raises
    ------
    SchedulerUnreachable
        If nobody answers there.
    """
    from daskevo.cluster.local import local_cluster

    if scheduler is None:
        from dask.system import CPU_COUNT

        with local_cluster(trainers=workers or CPU_COUNT) as cluster, cluster.get_client() as client:
            yield client
        return
    from distributed import Client

    from daskevo.errors import SchedulerUnreachable

    try:
        client = Client(scheduler, timeout="15s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise SchedulerUnreachable(
            f"no Dask scheduler answers at {scheduler} ({error}); look at its log for the address, "
            "or leave --scheduler out to start a local cluster",
            address=scheduler,
        ) from error
    with client:
        yield client


@contextlib.contextmanager
def _stopped_like_ctrl_c(number: signal.Signals) -> Iterator[None]:
    """Let a signal stop the search as Ctrl-C does: a batch system's word at walltime leaves the run in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _how_to_go_on(folder: Path) -> str:
    command = sys.argv[1:]
    if not any(word == "--run" or word.startswith("--run=") for word in command):
        command = [*command, "--run", str(folder)]
    return (
        "Stopped. Every finished evaluation is kept; to go on:\n"
        f"    {shlex.join([os.path.basename(sys.argv[0]), *command])}"
    )
