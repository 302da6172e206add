"""Architecture graphs of snapshots: a model's, and behind it layers that only hold tensors, which nothing calls.

So whatever is kept by tensor number (owner maps, references, segments) keeps the state of an optimizer, too. The
model's tensors keep their numbers; those attached follow, grouped by the first part of their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph.architecture import ArchitectureGraph
from daskevo.graph.parts import LayerRecord, Vertex
from daskevo.types import JSON, TensorSpec

SNAPSHOT = "daskevo snapshot 1"
"""Signature of the last vertex of a snapshot's graph: an empty layer that says how many before it hold tensors."""
_GROUP = "daskevo attached"


class Detached(NamedTuple):
    """A model's architecture graph, if there was one, and the names of the tensors that were attached, in order."""

    graph: ArchitectureGraph | None
    names: tuple[str, ...]


def in_order(names: Mapping[str, object]) -> list[str]:
    """Return names of tensors in the order in which they are attached, independent of the given order."""
    # By group first: in plain order `a-b/0` stands between `a` and `a/0`, which are of one group.
    return sorted(names, key=lambda name: (_group_of(name), name))


def attach(graph: ArchitectureGraph | None, specs: Mapping[str, TensorSpec]) -> ArchitectureGraph:
    """Return the architecture graph of a snapshot.

    Parameters
    ----------
    graph:
        The model's; None for a training without one.
    specs:
        Further tensors by name, such as ``optimizer/0000``.

    Raises
    ------
    InvalidInput
        If there are more of them than a graph may have, or a name can't be one.

    Examples
    --------
    >>> snapshot = attach(None, {"optimizer/0000": TensorSpec((3,), "float32"), "random/0000": TensorSpec((), "int64")})
    >>> [layer.name for layer in snapshot.layers], len(snapshot.tensors)
    (['optimizer', 'random', 'snapshot'], 2)
    >>> detach(snapshot)
    Detached(graph=None, names=('optimizer/0000', 'random/0000'))
    """
    layers: list[LayerRecord] = [] if graph is None else list(graph.layers)
    vertices: list[Vertex] = [] if graph is None else list(graph.vertices)
    count = 0
    for group, names in groupby(in_order(specs), _group_of):
        found = list(names)
        config: JSON = {"class_name": "Attached", "names": found}
        vertices.append(Vertex(len(layers), f"{_GROUP}: {group}"))
        layers.append(LayerRecord(group, config, tuple(specs[name] for name in found)))
        count += 1
    vertices.append(Vertex(len(layers), SNAPSHOT))
    layers.append(LayerRecord("snapshot", {"class_name": "Snapshot", "groups": count}))
    return ArchitectureGraph(
        tuple(layers),
        tuple(vertices),
        () if graph is None else graph.inputs,
        ((len(vertices) - 1, 0),) if graph is None else graph.outputs,
        None if graph is None else graph.structure,
    )


def is_snapshot(graph: ArchitectureGraph) -> bool:
    """Tell whether a graph is one that `attach` made."""
    # Signatures of layers are JSON objects, so no model's last vertex has this one.
    return graph.vertices[-1].signature == SNAPSHOT


def detach(graph: ArchitectureGraph) -> Detached:
    """Take the architecture graph of a snapshot apart.

    Raises
    ------
    CorruptRecord
        If it is none that `attach` made.
    """
    match graph.layers[-1].config if is_snapshot(graph) else None:
        case {"class_name": "Snapshot", "groups": int() as count, **rest} if not rest and count in range(
            len(graph.layers)
        ):
            pass
        case _:
            raise CorruptRecord("this architecture graph is a model's, not a snapshot's: nothing is attached to it")
    calls = len(graph.vertices) - 1 - count
    first = len(graph.layers) - 1 - count
    names: list[str] = []
    for layer in graph.layers[first:-1]:
        match layer.config:
            case {"class_name": "Attached", "names": [*found]} if len(found) == len(layer.tensors):
                names += found
            case _:
                raise CorruptRecord(f"the names of what is attached as {layer.name!r:.60} are not those of its tensors")
    if not all(type(name) is str for name in names) or len(set(names)) < len(names):
        raise CorruptRecord("of what is attached to a snapshot, two have the same name, or one has none")
    if not first and not calls:
        return Detached(None, tuple(names))
    try:
        # A record is not to be trusted: edges and outputs may lead to what is cut off here.
        model = ArchitectureGraph(
            graph.layers[:first], graph.vertices[:calls], graph.inputs, graph.outputs, graph.structure
        )
    except InvalidInput as error:
        raise CorruptRecord(f"the model of a snapshot has no architecture graph: {error.message}") from error
    return Detached(model, tuple(names))


def _group_of(name: str) -> str:
    return name.partition("/")[0]
