"""Snapshot of a shard's state for the audit and `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, get_args

from daskevo.protocol.codec import (
    BOOLEAN,
    COUNT,
    LABEL,
    MODEL,
    NUMBERS,
    TEXT,
    TICK,
    USES,
    Wire,
    choice,
    mapping,
    optional,
    part,
    sequence,
)
from daskevo.protocol.references import Claim, Segment, numbers_in
from daskevo.protocol.replies import ModelState
from daskevo.protocol.state import ShardState
from daskevo.types import Attempt, ModelId


@dataclass(frozen=True)
class _OfAttempt(Wire):
    plain: ClassVar[bool] = True

    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]

    @property
    def segment(self) -> Segment:
        """Key of the attempt's segment: (model, attempt)."""
        return self.model, self.attempt


@dataclass(frozen=True)
class ModelView(_OfAttempt):
    """A model in its home shard."""

    state: Annotated[ModelState, choice(*get_args(ModelState))]
    uses: Annotated[dict[ModelId, frozenset[int]], USES]
    """Tensors that its map uses, by owner, own tensors included."""
    alive: Annotated[frozenset[int], NUMBERS]
    """Own tensors that are stored."""
    alive_bytes: Annotated[int, COUNT]
    labels: Annotated[tuple[str, ...], sequence(LABEL)]
    has_file: Annotated[bool, BOOLEAN]


@dataclass(frozen=True)
class StagedView(_OfAttempt):
    """A staged attempt in its home shard."""

    own_bytes: Annotated[int, COUNT]
    has_file: Annotated[bool, BOOLEAN]


@dataclass(frozen=True)
class BitsView(Wire):
    """Bits of (model, attempt) at one owner."""

    plain: ClassVar[bool] = True

    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]

    @property
    def claim(self) -> Claim:
        """Holder of the bits: (model, attempt)."""
        return self.model, self.attempt


@dataclass(frozen=True)
class FileView(_OfAttempt):
    """A segment file in the shard's folder."""


@dataclass(frozen=True)
class ShardSnapshot(Wire):
    """A shard at one moment. `files` was listed *before* the state was copied.

    In this order, a file whose record arrives in between does not appear to be without a record.
    """

    number: Annotated[int, COUNT]
    models: Annotated[tuple[ModelView, ...], sequence(part(ModelView))]
    staged: Annotated[tuple[StagedView, ...], sequence(part(StagedView))]
    bits: Annotated[tuple[BitsView, ...], sequence(part(BitsView))]
    files: Annotated[tuple[FileView, ...] | None, optional(sequence(part(FileView)))] = None
    """None: there is no folder."""
    lost: Annotated[dict[ModelId, str], mapping(MODEL, TEXT)] = field(default_factory=dict)
    """Models that are lost, or may lack tensors, because records can't be used -> description."""

    @property
    def named_files(self) -> frozenset[Segment]:
        """Segment files that the records name."""
        # The file of a model goes with its last living tensor, also while the model's record stays.
        kept = {view.segment for view in self.models if view.has_file and view.alive}
        return frozenset(kept | {view.segment for view in self.staged if view.has_file})


def snapshot_of(
    number: int,
    state: ShardState,
    files: tuple[FileView, ...] | None = None,
    lost: Mapping[ModelId, str] | None = None,
) -> ShardSnapshot:
    """Return a shard's snapshot."""
    models = []
    for model_id, model in state.models.items():
        alive = numbers_in(state.references.there(model_id))
        models.append(
            ModelView(
                model_id,
                model.record.attempt,
                model.state,
                dict(model.record.owner_map.owners),
                alive,
                sum(spec.nbytes for tensor, spec in model.record.own.items() if tensor in alive),
                tuple(sorted(model.held)),
                model.file_bytes is not None,
            )
        )
    staged = tuple(
        StagedView(model_id, attempt, record.record.own_bytes, record.file_bytes is not None)
        for model_id, attempts in state.staged.items()
        for attempt, record in attempts.items()
    )
    bits = tuple(BitsView(owner, *claim, numbers_in(mask)) for owner, claim, mask in state.references)
    return ShardSnapshot(number, tuple(models), staged, bits, files, dict(lost or {}))
