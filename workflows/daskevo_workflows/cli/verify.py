"""`daskevo verify`: check that a repository holds what its records say, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON, VERIFY_KEYS, print_json_line
from daskevo_workflows.cli.models_arguments import ROOT
from daskevo_workflows.cli.paths import repository_root

DIFFERENT = 1
"""Exit code when the repository could be read and is not as promised."""

SHOWN = 20
"""Lost models in the command that retires them, at most."""


@click.command(short_help="Check a repository: is everything there, and whole?")
@ROOT
@click.option("--repair", is_flag=True, help="Mend what can be mended; the repository must not be open elsewhere.")
@click.option("--rebuild", is_flag=True, help="Rebuild each model's architecture, too, as loading does; needs Keras.")
@click.option("--problem", help="A problem whose file registers custom layers that the models have, for --rebuild.")
@AS_JSON
def verify(root: Path, repair: bool, rebuild: bool, problem: str | None, as_json: bool) -> None:
    """Check the repository at ROOT, or in a run's folder, without a cluster.

    \b
    After a crash, a full disk or a copy:
        daskevo verify runs/digits-seed0
    What it finds is mended, as far as it can be, once no job has the repository open:
        daskevo verify runs/digits-seed0 --repair
    After an upgrade of Keras, or a change of your own layers:
        daskevo verify runs/digits-seed0 --rebuild

    A repair says what it mended, and which models are lost: their tensors are gone, so retire them (`models retire`).
    Files that aren't daskevo's are named and left alone.

    --rebuild names the models that can't be loaded here any more, and those with layers of your own whose code is
    another than when they were stored: these load, and may predict something else. Each with the layer concerned.

    Exit code 0: clean, but for models that are marked lost; 1: differences were found; 2: it can't be read.
    """
    import daskevo
    from daskevo_plugins.formatting import plain, say_bytes, say_count

    if problem is not None:
        from daskevo_workflows.problems import load_problem

        load_problem(problem)  # importing its file registers the layers with Keras
    found = daskevo.open(repository_root(root, to_change=repair)).verify(repair=repair, rebuild=rebuild)
    said = found.to_json()
    for line in (
        *said["differences"],
        *(f"mended: {difference}" for difference in said["mended"]),
        *(f"lost: {lost['words']}, as a repair found at {lost['since']}; retire it" for lost in said["lost"]),
        *(f"not daskevo's, left as it is: {path}" for path in said["foreign"]),
    ):
        click.echo(plain(line, 1000), err=as_json)
    if as_json:
        print_json_line(VERIFY_KEYS, said)
    else:
        verdict = "clean" if found.clean else say_count(len(said["differences"]), "difference")
        verdict += f", {say_count(len(found.lost), 'lost model')}" if found.lost else ""
        click.echo(
            f"{verdict}: {say_count(found.models, 'model')}, {say_count(found.tensors, 'tensor')}, "
            f"{say_bytes(found.payload_bytes)}"
        )
    if found.lost:
        lost = dict.fromkeys(lost["model"] for lost in said["lost"])
        click.echo(f"To retire lost models:\n    {command('models', 'retire', root, *list(lost)[:SHOWN])}", err=True)
    sys.exit(0 if found.clean else DIFFERENT)
