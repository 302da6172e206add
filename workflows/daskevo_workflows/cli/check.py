"""The command `daskevo check`: test a problem before a search, without a cluster or a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from daskevo_workflows.cli.completion import PROBLEM
from daskevo_workflows.cli.hang_notice import watched
from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON, CHECK_KEYS, print_json_line
from daskevo_workflows.cli.run_options import COUNT
from daskevo_workflows.cli.stdio_guard import lent_streams

if TYPE_CHECKING:
    from daskevo_workflows.problems import Problem

UNSOUND = 1
"""Exit code for a problem that failed a check."""


@click.command(short_help="Check a problem before a long search.")
@click.argument("problem", metavar="FILE[:NAME]|PROBLEM", type=PROBLEM)
@click.option(
    "--candidates",
    type=COUNT,
    default=3,
    show_default=True,
    metavar="N",
    help="Number of candidates to build and train.",
)
@click.option(
    "--batches", type=COUNT, default=2, show_default=True, metavar="N", help="Number of batches to train each one with."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed for drawing candidates."
)
@AS_JSON
def check(problem: str, candidates: int, batches: int, seed: int, as_json: bool) -> None:
    """Check a problem before a long search: FILE is your own (NAME: an object in it), PROBLEM one of daskevo's.

    \b
    daskevo check my_problem.py
    daskevo check my_problem.py:wide
    daskevo check digits

    A few candidates are drawn, built twice, stored and made again, trained for a few batches with a layer frozen, and
    scored, in this process. What was looked at is said line by line, and at the end whether a search can rely on it.

    Exit codes: 0 it can; 1 it can't, and the last line says why; 2 there is no such problem, or it is none of a
    search.
    """
    from daskevo.errors import InvalidInput, UnknownProblem
    from daskevo.extras import need, training_packages
    from daskevo_plugins.formatting import plain, say_count
    from daskevo_workflows.problems import load_problem
    from daskevo_workflows.problems.contract import look_at
    from daskevo_workflows.problems.packages import need_data_of

    # Before the problem's file runs: what is missing is then named with how to install it, not as a fault of the file.
    need("a check", *training_packages())
    need_data_of(problem)
    looked: list[str] = []

    def say(words: str) -> None:
        # The problem's code, which ran since the last line, may have replaced sys.stdout.
        put_back()
        looked.append(words)
        click.echo(words, err=as_json)

    def say_where(words: str) -> None:
        put_back()
        click.echo(words, err=True)

    found: str | None = None
    name = problem
    try:
        with lent_streams() as put_back, watched(say_where):
            loaded = load_problem(problem)
            name = loaded.name
            _check_is_of_a_search(loaded, problem)
            epochs = say_count(loaded.epochs, "epoch")
            say(f"problem {name!r}: all parts are there, {plain(loaded.objective, 80)} after {epochs}")
            # On stderr: it is no part of what was looked at.
            click.echo("Keras is imported now, which takes some seconds", err=True)
            look_at(loaded, candidates=candidates, batches=batches, seed=seed, say=say)
    # A name that stands for nothing is a wrong call (exit code 2), and no verdict about a problem (1).
    except UnknownProblem:
        raise
    except InvalidInput as error:
        found = plain(error.message, 2_000)
    if found is None:
        more = command("nas", problem, "--evaluations", "20")
        click.echo(f"Sound: a search can rely on all that was looked at. A short one:\n    {more}", err=as_json)
    else:
        click.echo(f"Not sound: {found}", err=as_json)
    if as_json:
        line = {"problem": name, "sound": found is None, "looked_at": looked, "found": found}
        print_json_line(CHECK_KEYS, line)
    sys.exit(0 if found is None else UNSOUND)


def _check_is_of_a_search(loaded: Problem, typed: str) -> None:
    """See that a problem is one whose architectures are searched.

    Raises
    ------
    UnknownProblem
        If it is one whose hyper-parameters are tuned.
    """
    from daskevo.errors import UnknownProblem
    from daskevo.tuning import ConfigurationSpace
    from daskevo_plugins.formatting import plain
    from daskevo_workflows.problems.building import space_of

    if callable(getattr(loaded, "training_loop", None)) or isinstance(space_of(loaded), ConfigurationSpace):
        raise UnknownProblem(
            f"{plain(typed, 100)} is no problem of a search but of a study, and its trainings are looked at by "
            "check_exact of daskevo_workflows.stage_training (docs/stage-training.md). Try a few steps of it: "
            f"{command('tune', typed)}",
            problem=loaded.name,
        )
