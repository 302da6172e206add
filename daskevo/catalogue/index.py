"""The prefix index: which of many models shares the longest prefix with a given architecture graph.

Source: paper 000, section 4.2 (longest common prefix queries over the models of a provider). Ids of vertices contain
their ancestor cones (:mod:`daskevo.graph.identity`), so the prefix of a graph with a model is the set of ids that both
have, and its score is the weight of that set. An inverted index, id -> models that hold it, leaves out all models that
share nothing, and most of those that share too little to win.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import NamedTuple

from daskevo.errors import InvalidInput
from daskevo.types import ModelId, Tick, VertexId


class Match(NamedTuple):
    """A model that shares a prefix. Matches compare in a total order, and the largest is the best.

    So the best of all providers' answers is the answer over all models, whatever the shards. A model without a
    quality has the rank -inf.
    """

    score: int
    rank: float
    created: Tick
    model_id: ModelId


class Query(NamedTuple):
    """One question to the index: the arguments of :meth:`PrefixIndex.best` after the scope."""

    ids: Sequence[VertexId]
    weights: Sequence[int] | None = None
    exclude: frozenset[ModelId] = frozenset()


class _Entry(NamedTuple):
    scope: str
    ids: frozenset[VertexId]
    rank: float
    created: Tick


class PrefixIndex:
    """Exact best matches among the models of one provider, scope by scope.

    All methods may be called from any thread; each takes effect at once for the calls that start after it returned.

    Examples
    --------
    >>> index = PrefixIndex()
    >>> x, a, b = (VertexId(bytes([n]) * 16) for n in range(3))
    >>> index.insert("digits", ModelId("short"), [x], 0.9, Tick(1, 1))
    >>> index.insert("digits", ModelId("long"), [x, a], 0.5, Tick(1, 2))
    >>> index.best("digits", [x, a, b])
    Match(score=2, rank=0.5, created=Tick(generation=1, counter=2), model_id='long')
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._models: dict[ModelId, _Entry] = {}
        # No empty sets and no empty scopes are kept, so that memory follows what is stored.
        self._scopes: dict[str, dict[VertexId, set[ModelId]]] = {}

    def __len__(self) -> int:
        return len(self._models)

    def __contains__(self, model_id: object) -> bool:
        return model_id in self._models

    def insert(self, scope: str, model_id: ModelId, ids: Sequence[VertexId], rank: float | None, created: Tick) -> None:
        """Add a model; one of the same id is replaced.

        Parameters
        ----------
        scope:
            Only queries of this scope find the model.
        ids:
            The ids of its graph's vertices, each 16 bytes.
        rank:
            Its quality as a figure that is larger for better models (:meth:`daskevo.types.Objective.rank`). None,
            NaN and infinities lose against every number.
        created:
            When it was published.

        Raises
        ------
        InvalidInput
            If `ids` are no vertex ids.
        """
        _check_ids(ids)
        known = rank if rank is not None and math.isfinite(rank) else -math.inf
        entry = _Entry(scope, frozenset(ids), known, created)
        with self._lock:
            self._remove(model_id)
            self._models[model_id] = entry
            postings = self._scopes.setdefault(scope, {})
            for vertex_id in entry.ids:
                postings.setdefault(vertex_id, set()).add(model_id)

    def remove(self, model_id: ModelId) -> None:
        """Take a model out; nothing happens if it isn't there."""
        with self._lock:
            self._remove(model_id)

    def _remove(self, model_id: ModelId) -> None:
        entry = self._models.pop(model_id, None)
        if entry is None:
            return
        postings = self._scopes[entry.scope]
        for vertex_id in entry.ids:
            holders = postings[vertex_id]
            holders.remove(model_id)
            if not holders:
                del postings[vertex_id]
        if not postings:
            del self._scopes[entry.scope]

    def best(
        self,
        scope: str,
        ids: Sequence[VertexId],
        weights: Sequence[int] | None = None,
        exclude: frozenset[ModelId] = frozenset(),
    ) -> Match | None:
        """Return the best match for a graph, or None if no model of the scope shares a vertex with it.

        Parameters
        ----------
        ids:
            The ids of the graph's vertices. # (n_vertices,)
        weights:
            What each vertex counts, positive; by default 1 (:func:`daskevo.graph.weights`). # (n_vertices,)
        exclude:
            Models that must not be the answer.

        Returns
        -------
        The largest :class:`Match`: highest score, then highest rank, then youngest, then largest id.

        Raises
        ------
        InvalidInput
            If `ids` are no distinct vertex ids, or the weights don't fit them.
        """
        values = _check_query(ids, weights)
        with self._lock:
            return self._best(scope, values, exclude)

    def best_many(self, scope: str, queries: Iterable[Query]) -> list[Match | None]:
        """Return the best match of each query, all as of one moment; raises as `best` does, before any is answered."""
        checked = [(_check_query(query.ids, query.weights), query.exclude) for query in queries]
        with self._lock:
            return [self._best(scope, values, exclude) for values, exclude in checked]

    def _best(self, scope: str, values: dict[VertexId, int], exclude: frozenset[ModelId]) -> Match | None:
        postings = self._scopes.get(scope, {})
        present = sorted((postings.keys() & values.keys()), key=lambda vertex_id: len(postings[vertex_id]))
        # The most that a model can score which is in none of the postings looked through so far.
        most = sum(values[vertex_id] for vertex_id in present)
        wanted = frozenset(present)
        best: Match | None = None
        seen: set[ModelId] = set()
        for vertex_id in present:
            # At equality there may still be a model that wins by its rank.
            if best is not None and most < best.score:
                break
            holders = postings[vertex_id]
            for model_id in holders - seen - exclude:
                entry = self._models[model_id]
                score = sum([values[shared] for shared in wanted & entry.ids])
                match = Match(score, entry.rank, entry.created, model_id)
                if best is None or match > best:
                    best = match
            seen |= holders
            most -= values[vertex_id]
        return best


def _check_ids(ids: Sequence[VertexId]) -> None:
    if not all(type(vertex_id) is bytes and len(vertex_id) == 16 for vertex_id in ids):
        raise InvalidInput("these are no vertex ids, which have 16 bytes each: pass `graph.ids`")


def _check_query(ids: Sequence[VertexId], weights: Sequence[int] | None) -> dict[VertexId, int]:
    _check_ids(ids)
    if weights is None:
        weights = [1] * len(ids)
    elif len(weights) != len(ids) or not all(type(weight) is int and weight > 0 for weight in weights):
        raise InvalidInput(
            f"weights must be one positive int for each of the {len(ids)} vertices: pass `graph.weights(graph, by)`"
        )
    values = dict(zip(ids, weights, strict=True))
    if len(values) != len(ids):
        raise InvalidInput("the ids of a graph's vertices are distinct, these are not: pass `graph.ids`")
    return values
