"""Who trained which layer of a model: the model that each tensor is owned by, and what is known of that one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from daskevo.graph import ArchitectureGraph
from daskevo.protocol.model_record import ModelRecord
from daskevo.types import ModelId
from daskevo_workflows.exporting.facts import kind_of


@dataclass(frozen=True)
class Blamed:
    """A layer's tensors that one model stored.

    Parameters
    ----------
    layer, kind:
        The layer's name and class.
    tensors, nbytes:
        How many of its tensors, and their size in bytes.
    model:
        In which model they were trained last.
    steps:
        Training steps that they have had, whoever trained them: the most that one of them had.
    quality:
        That model's, when it was put; None if it had none, or is not known any more.
    ended:
        When it was put, in seconds since the epoch; None if nobody says.
    state:
        Where it stands: ``published``, ``retired``, ...
    """

    layer: str
    kind: str
    tensors: int
    nbytes: int
    model: ModelId
    steps: int
    quality: float | None
    ended: float | None
    state: str


def blame(
    record: ModelRecord,
    graph: ArchitectureGraph,
    owners: Mapping[ModelId, tuple[str, ModelRecord | None]],
    ended: Callable[[ModelRecord], float | None],
) -> list[Blamed]:
    """Return who trained which layer, in the order of the layers; one with tensors of several models has a line each.

    Parameters
    ----------
    record, graph:
        The model's; layers without tensors are left out.
    owners:
        Owner -> where it stands, and its record or tombstone.
    ended:
        Says when a model was put.
    """
    found = []
    for place, layer in enumerate(graph.layers):
        # A layer may have tensors of several models, where only some of them were trained.
        shares: dict[ModelId, list[int]] = {}
        for number in graph.tensor_numbers(place):
            shares.setdefault(record.owner_map.entries[number].owner, []).append(number)
        for owner, numbers in shares.items():
            state, whose = owners.get(owner, ("unknown", None))
            found.append(
                Blamed(
                    layer.name,
                    kind_of(layer.config),
                    len(numbers),
                    sum(graph.tensors[number].spec.nbytes for number in numbers),
                    owner,
                    max(record.owner_map.entries[number].steps for number in numbers),
                    None if whose is None else whose.quality,
                    None if whose is None else ended(whose),
                    state,
                )
            )
    return found
