"""The command `daskevo models add`: store a Keras model trained elsewhere, for searches to inherit from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from daskevo_workflows.cli.changed_repository import SCHEDULER, open_to_change
from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON
from daskevo_workflows.cli.models_arguments import CUSTOM, ROOT, opened
from daskevo_workflows.cli.paths import RUN, repository_root


class Metric(click.ParamType[tuple[str, float]]):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        name, sign, figure = str(value).partition("=")
        try:
            number = float(figure)
        except ValueError:
            number = math.nan
        if not name or not sign or not math.isfinite(number):
            self.fail(f"{value!r:.80} is no NAME=VALUE with a finite number, such as val_accuracy=0.93", param, ctx)
        return name, number


@click.command(short_help="Store a trained Keras model, for searches to inherit from.")
@ROOT
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--scope", help="Group of models that may inherit from it.  [default: the run's, or the only one]")
@click.option(
    "--metric", "metrics", type=Metric(), multiple=True, help="A measured metric; may be given several times."
)
@click.option(
    "--objective",
    metavar="'max METRIC'|'min METRIC'",
    help="For a new scope: the metric that is the quality.",
)
@click.option(
    "--step",
    type=click.IntRange(0, 2**53),
    default=1,
    show_default=True,
    help="Number of steps it has been trained; a search freezes inherited layers from 300 steps on.",
)
@click.option(
    "--label", "labels", multiple=True, help="Label that keeps it, such as 'user:my paper'.  [default: user:kept]"
)
@click.option("--name", help="Id to store it under.  [default: a random one]")
@CUSTOM
@SCHEDULER
@AS_JSON
def add(
    root: Path,
    file: Path,
    scope: str | None,
    metrics: tuple[tuple[str, float], ...],
    objective: str | None,
    step: int,
    labels: tuple[str, ...],
    name: str | None,
    problem: str | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Store the trained Keras model in FILE, so that searches can inherit from it.

    FILE is a .keras file, or a .safetensors file written by `export`. ROOT is created if it does not exist.

    \b
    Add a model before a search, whose candidates inherit the layers that they share with it:
        daskevo models add runs/mine/repository mine.keras --scope digits --objective "max val_accuracy" \\
            --metric val_accuracy=0.93 --step 4500
        daskevo nas digits --run runs/mine

    Code in FILE is never run: a model with lambdas, or with layers that load files, is refused. If a job has the
    repository open, name its scheduler with --scheduler.
    """
    from daskevo.protocol.scopes import check_scope
    from daskevo.types import Objective, check_label, check_name
    from daskevo_plugins.formatting import say_bytes, say_quality
    from daskevo_workflows.evaluation.quiet_import import import_keras
    from daskevo_workflows.exporting.foreign_models import load_model_file
    from daskevo_workflows.problems import load_problem

    # Refuse bad input before starting a cluster.
    for label in labels:
        check_label(label)
    if name is not None:
        check_name(name)
    if objective is not None:
        Objective.parse(objective)
    place, scope = _place(root, scope)
    check_scope(scope)
    # Quietly, and before the problem's file, which would import it with all that TensorFlow logs.
    import_keras()
    if problem is not None:
        load_problem(problem)
    model = load_model_file(file)
    _check_graph(model, file)
    typed: list[str | Path] = ["models", "add", root, file, "--scope", scope, "--step", str(step)]
    for option, values in (("--metric", [f"{key}={value}" for key, value in metrics]), ("--label", labels)):
        typed += [word for value in values for word in (option, value)]
    typed += [
        word for option, value in (("--objective", objective), ("--name", name)) if value for word in (option, value)
    ]
    with open_to_change(place, scope, scheduler, typed, objective) as repository:
        model_id = repository.add(
            model, metrics=dict(metrics), step=step, labels=labels, model_id=name, extra={"added": {"file": file.name}}
        )
        # While the cluster is there: the record tells the quality that the objective made of the metrics.
        record = repository.record(model_id)
    if as_json:
        click.echo(
            json.dumps({"model": model_id, "scope": scope, "quality": record.quality, "own_bytes": record.own_bytes})
        )
        return
    goal = record.objective or "no objective"
    click.echo(
        f"{model_id}  scope {scope}, {goal}, quality {say_quality(record.quality)}, {say_bytes(record.own_bytes)}"
    )
    if record.quality is None:
        why = f"its objective is {record.objective!r}" if record.objective else "the scope has no objective"
        click.echo(
            f"It has no quality ({why}): of models that share as much, those with a quality are preferred.", err=True
        )


def _place(root: Path, scope: str | None) -> tuple[Path, str]:
    """Return the root and the scope: the given one, the run's, or the only one.

    Raises
    ------
    InvalidInput
        If no scope was given and there is none, or more than one.
    """
    from daskevo.errors import InvalidInput
    from daskevo.runs.folder import read_info

    # A new root: opening it creates it.
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        place, there = root, []
    else:
        place = repository_root(root, to_change=True)
        there = sorted({summary.scope for summary in opened(place).models()})
    if scope is not None:
        return place, scope
    info = read_info(root) if (root / RUN).exists() else None
    if info is not None and isinstance(info.about.get("scope"), str):
        return place, str(info.about["scope"])
    if len(there) == 1:
        return place, there[0]
    found = f"{place} has the scopes {', '.join(there)}" if there else f"{place} has no models yet"
    raise InvalidInput(
        f"{found}: say whose data and task the model's are, the name of the problem for a search. "
        f"{command('models', 'add', root, '...', '--scope', 'digits')}"
    )


def _check_graph(model: Any, file: Path) -> None:
    """Check that a model can be stored, before starting a cluster; raises CannotFlatten."""
    from daskevo.errors import CannotFlatten
    from daskevo.models import check_storable, flatten

    try:
        check_storable(flatten(model))
    except CannotFlatten as error:
        raise CannotFlatten(f"{file}: {error.message}", **error.facts) from error
