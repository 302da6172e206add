"""What a repository answers: best matches, lines of the list of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from daskevo.catalogue import Match
from daskevo.types import ModelId, Tick


class Matches(list[Match | None]):
    """Best matches, one per graph.

    Attributes
    ----------
    partial:
        Providers and shards that gave no answer -> why. Empty: the answer is exact.
    """

    def __init__(self, matches: Iterable[Match | None], partial: Mapping[str, str]) -> None:
        super().__init__(matches)
        self.partial = dict(partial)


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
