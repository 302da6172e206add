"""The record of one model, kept in its home shard: the data for matching, loading and lineage."""

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
    """The record of a model.

    Raises
    ------
    InvalidInput
        If `own` differs from the tensors that the model stored itself according to the owner map.
    """

    plain: ClassVar[bool] = True

    model_id: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    """The attempt that made it; (model_id, attempt) names its segment."""
    scope: Annotated[str, SCOPE]
    graph: Annotated[str | None, optional(TEXT)]
    """``ArchitectureGraph.text``; None after retirement. Kept as text, since most processes that pass a record on don't
    need the graph."""
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
    """JSON value that the caller attached."""

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
        """Tensor numbers at each other owner that this model uses."""
        return {owner: numbers for owner, numbers in self.owner_map.owners.items() if owner != self.model_id}

    @cached_property
    def own_bytes(self) -> int:
        """Bytes of the tensors that the model stored itself."""
        return sum(spec.nbytes for spec in self.own.values())

    def tombstone(self) -> ModelRecord:
        """Return the record that stays after retirement while others use its tensors: without graph and `extra`."""
        return replace(self, graph=None, extra=None)
