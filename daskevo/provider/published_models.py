"""The published models of a provider: the prefix index of their graphs, which answers queries, and their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from daskevo.client.best_match import Question
from daskevo.index import Entry, PrefixIndex, PrefixMatch
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.scopes import holds_snapshots
from daskevo.protocol.shard import Shard
from daskevo.types import ModelId, Objective, VertexId

QUESTIONS_AT_ONCE = 256
"""Queries of a batch that the index answers under one read lock; models published or retired meanwhile wait for some
milliseconds."""


class Summary(NamedTuple):
    """Data of a model for index and statistics: its vertex ids, and the bytes of all its tensors."""

    ids: tuple[VertexId, ...]
    nbytes: int


def summary_of(record: ModelRecord) -> Summary:
    """Summarise a published model's architecture; a snapshot is never matched, so its summary has no vertex ids."""
    graph = record.architecture
    return Summary(() if holds_snapshots(record.scope) else graph.ids, graph.nbytes)


def published(shard: Shard) -> Mapping[ModelId, ModelRecord]:
    """Return the records of a shard's published models."""
    return {model_id: model.record for model_id, model in shard.state.models.items() if model.state == "published"}


class PublishedModels:
    """The models of one provider that queries can match."""

    def __init__(self) -> None:
        self.index = PrefixIndex()
        self.nbytes: dict[ModelId, int] = {}
        """Model -> bytes of all its tensors, inherited ones included."""

    def index_shard(self, shard: Shard, summaries: Mapping[ModelId, Summary]) -> None:
        """Add the models of a shard that is being opened to the index; may be called from any thread."""
        records = published(shard)
        self.index.insert_many(
            [_entry(records[model_id], summary) for model_id, summary in summaries.items() if summary.ids]
        )

    def count(self, summaries: Mapping[ModelId, Summary]) -> None:
        """Add models of the index to the sizes."""
        self.nbytes |= {model_id: summary.nbytes for model_id, summary in summaries.items()}

    def add(self, record: ModelRecord) -> None:
        """Add a model that was just published to index and sizes."""
        summary = summary_of(record)
        if summary.ids:
            self.index.insert_many([_entry(record, summary)])
        self.nbytes[record.model_id] = summary.nbytes

    def remove(self, model_id: ModelId) -> None:
        """Remove a model from index and sizes."""
        self.index.remove(model_id)
        self.nbytes.pop(model_id, None)

    def leave_out(self, model_id: ModelId) -> None:
        """Remove a model from the index only: it is still stored here, and counts in the sizes."""
        self.index.remove(model_id)

    def take_back(self, record: ModelRecord) -> None:
        """Return a model to the index that `leave_out` removed."""
        self.index.insert_many([_entry(record, summary_of(record))])

    def best_many(self, scope: str, questions: Sequence[Any]) -> list[PrefixMatch | None]:
        """Answer queries in the form of the wire; may be called from any thread."""
        found: list[PrefixMatch | None] = []
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            some = [Question.from_wire(value) for value in questions[start : start + QUESTIONS_AT_ONCE]]
            found += self.index.best_many(scope, some)
        return found


def _entry(record: ModelRecord, summary: Summary) -> Entry:
    rank = None
    if record.objective is not None and record.quality is not None:
        rank = Objective.parse(record.objective).rank(record.quality)
    return Entry(record.scope, record.model_id, summary.ids, rank, record.created)
