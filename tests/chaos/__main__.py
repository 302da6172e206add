"""`python -m tests.chaos`: a search under random faults, and what is left of it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from daskevo_workflows.cli.interrupts import INTERRUPTED, heard
from daskevo_workflows.cli.json_lines import print_json_line

CHAOS_KEYS = (
    "evaluations",
    "kills",
    "partitions",
    "published",
    "lost",
    "dangling",
    "leaked_tensors",
    "leaked_bytes",
    "longest_pause_s",
    "clean",
)
"""What ``python -m tests.chaos --json`` ends with.

``published``: models whose put was answered as stored; ``longest_pause_s``: longest time without a finished
evaluation, less the median one. Where cut-offs are not possible, ``partitions`` is 0 and a ``note`` more says why.
"""
UNCLEAN = 1
"""Exit code when something was lost, left over, or not done."""
PER_MINUTE = 20
"""Evaluations of a search in a minute with faults."""


@click.command(short_help="Run a search under random faults, and see whether anything is lost.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True, max=10_000),
    default=1.0,
    show_default=True,
    help="How long faults happen; the search takes about as long.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Chooses which faults happen when. What the cluster is doing at that moment differs from time to time.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    help=f"The search's budget, to be met exactly.  [default: {PER_MINUTE} a minute]",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.1, 3600),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Mean time between two faults. A cluster that takes longer to come back hardly gets to work.",
)
@click.option(
    "--providers",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Workers with shards; 0: those that train have them.",
)
@click.option(
    "--strategy",
    type=click.Choice(["evolution", "asha"]),
    default="evolution",
    show_default=True,
    help="Of the search; asha trains candidates in parts, and goes on from their states.",
)
@click.option("--trainers", type=click.IntRange(1, 100), default=2, show_default=True, help="Workers that train.")
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where logs, ledger, run and, if it isn't clean, the repository are left; new.  "
    "[default: a temporary folder, kept if it isn't clean]",
)
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON for programs.")
def chaos(minutes: float, seed: int, evaluations: int | None, folder: Path | None, as_json: bool, **size: Any) -> None:
    """Run a search under random faults on a cluster of its own, and see whether anything is lost or left over.

    Workers, scheduler, search and all of them at once are killed, workers are stopped for a while, hosts are cut off,
    the disk is filled, a second client retires models of the search. Whatever ended is started again. At the end the
    search's budget must be met exactly, and each model whose put was answered must be there, bit by bit, for a client
    and in the files, unless it has been retired; nothing else may be.

    Cut-offs and full disks need network namespaces and mounts: root, or user namespaces. Otherwise they are left
    out, and it is said.

    Exit code 0: clean; 1: not.
    """
    from daskevo.extras import need, training_packages
    from daskevo_plugins.formatting import plain
    from tests.chaos.apart import apart
    from tests.chaos.trial import OUTCOME, Trial, words_of

    need("a search under faults", *training_packages())
    prefix, why = apart()
    place = _new_folder(folder)
    budget = evaluations or max(1, round(PER_MINUTE * minutes))
    trial = Trial(str(place), minutes, seed, budget, **size, is_apart=bool(prefix))
    if why:
        click.echo(f"No cut-offs and no full disks: {why}", err=True)
    with heard(signal.SIGTERM, signal.SIGHUP):
        process = subprocess.Popen([*prefix, sys.executable, "-m", "tests.chaos.trial_process", words_of(trial)])
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _end(process, bool(prefix))
            click.echo(f"Stopped. What there is lies in {place}", err=True)
            sys.exit(INTERRUPTED)
    if code:
        raise click.ClickException(f"the trial broke off with exit code {code}; its logs are in {place / 'logs'}")
    outcome: dict[str, Any] = json.loads((place / OUTCOME).read_text())
    _say(outcome, place, err=as_json)
    if as_json:
        note = {"note": f"no cut-offs and no full disks: {plain(why)}"} if why else {}
        print_json_line((*CHAOS_KEYS, *note), {**outcome, **note})
    if outcome["clean"] and folder is None:
        shutil.rmtree(place)
    sys.exit(0 if outcome["clean"] else UNCLEAN)


def _new_folder(folder: Path | None) -> Path:
    from daskevo.errors import InvalidInput

    if folder is None:
        return Path(tempfile.mkdtemp(prefix="daskevo-chaos-"))
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InvalidInput(f"--folder {folder} can't be made ({error}): name one that is not there yet") from error
    return folder.absolute()


def _end(process: subprocess.Popen[bytes], is_apart: bool) -> None:
    """End a trial: with its namespaces goes everything in them; without, it is given time to end its processes."""
    if is_apart:
        process.kill()
    else:
        process.send_signal(signal.SIGINT)
    process.wait()


def _say(outcome: dict[str, Any], place: Path, *, err: bool) -> None:
    from daskevo_plugins.formatting import plain, say_bytes, say_count, say_seconds

    lines = [
        f"{say_count(outcome['evaluations'], 'evaluation')} under {say_count(outcome['kills'], 'kill')} and "
        f"{say_count(outcome['partitions'], 'cut-off')}; the longest pause was "
        f"{say_seconds(outcome['longest_pause_s'])} longer than usual.",
        f"{say_count(outcome['published'], 'model')} stored: {outcome['lost']} lost, "
        f"{say_count(outcome['dangling'], 'dangling reference')}; left over: "
        f"{say_count(outcome['leaked_tensors'], 'tensor')}, {say_bytes(outcome['leaked_bytes'])}.",
        *(plain(word, 1000) for word in outcome["words"]),
        "clean" if outcome["clean"] else f"NOT CLEAN: logs, ledger, run and repository are in {place}",
    ]
    click.echo("\n".join(lines), err=err)


if __name__ == "__main__":
    chaos(prog_name="python -m tests.chaos")
