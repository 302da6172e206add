"""Report on an inheritance: which layers were inherited, and why not more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from daskevo.client.inherit import Reservation
from daskevo.graph import ArchitectureGraph
from daskevo.repository.prefix_boundary import Difference, boundary_of
from daskevo.types import ModelId

Reason = Difference | Literal["not asked", "no match", "too few layers", "gone", "no answer"]
"""Why no more was inherited: the end of the prefix (see `Boundary`), or why there is no prefix.

- ``not asked``: the caller asked for no inheritance; ``no match``: no model of the scope shares a vertex.
- ``too few layers``: the best match shares fewer layers than required.
- ``gone``: all matches were retired or lost meanwhile; ``no answer``: providers or shards did not answer the query.
"""


@dataclass(frozen=True)
class InheritanceReport:
    """Report on an inheritance.

    Parameters
    ----------
    ancestor:
        The model from which weights were inherited, or None.
    matched, unmatched:
        Names of the layers whose weights were inherited, and of the others that have weights.
    frozen:
        Names of the layers that don't train.
    inherited_tensors, inherited_bytes, total_bytes:
        Number and bytes of the inherited tensors, and bytes of the whole model.
    tried:
        Better matches that could not be inherited from -> why.
    silent:
        Providers and shards that did not answer the query, and may have a better match -> why.
    reason, words:
        Why no more was inherited, as a category and as text: the first vertex that the ancestor doesn't share.
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
    reason: Reason
    words: str

    def __str__(self) -> str:
        if self.ancestor is None:
            return f"nothing inherited: {self.words}"
        return (
            f"inherited {len(self.matched)} of {len(self.matched) + len(self.unmatched)} layers with weights from "
            f"{self.ancestor} ({self.inherited_bytes:,} of {self.total_bytes:,} bytes), {len(self.frozen)} frozen; "
            f"then {self.reason}: {self.words}"
        )


def report_of(
    reservation: Reservation,
    graph: ArchitectureGraph,
    frozen: Sequence[int],
    *,
    asked: bool = True,
    left: Collection[int] = (),
    kept: Sequence[int] = (),
    moving: Sequence[int] = (),
) -> InheritanceReport:
    """Return the report on a reservation.

    Parameters
    ----------
    frozen:
        Indices of the layers that don't train.
    asked:
        Whether the caller asked for an inheritance.
    left:
        Numbers of tensors that were reserved but not taken over.
    kept:
        Layers of the prefix that kept their loaded weights.
    moving:
        Layers that could not be frozen, since calling them changes their weights.
    """
    reason, words = _why_no_more(reservation, graph, asked)
    if kept:
        names = ", ".join(graph.layers[layer].name for layer in kept)
        reason, words = (
            "own weights",
            f"{names}: doesn't train, and keeps what was loaded; the ancestor's has trained on",
        )
    if moving:
        names = ", ".join(graph.layers[layer].name for layer in moving)
        words = f"{words}; not frozen, as calling it in training changes its weights: {names}"
    numbers = reservation.entries.keys() - set(left)
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
        reason,
        words,
    )


def _why_no_more(reservation: Reservation, graph: ArchitectureGraph, asked: bool) -> tuple[Reason, str]:
    if not asked:
        return "not asked", "it was to inherit nothing"
    if reservation.ancestor_graph is not None:
        boundary = boundary_of(graph, reservation.ancestor_graph, reservation.prefix)
        return boundary.reason, boundary.words
    # The last one that was tried, since its reason decided that nothing was inherited.
    for name, why in reversed(reservation.tried.items()):
        return "too few layers" if reservation.too_few else "gone", f"{name}: {why}"
    for shard, why in reservation.silent.items():
        return "no answer", f"{shard}: {why}"
    return "no match", "no model of the scope shares a layer"
