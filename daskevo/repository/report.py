"""What an inheritance brought, what not and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daskevo.cluster.inheriting import Reservation
from daskevo.graph import ArchitectureGraph
from daskevo.types import ModelId


@dataclass(frozen=True)
class InheritanceReport:
    """What was inherited, what not and why.

    Parameters
    ----------
    ancestor:
        The model that weights came from, or None.
    matched, unmatched:
        Names of the layers whose weights were inherited, and of the others that have weights.
    frozen:
        Names of the layers that don't train.
    inherited_tensors, inherited_bytes, total_bytes:
        Size of what came from the ancestor, and of the whole model.
    tried:
        Better matches that could not be inherited from -> why.
    silent:
        Providers and shards that gave no answer to the query -> why: a better match may be there.
    """

    ancestor: ModelId | None
    matched: tuple[str, ...]
    unmatched: tuple[str, ...]
    frozen: tuple[str, ...]
    inherited_tensors: int
    inherited_bytes: int
    total_bytes: int
    tried: Mapping[ModelId, str]
    silent: Mapping[str, str]

    def __str__(self) -> str:
        if self.ancestor is None:
            return "nothing inherited: no model of the scope shares a prefix with weights"
        return (
            f"inherited {len(self.matched)} of {len(self.matched) + len(self.unmatched)} layers with weights from "
            f"{self.ancestor} ({self.inherited_bytes:,} of {self.total_bytes:,} bytes), {len(self.frozen)} frozen"
        )


def report_of(reservation: Reservation, graph: ArchitectureGraph, frozen: Sequence[int]) -> InheritanceReport:
    """Return the report on a reservation; `frozen` are the layers that don't train, by index."""
    numbers = reservation.entries.keys()
    matched = sorted({graph.tensors[number].layer for number in numbers})
    rest = sorted({key.layer for key in graph.tensors} - set(matched))
    return InheritanceReport(
        None if reservation.ancestor is None else reservation.ancestor.model_id,
        tuple(graph.layers[layer].name for layer in matched),
        tuple(graph.layers[layer].name for layer in rest),
        tuple(graph.layers[layer].name for layer in frozen),
        len(numbers),
        sum(graph.tensors[number].spec.nbytes for number in numbers),
        graph.nbytes,
        dict(reservation.tried),
        dict(reservation.silent),
    )
