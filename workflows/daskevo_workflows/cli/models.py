"""`daskevo models`: look into a repository without a cluster, and take trained models out of it.

`daskevo models retire`, which changes it, is in `retiring.py`.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.completion import FOLDER
from daskevo_workflows.cli.places import repository_root
from daskevo_workflows.cli.typed import command

if TYPE_CHECKING:
    from daskevo.ownership.model_record import ModelRecord
    from daskevo.repository import ModelSummary, Repository

ROOT = click.argument("root", type=FOLDER)
MODEL = click.argument("model_id")
CLOSE = 3
"""Models that are suggested in place of one that is not there."""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for programs.")


@click.group()
def models() -> None:
    """List, show, export and retire the models of a repository.

    ROOT is the repository, or the folder of a run that has it inside. It may be in use: nothing is changed, but by
    `retire`.

    \b
    The best models of a search, where one comes from, and a file that keras.models.load_model reads:
        daskevo models ls runs/digits-seed0 --limit 5
        daskevo models lineage runs/digits-seed0 MODEL_ID
        daskevo models export runs/digits-seed0 MODEL_ID best.keras
    """


@models.command()
@ROOT
@click.option("--scope", help="Only models of this scope.")
@click.option("--limit", type=click.IntRange(min=1), help="Only so many, the best first.")
@click.option("--snapshots", is_flag=True, help="List snapshots of trainings, too.")
@AS_JSON
def ls(root: Path, scope: str | None, limit: int | None, snapshots: bool, as_json: bool) -> None:
    """List the published models, the best of each scope first."""
    from daskevo_workflows.words import say_bytes, say_count, say_quality

    repository = opened(root)
    found = repository.models(scope, snapshots=snapshots)
    objectives = {
        summary.scope: repository.record(summary.model_id).objective
        for summary in {summary.scope: summary for summary in found}.values()
    }
    found = sorted(found, key=lambda summary: _rank_in_scope(summary, objectives[summary.scope]))[:limit]
    if as_json:
        click.echo(json.dumps([_summary(summary) for summary in found]))
        return
    rows = [("MODEL", "SCOPE", "QUALITY", "STEP", "STORED", "LABELS")]
    rows += [
        (
            summary.model_id,
            summary.scope,
            say_quality(summary.quality),
            str(summary.step),
            say_bytes(summary.own_bytes),
            ", ".join(sorted(summary.labels)),
        )
        for summary in found
    ]
    if found:
        _print_columns(rows, right={2, 3, 4})
        return
    hidden = 0 if snapshots else len(repository.models(scope, snapshots=True))
    where = "" if scope is None else f" of scope {scope}"
    click.echo(f"There is no published model{where} in {root}.", err=True)
    if scope is not None and (scopes := sorted({summary.scope for summary in repository.models(None)})):
        click.echo(f"Its scopes: {', '.join(scopes)}. A search's is the name in its problem, not its file's.", err=True)
    if hidden:
        again = command("models", "ls", root, *(() if scope is None else ("--scope", scope)), "--snapshots")
        click.echo(f"It has {say_count(hidden, 'snapshot')} of trainings, such as a study's:\n    {again}", err=True)


@models.command()
@ROOT
@MODEL
@AS_JSON
def show(root: Path, model_id: str, as_json: bool) -> None:
    """Show one model: metrics, labels, layers with the model that each was last trained in."""
    from daskevo_workflows.words import plain, say_bytes, say_quality

    repository = opened(root)
    with named(repository, root, model_id):
        record = repository.record(model_id)
    labels = repository.status(model_id).labels
    graph = record.architecture
    layers = [_layer(graph, number, record) for number in range(len(graph.layers))]
    if as_json:
        click.echo(json.dumps(_row(record) | {"labels": sorted(labels), "layers": layers, "extra": record.extra}))
        return
    facts = {
        "model": record.model_id,
        "scope": record.scope,
        "objective": record.objective or "–",
        "quality": say_quality(record.quality),
        "metrics": ", ".join(f"{plain(name, 60)} {plain(value, 60)}" for name, value in record.metrics.items()) or "–",
        "step": str(record.step),
        "labels": ", ".join(sorted(labels)),
        "parent": record.parent or "–",
        "inherited from": record.ancestor or "–",
        "inherited": _inherited(record),
        "parameters": f"{graph.parameters:,}",
        "bytes": f"{say_bytes(record.own_bytes)} stored, {say_bytes(graph.nbytes)} as a full copy",
    }
    _print_columns([(f"{name}:", value) for name, value in facts.items()])
    click.echo()
    rows = [("LAYER", "KIND", "TENSORS", "BYTES", "TRAINED IN")]
    rows += [
        (
            plain(layer["name"], 60),
            plain(layer["kind"], 40),
            str(layer["tensors"]),
            say_bytes(layer["bytes"]) if layer["tensors"] else "",
            ", ".join(layer["owners"]),
        )
        for layer in layers
    ]
    _print_columns(rows, right={2, 3})


@models.command()
@ROOT
@MODEL
@AS_JSON
def lineage(root: Path, model_id: str, as_json: bool) -> None:
    """Show the chain of models that a model inherited from, and who contributed which share of its bytes."""
    from daskevo_workflows.words import say_bytes, say_quality, say_share

    repository = opened(root)
    with named(repository, root, model_id):
        chain = [_entry(repository, record) for record in repository.lineage(model_id)]
    shares = repository.contributors(model_id)
    whole = sum(share.nbytes for share in shares) or 1
    if as_json:
        contributors = [
            {"model": share.owner, "tensors": len(share.numbers), "bytes": share.nbytes} for share in shares
        ]
        click.echo(json.dumps({"lineage": chain, "contributors": contributors}))
        return
    rows = [("", "MODEL", "QUALITY", "STATE")]
    rows += [
        ("" if depth == 0 else "←", entry["model"], say_quality(entry["quality"]), entry["state"])
        for depth, entry in enumerate(chain)
    ]
    _print_columns(rows, right={2})
    click.echo()
    rows = [("WEIGHTS FROM", "TENSORS", "BYTES", "SHARE")]
    rows += [
        (share.owner, str(len(share.numbers)), say_bytes(share.nbytes), say_share(share.nbytes / whole))
        for share in shares
    ]
    _print_columns(rows, right={1, 2, 3})


@models.command()
@ROOT
@MODEL
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--overwrite", is_flag=True, help="Replace OUTPUT if it is there.")
@click.option("--problem", help="A problem whose file registers custom layers that the model needs.")
def export(root: Path, model_id: str, output: Path | None, overwrite: bool, problem: str | None) -> None:
    """Write a model with its weights as a `.keras` file.

    OUTPUT is MODEL_ID.keras in the current folder unless it is given.
    """
    from daskevo.errors import InvalidInput
    from daskevo.types import check_name
    from daskevo_workflows.quiet import import_keras
    from daskevo_workflows.saving import save_model

    check_name(model_id)
    path = Path(f"{model_id}.keras") if output is None else output
    if path.suffix != ".keras":
        raise InvalidInput(f"{path} does not end in .keras, the format that is written: name it so", path=str(path))
    if not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is no folder: make it, or name another place", path=str(path))
    if path.exists() and not overwrite:
        raise InvalidInput(f"{path} is there already: name another file, or add --overwrite", path=str(path))
    repository = opened(root)
    with named(repository, root, model_id):
        repository.record(model_id)  # before Keras is loaded, which takes seconds
    import_keras()
    if problem is not None:
        from daskevo_workflows.problems import load_problem

        load_problem(problem)
    model = repository.load(model_id)
    try:
        save_model(model, path)
    except OSError as error:
        raise InvalidInput(f"{path} can't be written: {error.strerror or error}", path=str(path)) from error
    click.echo(str(path))


def opened(root: Path) -> Repository:
    """Return a look at the repository in a place; raises as `repository_root` and `daskevo.open` do."""
    import daskevo

    repository: Repository = daskevo.open(repository_root(root))
    return repository


@contextlib.contextmanager
def named(repository: Repository, root: Path, model_id: str) -> Iterator[None]:
    """Say how to find a model that is not there in words of the command line.

    Raises
    ------
    UnknownModel, ModelRetired
    """
    from daskevo.errors import ModelRetired, UnknownModel

    try:
        yield
    except UnknownModel as error:
        names = [str(summary.model_id) for summary in repository.models()]
        meant = difflib.get_close_matches(model_id, names, CLOSE) or [name for name in names if model_id in name]
        guess = f"did you mean {' or '.join(meant[:CLOSE])}? " if meant else ""
        raise UnknownModel(
            f"there is no model {model_id!r} in {root}; {guess}These are there: {command('models', 'ls', root)}",
            model_id=model_id,
        ) from error
    except ModelRetired as error:
        raise ModelRetired(
            f"{model_id!r} has been retired: its last label was released. Its lineage is still there: "
            f"{command('models', 'lineage', root, model_id)}",
            model_id=model_id,
        ) from error


def _rank_in_scope(summary: ModelSummary, objective: str | None) -> tuple[str, float, ModelSummary]:
    from daskevo.types import Objective

    if summary.quality is None:
        return summary.scope, float("inf"), summary
    rank = Objective.parse(objective).rank(summary.quality) if objective else summary.quality
    return summary.scope, -rank, summary


def _summary(summary: ModelSummary) -> dict[str, Any]:
    return {
        "model": summary.model_id,
        "scope": summary.scope,
        "quality": summary.quality,
        "step": summary.step,
        "labels": sorted(summary.labels),
        "own_bytes": summary.own_bytes,
    }


def _row(record: ModelRecord) -> dict[str, Any]:
    return {
        "model": record.model_id,
        "scope": record.scope,
        "objective": record.objective,
        "quality": record.quality,
        "metrics": record.metrics,
        "step": record.step,
        "parent": record.parent,
        "ancestor": record.ancestor,
        "own_bytes": record.own_bytes,
    }


def _inherited(record: ModelRecord) -> str:
    """Say what a search's evaluation inherited and why no more; a dash for models of others, and older ones."""
    from daskevo.errors import CorruptRecord
    from daskevo.search import TransferReport
    from daskevo_workflows.words import plain

    match record.extra:
        case {"report": {"transfer": value}}:
            with contextlib.suppress(CorruptRecord):
                return plain(TransferReport.from_json(value))
    return "–"


def _layer(graph: Any, number: int, record: ModelRecord) -> dict[str, Any]:
    layer = graph.layers[number]
    entries = [record.owner_map.entries[tensor] for tensor in graph.tensor_numbers(number)]
    return {
        "name": layer.name,
        "kind": str(layer.config.get("class_name", "?")) if isinstance(layer.config, dict) else "?",
        "tensors": len(layer.tensors),
        "bytes": sum(spec.nbytes for spec in layer.tensors),
        "owners": list(dict.fromkeys(entry.owner for entry in entries)),
        "steps": max((entry.steps for entry in entries), default=0),
    }


def _entry(repository: Repository, record: ModelRecord) -> dict[str, Any]:
    return {
        "model": record.model_id,
        "state": repository.status(record.model_id).state,
        "quality": record.quality,
        "parent": record.parent,
    }


def _print_columns(rows: Sequence[tuple[str, ...]], right: Collection[int] = ()) -> None:
    """Print rows in columns as wide as their widest cell; columns in `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())
