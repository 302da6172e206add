"""The prefix index written down plainly, with dicts and sets: what the compiled one is compared with."""

from __future__ import annotations

import math

from daskevo.index import Entry, PrefixMatch, Query
from daskevo.types import ModelId


class PlainIndex:
    """Looks at every model of the scope."""

    def __init__(self) -> None:
        self.models: dict[ModelId, tuple[Entry, frozenset[bytes]]] = {}

    def insert(self, entry: Entry) -> None:
        self.models[entry.model_id] = entry, frozenset(entry.ids)

    def remove(self, model_id: ModelId) -> None:
        self.models.pop(model_id, None)

    def best(self, scope: str, query: Query) -> PrefixMatch | None:
        values = dict(zip(query.ids, query.weights or [1] * len(query.ids), strict=True))
        best = None
        for model_id, (entry, ids) in self.models.items():
            score = sum(values[vertex_id] for vertex_id in values.keys() & ids)
            if entry.scope == scope and score and model_id not in query.exclude:
                rank = entry.rank if entry.rank is not None and math.isfinite(entry.rank) else -math.inf
                match = PrefixMatch(score, rank, entry.created, model_id)
                best = match if best is None else max(best, match)
        return best
