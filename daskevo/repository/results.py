"""Results of repository methods: best matches, and rows of the lists of models and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from daskevo.index import PrefixMatch
from daskevo.protocol.codec import json_value
from daskevo.types import JSON, ModelId, Tick

T = TypeVar("T")


class FoundList(list[T]):
    """A list of results, with what is missing in it.

    Attributes
    ----------
    partial:
        Providers and shards that did not answer, and shards whose models were lost with their provider's memory -> why.
        If it is empty, the result is complete.
    """

    def __init__(self, found: Iterable[T], partial: Mapping[str, str]) -> None:
        super().__init__(found)
        self.partial = dict(partial)


class Matches(FoundList[PrefixMatch | None]):
    """Best matches, one per graph; None where there is none."""


class ModelSummary(NamedTuple):
    """One line of `Repository.models`."""

    model_id: ModelId
    scope: str
    quality: float | None
    step: int
    created: Tick
    labels: tuple[str, ...]
    own_bytes: int
    """Bytes that it stored itself."""

    @classmethod
    def of_row(cls, row: Any) -> ModelSummary:
        """Read the line of a provider."""
        name, scope, quality, step, created, labels, own_bytes = row
        return cls(ModelId(name), scope, quality, step, Tick.parse(created), tuple(labels), own_bytes)


class SnapshotSummary(NamedTuple):
    """One line of `Repository.snapshots`."""

    name: ModelId
    step: int
    """Training step of the state."""
    metrics: Mapping[str, JSON]
    extra: JSON
    """JSON as it was put; identifies the training and the state."""
    labels: tuple[str, ...]
    created: Tick
    base: ModelId | None
    """The earlier snapshot that it was put with."""
    own_bytes: int
    """Bytes that it stored itself."""
    nbytes: int
    """Bytes of all its arrays."""

    @classmethod
    def of_row(cls, row: Any) -> SnapshotSummary:
        """Read the line of a provider."""
        summary, (metrics, extra, base, nbytes) = ModelSummary.of_row(row[:7]), row[7:]
        return cls(
            summary.model_id,
            summary.step,
            json_value(metrics),  # lists come as tuples
            json_value(extra),
            summary.labels,
            summary.created,
            None if base is None else ModelId(base),
            summary.own_bytes,
            nbytes,
        )
