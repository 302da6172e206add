"""What makes two models of a repository differ: layers in common, changed settings, who trained what, bytes shared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from daskevo.graph import ArchitectureGraph, Vertex, longest_common_prefix
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.repository.prefix_boundary import facts_of
from daskevo.types import JSON, ModelId
from daskevo_workflows.comparing.alignment import Trait, in_order, matched
from daskevo_workflows.exporting.facts import kind_of

Relation = Literal["same", "shared", "equal", "trained apart", "other settings", "only in A", "only in B"]
"""Of two layers.

- ``same``: equal settings, no weights; ``shared``: the same stored weights; ``equal``: equal weights, stored twice.
- ``trained apart``: equal settings, other weights; ``other settings``: those that differ are named.
"""


@dataclass(frozen=True)
class LayerPair:
    """A layer of A beside the one of B that stands in its place.

    Parameters
    ----------
    first, second:
        Names of the layers; None where there is none.
    kind:
        Class of the layer: the same in both.
    relation:
        How they stand to each other.
    settings:
        Name -> (value in A, value in B) of those that differ.
    trained_first, trained_second:
        In which models each was trained last.
    """

    first: str | None
    second: str | None
    kind: str
    relation: Relation
    settings: Mapping[str, tuple[JSON, JSON]] = field(default_factory=dict)
    trained_first: tuple[ModelId, ...] = ()
    trained_second: tuple[ModelId, ...] = ()


@dataclass(frozen=True)
class ModelDifference:
    """Two models beside each other.

    Parameters
    ----------
    layers:
        In the order of A, those of B alone after the one that they follow in B.
    prefix:
        Vertices of the longest common prefix of A with B.
    shared_tensors, shared_bytes:
        Tensors of B that are those of A, stored once.
    """

    layers: tuple[LayerPair, ...]
    prefix: int
    shared_tensors: int
    shared_bytes: int


class _Stored(NamedTuple):
    record: ModelRecord
    graph: ArchitectureGraph


def difference(
    first: ModelRecord, first_graph: ArchitectureGraph, second: ModelRecord, second_graph: ArchitectureGraph
) -> ModelDifference:
    """Compare two models.

    Layers of the longest common prefix stand beside each other; then inputs, and outputs, of the same class; of the
    others as many as can be with equal settings in the same order, and then of the same class.
    """
    prefix = longest_common_prefix(first_graph, second_graph)
    # A tensor is stored once, under its owner and number: the same pair is the same bytes.
    stored = {(entry.owner, entry.number) for entry in first.owner_map.entries}
    shared = [
        key.spec.nbytes
        for key, entry in zip(second_graph.tensors, second.owner_map.entries, strict=False)
        if (entry.owner, entry.number) in stored
    ]
    places = _places(first_graph, second_graph, prefix.layers(first_graph, second_graph))
    both = _Stored(first, first_graph), _Stored(second, second_graph)
    layers = tuple(_pair(*both, mine, theirs) for mine, theirs in places)
    return ModelDifference(layers, len(prefix.vertices), len(shared), sum(shared))


def _places(
    first: ArchitectureGraph, second: ArchitectureGraph, prefix: Iterable[tuple[int, int]]
) -> list[tuple[int | None, int | None]]:
    """Return (layer of A, layer of B) in A's order, those of B alone where they follow their neighbours."""
    mine, theirs = _traits(first), _traits(second)
    pairs = dict(prefix)
    # Inputs and outputs first: by kind alone, a layer in the middle might be taken for one of them.
    for some, others in (
        ([first.vertices[vertex].layer for vertex in first.inputs], [second.vertices[v].layer for v in second.inputs]),
        ([first.vertices[v].layer for v, _ in first.outputs], [second.vertices[v].layer for v, _ in second.outputs]),
        (range(len(mine)), range(len(theirs))),
    ):
        taken = set(pairs.values())
        left = [layer for layer in dict.fromkeys(some) if layer not in pairs]
        right = [layer for layer in dict.fromkeys(others) if layer not in taken]
        found = matched([mine[layer] for layer in left], [theirs[layer] for layer in right])
        pairs.update((left[one], right[other]) for one, other in found)
    return in_order(len(mine), len(theirs), pairs)


def _traits(graph: ArchitectureGraph) -> list[Trait]:
    return [
        Trait(kind_of(layer.config), json.dumps(_said(_vertex(graph, number)), sort_keys=True))
        for number, layer in enumerate(graph.layers)
    ]


def _pair(first: _Stored, second: _Stored, mine: int | None, theirs: int | None) -> LayerPair:
    if mine is None:
        assert theirs is not None
        layer, owners = second.graph.layers[theirs], _owners(second, theirs)
        return LayerPair(None, layer.name, kind_of(layer.config), "only in B", trained_second=owners)
    layer, owners = first.graph.layers[mine], _owners(first, mine)
    if theirs is None:
        return LayerPair(layer.name, None, kind_of(layer.config), "only in A", trained_first=owners)
    settings = changed(_said(_vertex(first.graph, mine)), _said(_vertex(second.graph, theirs)))
    return LayerPair(
        layer.name,
        second.graph.layers[theirs].name,
        kind_of(layer.config),
        "other settings" if settings else _relation(first, second, mine, theirs),
        settings,
        owners,
        _owners(second, theirs),
    )


def _relation(first: _Stored, second: _Stored, mine: int, theirs: int) -> Relation:
    entries, others = _entries(first, mine), _entries(second, theirs)
    if not entries and not others:
        return "same"
    if [(one.owner, one.number) for one in entries] == [(one.owner, one.number) for one in others]:
        return "shared"
    return "equal" if [one.digest for one in entries] == [one.digest for one in others] else "trained apart"


def _vertex(graph: ArchitectureGraph, layer: int) -> Vertex:
    # The first call stands for the layer: its settings are the same in each.
    return graph.vertices[graph.calls[layer][0]]


def _said(vertex: Vertex) -> dict[str, JSON]:
    # Shapes follow from the arguments, here or in layers before, and are no settings.
    return {name: value for name, value in facts_of(vertex).items() if name != "outputs"}


def _entries(model: _Stored, layer: int) -> list[OwnerEntry]:
    return [model.record.owner_map.entries[number] for number in model.graph.tensor_numbers(layer)]


def _owners(model: _Stored, layer: int) -> tuple[ModelId, ...]:
    return tuple(dict.fromkeys(entry.owner for entry in _entries(model, layer)))


def changed(first: Mapping[str, JSON], second: Mapping[str, JSON]) -> dict[str, tuple[JSON, JSON]]:
    """Return name -> (value in A, value in B) of what differs.

    Examples
    --------
    >>> changed({"units": 8, "rate": 0.1}, {"units": 16, "rate": 0.1})
    {'units': (8, 16)}
    """
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return {name: (first.get(name), second.get(name)) for name in names}
