"""`daskevo models lineage`, `blame` and `diff`: where models come from, and what makes one another than another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON
from daskevo_workflows.cli.models_arguments import MODEL, ROOT, facts_of, named, opened, print_columns, record_of

if TYPE_CHECKING:
    from daskevo.protocol.model_record import ModelRecord
    from daskevo.repository import Repository
    from daskevo_workflows.comparing.difference import LayerPair, ModelDifference
    from daskevo_workflows.comparing.family import Family, FamilyMember


@click.command(short_help="Whom a model inherited from; --all, --dot: the whole family.")
@ROOT
@click.argument("model_id", required=False)
@click.option("--all", "everybody", is_flag=True, help="Instead of one model: all of the repository, as a tree.")
@click.option("--scope", help="With --all: only models of this scope.")
@click.option("--dot", is_flag=True, help="Print it as text for Graphviz, which draws it: | dot -Tsvg > family.svg")
@AS_JSON
def lineage(root: Path, model_id: str | None, everybody: bool, scope: str | None, dot: bool, as_json: bool) -> None:
    """Show the chain of models that a model inherited from, and who contributed which share of its bytes.

    With --all, all living models of the repository and those that they come from.
    """
    from daskevo.errors import InvalidInput

    if everybody != (model_id is None):
        raise InvalidInput(
            "name one model, or ask for all of them: "
            f"{command('models', 'lineage', root, 'MODEL_ID')} or {command('models', 'lineage', root, '--all')}"
        )
    if dot and as_json:
        raise InvalidInput("--dot and --json were both asked for: take one")
    repository = opened(root)
    if model_id is None:
        _show_family(_family(repository, scope), dot=dot, as_json=as_json)
        return
    with named(repository, root, model_id):
        records = repository.lineage(model_id)
    if dot:
        _show_family(_members(repository, records), dot=True, as_json=False)
        return
    _show_chain(repository, model_id, records, as_json=as_json)


def _show_chain(repository: Repository, model_id: str, records: Sequence[ModelRecord], *, as_json: bool) -> None:
    from daskevo_plugins.formatting import say_bytes, say_qualities, say_share

    chain = [_entry(repository, record) for record in records]
    # The tombstone of a retired model has no graph, and so no bytes to share out.
    shares = repository.contributors(model_id) if chain[0]["state"] == "published" else []
    whole = sum(share.nbytes for share in shares) or 1
    if as_json:
        contributors = [
            {"model": share.owner, "tensors": len(share.numbers), "bytes": share.nbytes} for share in shares
        ]
        click.echo(json.dumps({"lineage": chain, "contributors": contributors}))
        return
    rows = [("", "MODEL", "QUALITY", "STATE")]
    rows += [
        ("" if depth == 0 else "←", entry["model"], quality, entry["state"])
        for depth, (entry, quality) in enumerate(
            zip(chain, say_qualities([entry["quality"] for entry in chain]), strict=True)
        )
    ]
    print_columns(rows, right={2})
    if not shares:
        return
    click.echo()
    rows = [("WEIGHTS FROM", "TENSORS", "BYTES", "SHARE")]
    rows += [
        (share.owner, str(len(share.numbers)), say_bytes(share.nbytes), say_share(share.nbytes / whole))
        for share in shares
    ]
    print_columns(rows, right={1, 2, 3})


def _entry(repository: Repository, record: ModelRecord) -> dict[str, Any]:
    return {
        "model": record.model_id,
        "state": repository.status(record.model_id).state,
        "quality": record.quality,
        "parent": record.parent,
    }


def _members(repository: Repository, records: Sequence[ModelRecord]) -> Family:
    from daskevo_workflows.comparing.family import FamilyMember, family_of

    return family_of(FamilyMember.of(record, repository.status(record.model_id).state) for record in records)


def _family(repository: Repository, scope: str | None) -> Family:
    """Return all living models and those that they come from, the oldest first."""
    from daskevo_workflows.comparing.family import FamilyMember, family_of

    found: dict[str, tuple[Any, FamilyMember]] = {}
    for summary in repository.models(scope):
        wanted: str | None = summary.model_id
        # Ancestors that are retired too: without them a family would fall apart into pieces.
        while wanted is not None and wanted not in found:
            standing = repository.status(wanted)
            # Not known here: the chain ends.
            if standing.record is None:
                break
            found[wanted] = standing.record.created, FamilyMember.of(standing.record, standing.state)
            wanted = standing.record.ancestor
    return family_of(member for _, member in sorted(found.values(), key=lambda one: one[0]))


def _show_family(family: Family, *, dot: bool, as_json: bool) -> None:
    from daskevo_plugins.formatting import say_qualities, say_share
    from daskevo_workflows.comparing.family import dot_of, tree_of

    if dot:
        click.echo(dot_of(family), nl=False)
        return
    if as_json:
        click.echo(json.dumps([asdict(member) for member in family.values()]))
        return
    tree = list(tree_of(family))
    rows = [("MODEL", "SCOPE", "QUALITY", "STEP", "INHERITED", "STATE")]
    rows += [
        (
            f"{'  ' * depth}{member.model}",
            member.scope,
            quality,
            str(member.step),
            say_share(member.inherited),
            member.state,
        )
        for (depth, member), quality in zip(tree, say_qualities([member.quality for _, member in tree]), strict=True)
    ]
    print_columns(rows, right={2, 3, 4})


@click.command(short_help="Who trained which layer of a model: when, how long, how good.")
@ROOT
@MODEL
@AS_JSON
def blame(root: Path, model_id: str, as_json: bool) -> None:
    """Show for each layer with weights in which model it was trained last, when, and how good that model was.

    STEPS are all that the layer's weights have had, in whichever model. ROOT as a run's folder knows when models were
    put, of those that are retired, too.
    """
    from daskevo_plugins.formatting import plain, say_qualities
    from daskevo_workflows.comparing.blame import blame as blamed
    from daskevo_workflows.exporting.facts import ended_of, said_time
    from daskevo_workflows.exporting.origins import Origins

    repository, origins = opened(root), Origins.at(root)
    record = record_of(repository, root, model_id)
    standings = {owner: repository.status(owner) for owner in record.owner_map.owners}
    owners = {owner: (standing.state, standing.record) for owner, standing in standings.items()}
    lines = blamed(record, record.architecture, owners, lambda whose: ended_of(whose, origins))
    if as_json:
        click.echo(json.dumps([asdict(line) | {"ended": said_time(line.ended)} for line in lines]))
        return
    rows = [("LAYER", "KIND", "TENSORS", "TRAINED IN", "ENDED", "STEPS", "QUALITY", "STATE")]
    rows += [
        (
            plain(line.layer, 60),
            plain(line.kind, 40),
            str(line.tensors),
            line.model,
            said_time(line.ended) or "–",
            f"{line.steps:,}",
            quality,
            line.state,
        )
        for line, quality in zip(lines, say_qualities([line.quality for line in lines]), strict=True)
    ]
    print_columns(rows, right={2, 5, 6})


@click.command(short_help="What makes two models differ.")
@ROOT
@click.argument("model_a")
@click.argument("model_b")
@AS_JSON
def diff(root: Path, model_a: str, model_b: str, as_json: bool) -> None:
    """Show what makes two models differ: layers in common, settings that differ, who trained what, bytes shared.

    Layers are "shared" where both have the same stored weights, "trained apart" where only their settings are equal.
    """
    from daskevo_workflows.comparing.difference import difference
    from daskevo_workflows.exporting.origins import Origins

    repository, origins = opened(root), Origins.at(root)
    records = [record_of(repository, root, model_id) for model_id in (model_a, model_b)]
    first, second = records
    found = difference(first, first.architecture, second, second.architecture)
    common = repository.common_ancestor(model_a, model_b)
    chosen = _changed_choices(origins, model_a, model_b)
    facts = {
        "models": [_model(record) for record in records],
        "common_ancestor": common,
        "choices": None if chosen is None else {name: list(pair) for name, pair in chosen.items()},
        "prefix": found.prefix,
        "shared_tensors": found.shared_tensors,
        "shared_bytes": found.shared_bytes,
        "layers": [asdict(pair) for pair in found.layers],
    }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        _show_difference(records, found, common, chosen)


def _changed_choices(origins: Any, model_a: str, model_b: str) -> Mapping[str, tuple[Any, Any]] | None:
    """Return the choices that differ, by name; None if the run's record doesn't have both."""
    from daskevo_workflows.comparing.difference import changed

    if origins is None:
        return None
    first, second = origins.of(model_a).choices, origins.of(model_b).choices
    return None if first is None or second is None else changed(first, second)


def _model(record: ModelRecord) -> dict[str, Any]:
    graph = record.architecture
    return {
        **facts_of(record),
        "parameters": graph.parameters,
        "bytes": graph.nbytes,
        "ancestor": record.ancestor,
        "parent": record.parent,
    }


def _show_difference(
    records: Sequence[ModelRecord],
    found: ModelDifference,
    common: str | None,
    chosen: Mapping[str, tuple[Any, Any]] | None,
) -> None:
    from daskevo_plugins.formatting import plain, say_bytes, say_quality

    models = [_model(record) for record in records]
    rows: list[tuple[str, ...]] = [("", "A", "B")]
    for name, said in (
        ("model", str),
        ("scope", str),
        ("quality", say_quality),
        ("step", str),
        ("parameters", "{:,}".format),
        ("bytes", say_bytes),
        ("ancestor", lambda value: value or "–"),
    ):
        rows.append((name, *(plain(said(model[name]), 110) for model in models)))
    for name, (mine, theirs) in (chosen or {}).items():
        rows.append((plain(name, 60), _value(mine), _value(theirs)))
    print_columns(rows)
    click.echo(
        f"\nnearest common ancestor: {common or 'none'}; shared: {found.shared_tensors} tensors, "
        f"{say_bytes(found.shared_bytes)} of {say_bytes(models[1]['bytes'])}\n"
    )
    print_columns([("LAYER OF A", "LAYER OF B", "KIND", "DIFFERENCE", "TRAINED IN"), *map(_row, found.layers)])


def _row(pair: LayerPair) -> tuple[str, ...]:
    from daskevo_plugins.formatting import plain

    settings = ", ".join(
        f"{plain(name, 40)} {_value(mine)} → {_value(theirs)}" for name, (mine, theirs) in pair.settings.items()
    )
    owners = [", ".join(one) for one in (pair.trained_first, pair.trained_second) if one]
    return (
        plain(pair.first or "–", 60),
        plain(pair.second or "–", 60),
        plain(pair.kind, 40),
        settings or pair.relation,
        " / ".join(dict.fromkeys(owners)),
    )


def _value(value: Any) -> str:
    from daskevo_plugins.formatting import plain

    return plain(value if isinstance(value, str) else json.dumps(value), 40)
