"""`daskevo models retire`: let models go, on the cluster that has the repository open or on one of the command's own.

Labels say who counts on a model. ``user:kept`` is what a put gives that names none; any other was given by a run or a
person on purpose, and is taken away only by force.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from daskevo_workflows.cli.changed_repository import SCHEDULER, open_to_change
from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON
from daskevo_workflows.cli.models_arguments import ROOT, named, opened, record_of
from daskevo_workflows.cli.paths import repository_root

OF_RUNS = ("population:", "best:")
"""How labels begin that a run gives to its population and to its best models."""

WITH_FORCE = (
    "The run counts on it: once it is forced to go, its weights are gone for good, nothing inherits from it, and the "
    "run keeps its figures alone, marked as retired."
)
"""What becomes of a run whose models are taken away."""

STILL_HELD = 1
"""Exit code when somebody gave a model a label meanwhile, and it was left to them."""


@click.command()
@ROOT
@click.argument("model_ids", metavar="MODEL_ID...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Take all labels away, those of runs and of other people too.")
@SCHEDULER
@AS_JSON
def retire(root: Path, model_ids: tuple[str, ...], force: bool, scheduler: str | None, as_json: bool) -> None:
    """Retire models: they are matched and loaded no more, for good.

    Tensors that no heir needs go, the others stay until the heirs are retired. A model that is held by a label other
    than user:kept is refused without --force, and then none of those named is retired.

    With --force a model of a run's population, or of its best, goes as well: its weights are gone for good. The run
    goes on without it: its figures stay in the record, status and reports mark it as retired, nothing inherits from it
    any more. As a parent it stays in the population until its turn to leave.

    The repository must not be open elsewhere, or name the scheduler of the job that has it open.

    Exit code 0: all are retired; 1: some were given a label meanwhile and are still there; 2: nothing was done.
    """
    from daskevo.client.put import KEPT
    from daskevo.errors import InvalidInput
    from daskevo.protocol.scopes import holds_snapshots
    from daskevo.types import check_name
    from daskevo_plugins.formatting import say_count

    # What can be refused is told before a cluster is started.
    names = [check_name(name) for name in dict.fromkeys(model_ids)]
    place = repository_root(root, to_change=True)
    look = opened(place)
    held: dict[str, list[str]] = {}
    scope = "default"
    for name in names:
        found = record_of(look, root, name).scope
        # Retiring goes by id, so any scope will do, but a repository is never opened in a scope of snapshots.
        scope = scope if holds_snapshots(found) else found
        others = sorted(set(look.status(name).labels) - {KEPT})
        if others and not force:
            held[name] = others
    typed: list[str | Path] = ["models", "retire", root, *names, *(["--force"] if force else [])]
    if held:
        runs = any(label.startswith(OF_RUNS) for labels in held.values() for label in labels)
        words = f" {WITH_FORCE}" if runs else ""
        raise InvalidInput(
            f"{_say(held)}. Nothing was retired.{words} To take these labels away too:\n"
            f"    {command(*typed, '--force')}",
            held=held,
        )
    with open_to_change(place, scope, scheduler, typed) as repository:
        for name in names:
            with named(repository, root, name):
                # By its label, unless forced: a label that somebody gave since the look keeps the model.
                left = repository.retire(name) if force else repository.release(name, KEPT)
            if left:
                held[name] = sorted(left)
        repository.stats()  # waits for tensors that are on their way out
    # Here `held` has only those of the second look: with others from the first, nothing was begun.
    retired = [name for name in names if name not in held]
    if as_json:
        click.echo(json.dumps({"retired": retired, "held": held}))
    else:
        click.echo(f"retired {say_count(len(retired), 'model')}{': ' if retired else ''}{', '.join(retired)}")
    if held:
        click.echo(f"{_say(held)}, given meanwhile", err=True)
        sys.exit(STILL_HELD)


def _say(held: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{name!r} is held by {' and '.join(labels)}" for name, labels in held.items())
