"""A family of models: who inherited from whom, as Graphviz text and as an indented tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from daskevo.protocol.model_record import ModelRecord
from daskevo.types import ModelId, Objective
from daskevo_plugins.dashboard.lineage_tree import walk
from daskevo_plugins.formatting import plain, say_quality, say_share


@dataclass(frozen=True)
class FamilyMember:
    """One model of a family.

    Parameters
    ----------
    model, ancestor, parent:
        Its id, whom it inherited weights from, and the candidate that a strategy changed to get it.
    state:
        Where it stands: ``published``, ``retired``, ...
    scope, objective, quality, step:
        As its record has them.
    inherited:
        Share of its bytes that others stored, 0 to 1; None if it isn't known any more.
    """

    model: ModelId
    ancestor: ModelId | None
    parent: ModelId | None
    state: str
    scope: str
    objective: str | None
    quality: float | None
    step: int
    inherited: float | None

    @classmethod
    def of(cls, record: ModelRecord, state: str) -> FamilyMember:
        """Return the member of a record or tombstone."""
        share = None
        # A tombstone has no graph: how large its tensors were isn't known any more.
        if record.graph is not None:
            keys, entries = record.architecture.tensors, record.owner_map.entries
            of_others = sum(
                key.spec.nbytes for key, entry in zip(keys, entries, strict=True) if entry.owner != record.model_id
            )
            share = of_others / (record.architecture.nbytes or 1)
        return cls(
            record.model_id,
            record.ancestor,
            record.parent,
            state,
            record.scope,
            record.objective,
            record.quality,
            record.step,
            share,
        )


Family = Mapping[ModelId, FamilyMember]


def best_of(family: Family) -> set[ModelId]:
    """Return the best living model of each scope."""
    # By scope: qualities of other data or tasks don't compare.
    leaders: dict[str, tuple[float, ModelId]] = {}
    for member in family.values():
        if member.state != "published" or member.quality is None or member.objective is None:
            continue
        rank = Objective.parse(member.objective).rank(member.quality)
        if member.scope not in leaders or rank > leaders[member.scope][0]:
            leaders[member.scope] = rank, member.model
    return {model for _, model in leaders.values()}


def dot_of(family: Family) -> str:
    """Return a family as text for Graphviz.

    Lines lead from an ancestor to its heirs, with the share of their bytes that they inherited; dashed ones from a
    parent that is another model than the ancestor. Retired models are drawn dashed, the best of each scope bold.
    """
    best = best_of(family)
    lines = [
        "digraph lineage {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fillcolor="#eef3f8", fontname="sans-serif", fontsize=10];',
        '  edge [fontname="sans-serif", fontsize=9, color="#5b6b7b"];',
    ]
    for member in family.values():
        label = f"{plain(member.model)}\n{_figures(member)}"
        look = ""
        if member.state != "published":
            look = ', style="rounded,dashed"'
        elif member.model in best:
            look = ', penwidth=2.5, fillcolor="#d5e8d4"'
        lines.append(f"  {quoted(member.model)} [label={quoted(label)}{look}];")
    for member in family.values():
        if member.ancestor in family:
            share = "" if member.inherited is None else f" [label={quoted(say_share(member.inherited))}]"
            lines.append(f"  {quoted(member.ancestor)} -> {quoted(member.model)}{share};")
        # Outside of the ranks: a family is laid out by who inherited from whom.
        if member.parent in family and member.parent != member.ancestor:
            lines.append(f"  {quoted(member.parent)} -> {quoted(member.model)} [style=dashed, constraint=false];")
    return "\n".join([*lines, "}"]) + "\n"


def quoted(text: object) -> str:
    r"""Return a quoted string of Graphviz' language; line breaks become its own.

    Examples
    --------
    >>> print(quoted('a "b" \\N'))
    "a \"b\" \\N"
    """
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def tree_of(family: Family) -> Iterator[tuple[int, FamilyMember]]:
    """Yield (depth, member), each ancestor before its heirs; whose ancestor isn't in the family has depth 0."""
    heirs: dict[str | None, list[str]] = {}
    for member in family.values():
        heirs.setdefault(member.ancestor if member.ancestor in family else None, []).append(member.model)
    for model, above, _ in walk(heirs.get(None, ()), heirs):
        yield len(above), family[ModelId(model)]


def family_of(members: Iterable[FamilyMember]) -> dict[ModelId, FamilyMember]:
    """Return members by their ids."""
    return {member.model: member for member in members}


def _figures(member: FamilyMember) -> str:
    quality = "no quality" if member.quality is None else f"quality {say_quality(member.quality)}"
    return f"{quality}, step {member.step}"
