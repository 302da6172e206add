"""The record of one model: what its home keeps, and what every match, load and lineage question is answered from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.protocol.codec import (
    COUNT,
    FREE,
    METRICS,
    MODEL,
    NUMBER,
    OBJECTIVE,
    SCOPE,
    SPEC,
    TEXT,
    TICK,
    Wire,
    mapping,
    optional,
    part,
)
from daskevo.protocol.owner_map import OwnerMap
from daskevo.types import JSON, Attempt, ModelId, TensorSpec, Tick


@dataclass(frozen=True)
class ModelRecord(Wire):
    """A model as its home keeps it.

    Raises
    ------
    InvalidInput
        If `own` doesn't name exactly the tensors that the owner map says the model stored itself.
    """

    plain: ClassVar[bool] = True

    model_id: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    """The attempt that made it; (model_id, attempt) names its segment."""
    scope: Annotated[str, SCOPE]
    graph: Annotated[str | None, optional(TEXT)]
    """``ArchitectureGraph.text``; None after retirement. Text, because most who pass a record on don't look into it."""
    owner_map: Annotated[OwnerMap, part(OwnerMap)]
    own: Annotated[dict[int, TensorSpec], mapping(COUNT, SPEC)]
    """The tensors in its own segment, by number."""
    created: Annotated[Tick, TICK]
    """Order of creation."""
    objective: Annotated[str | None, optional(OBJECTIVE)] = None
    """``max METRIC`` or ``min METRIC``."""
    quality: Annotated[float | None, optional(NUMBER)] = None
    """The objective's metric; None never wins a comparison."""
    metrics: Annotated[dict[str, JSON], METRICS] = field(default_factory=dict)
    step: Annotated[int, COUNT] = 0
    """Training step (its unit is the scope's: epochs or batches) at which `metrics` were measured."""
    parent: Annotated[ModelId | None, optional(MODEL)] = None
    """The candidate that a strategy mutated."""
    ancestor: Annotated[ModelId | None, optional(MODEL)] = None
    """The model that weights were inherited from."""
    extra: Annotated[JSON, FREE] = None
    """What the caller attached."""

    def __post_init__(self) -> None:
        if self.own.keys() != self.owner_map.own(self.model_id):
            raise InvalidInput(
                f"the record of {self.model_id!r} brings tensors {sorted(self.own)[:5]}..., but its owner map says it "
                f"owns {sorted(self.owner_map.own(self.model_id))[:5]}...: they must be the same",
                model_id=self.model_id,
            )

    @property
    def architecture(self) -> ArchitectureGraph:
        """The model's architecture graph; raises CorruptRecord if `graph` is none, or the model has been retired."""
        if self.graph is None:
            raise CorruptRecord(f"the record of {self.model_id!r} has no architecture any more: it has been retired")
        return ArchitectureGraph.of_text(self.graph)

    @property
    def inherited(self) -> dict[ModelId, frozenset[int]]:
        """For each other owner, the numbers (in the owner's enumeration) that this model uses."""
        return {owner: numbers for owner, numbers in self.owner_map.owners.items() if owner != self.model_id}

    @cached_property
    def own_bytes(self) -> int:
        """Payload of the tensors that it stored itself, in bytes."""
        return sum(spec.nbytes for spec in self.own.values())

    def tombstone(self) -> ModelRecord:
        """Return what stays after retirement as long as others use tensors of it: no architecture, no attachments."""
        return replace(self, graph=None, extra=None)
