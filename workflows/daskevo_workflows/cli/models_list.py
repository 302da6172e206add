"""`daskevo models ls` and `show`: which models there are, and what one of them is."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON
from daskevo_workflows.cli.models_arguments import (
    MODEL,
    ROOT,
    facts_of,
    is_damaged,
    opened,
    print_columns,
    record_of,
)

if TYPE_CHECKING:
    from daskevo.repository import ModelSummary, Repository

MAYBE_MORE = 1
"""Exit code where a repository looks damaged, and may have held models that are not listed."""


@click.command()
@ROOT
@click.option("--scope", help="Only models of this scope.")
@click.option("--limit", type=click.IntRange(min=1), help="List at most this many, best first.")
@click.option("--snapshots", is_flag=True, help="Also list snapshots of trainings.")
@AS_JSON
def ls(root: Path, scope: str | None, limit: int | None, snapshots: bool, as_json: bool) -> None:
    """List the published models, the best of each scope first.

    Labels given by the model's own run are shortened to their kind; `daskevo models show` and --json show them in full.

    Exit code 0: the list is complete; 1: the repository looks damaged, models may be missing (see `daskevo verify`).
    """
    repository = opened(root)
    found = repository.models(scope, snapshots=snapshots)
    # One record per scope is read: its models have the same objective.
    objectives = {
        summary.scope: repository.record(summary.model_id).objective
        for summary in {summary.scope: summary for summary in found}.values()
    }
    best = sorted(found, key=lambda summary: _rank_in_scope(summary, objectives[summary.scope]))[:limit]
    if as_json:
        click.echo(json.dumps([facts_of(summary) | {"labels": sorted(summary.labels)} for summary in best]))
    else:
        _print(repository, root, scope, best, snapshots=snapshots)
    if is_damaged(repository):
        click.echo(f"Models may be missing here. What is lost says\n    {command('verify', root)}", err=True)
        sys.exit(MAYBE_MORE)


def _print(
    repository: Repository, root: Path, scope: str | None, found: Sequence[ModelSummary], *, snapshots: bool
) -> None:
    from daskevo_plugins.formatting import say_bytes, say_count, say_qualities

    rows = [("MODEL", "SCOPE", "QUALITY", "STEP", "STORED", "LABELS")]
    rows += [
        (
            summary.model_id,
            summary.scope,
            quality,
            str(summary.step),
            say_bytes(summary.own_bytes),
            ", ".join(_short(label, summary.model_id) for label in sorted(summary.labels)),
        )
        for summary, quality in zip(found, say_qualities([summary.quality for summary in found]), strict=True)
    ]
    if found:
        print_columns(rows, right={2, 3, 4})
        return
    hidden = 0 if snapshots else len(repository.models(scope, snapshots=True))
    where = "" if scope is None else f" of scope {scope}"
    click.echo(f"There is no published model{where} in {root}.", err=True)
    if scope is not None and (scopes := sorted({summary.scope for summary in repository.models(None)})):
        click.echo(f"Its scopes: {', '.join(scopes)}. A search's is the name in its problem, not its file's.", err=True)
    if hidden:
        again = command("models", "ls", root, *(() if scope is None else ("--scope", scope)), "--snapshots")
        click.echo(f"It has {say_count(hidden, 'snapshot')} of trainings, such as a study's:\n    {again}", err=True)


@click.command()
@ROOT
@MODEL
@AS_JSON
def show(root: Path, model_id: str, as_json: bool) -> None:
    """Show one model: metrics, labels, layers with the model that each was last trained in."""
    from daskevo_plugins.formatting import plain, say_bytes, say_quality
    from daskevo_workflows.exporting.facts import layers_of, transfer_of

    repository = opened(root)
    record = record_of(repository, root, model_id)
    labels = repository.status(model_id).labels
    graph = record.architecture
    layers = [
        {
            "name": said["name"],
            "kind": said["kind"],
            "tensors": len(layer.tensors),
            "bytes": said["bytes"],
            "owners": said["trained_in"],
            "steps": said["steps"],
        }
        for layer, said in zip(graph.layers, layers_of(record, graph), strict=True)
    ]
    if as_json:
        click.echo(
            json.dumps(
                {
                    **facts_of(record),
                    "objective": record.objective,
                    "metrics": record.metrics,
                    "parent": record.parent,
                    "ancestor": record.ancestor,
                    "labels": sorted(labels),
                    "layers": layers,
                    "extra": record.extra,
                }
            )
        )
        return
    facts = {
        "model": record.model_id,
        "scope": record.scope,
        "objective": record.objective or "–",
        "quality": say_quality(record.quality),
        "metrics": ", ".join(f"{plain(name, 60)} {_figure(value)}" for name, value in record.metrics.items()) or "–",
        "step": str(record.step),
        "labels": ", ".join(sorted(labels)),
        "parent": record.parent or "–",
        "inherited from": record.ancestor or "–",
        # What a search's evaluation inherited, and why no more; models of others, and older ones, don't say.
        "inherited": plain(transfer_of(record) or "–"),
        "parameters": f"{graph.parameters:,}",
        "bytes": f"{say_bytes(record.own_bytes)} stored, {say_bytes(graph.nbytes)} as a full copy",
    }
    print_columns([(f"{name}:", value) for name, value in facts.items()])
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
    print_columns(rows, right={2, 3})


def _short(label: str, model_id: str) -> str:
    """Return a label, or its kind alone if the rest is the run that the model is named after."""
    kind, _, name = label.partition(":")
    return kind if name and name == model_id.rpartition("-")[0] else label


def _figure(value: object) -> str:
    from daskevo_plugins.formatting import plain, say_quality

    return say_quality(value) if isinstance(value, float) else plain(value, 60)


def _rank_in_scope(summary: ModelSummary, objective: str | None) -> tuple[str, float, ModelSummary]:
    from daskevo.types import Objective

    # After all that have one.
    if summary.quality is None:
        return summary.scope, float("inf"), summary
    rank = Objective.parse(objective).rank(summary.quality) if objective else summary.quality
    # The summary comes last, so that equal qualities have the same order each time.
    return summary.scope, -rank, summary
