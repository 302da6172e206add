"""What goes into the prefix index and what comes out: models, queries and matches, checked and packed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.types import ModelId, Tick, VertexId

Array = np.ndarray[Any, Any]

_ID_BYTES = 16
_EDGE_BYTES = 8
_MOST = 2**63 - 1
_NOTHING = np.frombuffer(b"", np.int64)
_NO_EDGES = np.frombuffer(b"", np.int32)


class PrefixMatch(NamedTuple):
    """A model that shares a prefix. Matches compare in a total order, and the largest is the best.

    So the best of all providers' answers is the answer over all models, whatever the shards. A model without a
    quality has the rank -inf.
    """

    score: int
    rank: float
    created: Tick
    model_id: ModelId


class Query(NamedTuple):
    """One question to the index.

    Parameters
    ----------
    ids:
        Ids of the graph's vertices, or all of them joined into one bytes object (no copies on the way). # (n,)
    weights:
        What each vertex counts, positive, in all less than 2**63; by default 1. # (n,)
    exclude:
        Models that must not be the answer.
    edges:
        Which vertex flows into which (:func:`pack_edges`), or None. They change no answer, only how fast it comes:
        vertices known to lie below others needn't be looked up one by one.
    """

    ids: Sequence[VertexId] | bytes
    weights: Sequence[int] | None = None
    exclude: frozenset[ModelId] = frozenset()
    edges: bytes | None = None


class Entry(NamedTuple):
    """One model for the index: the arguments of :meth:`PrefixIndex.insert`."""

    scope: str
    model_id: ModelId
    ids: Sequence[VertexId] | bytes
    rank: float | None
    created: Tick


def pack_edges(edges: Iterable[tuple[int, int]]) -> bytes:
    """Pack the (source, target) pairs of a graph, vertices in topological order, for :class:`Query`.

    Examples
    --------
    >>> pack_edges([(0, 1)])
    b'\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00'
    """
    return np.array(sorted(edges, key=lambda edge: edge[1]), "<i4").tobytes()


class PackedModel(NamedTuple):
    """A model as the compiled core takes it; nothing here is large, since a loading index keeps many."""

    scope: str
    ids: bytes
    rank: float
    created: Tick


def pack_model(entry: Entry) -> PackedModel:
    """Check and pack a model.

    Raises
    ------
    InvalidInput
        If its ids are no vertex ids.
    """
    rank = entry.rank
    known = float(rank) if rank is not None and math.isfinite(rank) else -math.inf
    return PackedModel(entry.scope, _joined(entry.ids), known, entry.created)


class PackedQuery(NamedTuple):
    """A query as the compiled core takes it.

    Parameters
    ----------
    ids:
        Two uint64 each. # (2 * n,)
    weights:
        int64; empty if each counts 1. # (n,) or (0,)
    exclude:
        Still models: only the scope knows their numbers.
    edges:
        int32 pairs. # (2 * n_edges,)
    closed:
        Whether the edges are known.
    """

    ids: Array
    weights: Array
    exclude: frozenset[ModelId]
    edges: Array
    closed: bool


def pack_query(
    ids: Sequence[VertexId] | bytes,
    weights: Sequence[int] | None = None,
    exclude: frozenset[ModelId] = frozenset(),
    edges: bytes | None = None,
) -> PackedQuery:
    """Check and pack a query, given by the fields of :class:`Query`.

    Raises
    ------
    InvalidInput
        If its ids are no vertex ids, or weights or edges don't fit them. Equal ids are found by the core.
    """
    joined = _joined(ids)
    values = _NOTHING if weights is None else _weights(weights, len(joined) // _ID_BYTES)
    pairs = _NO_EDGES
    if edges is not None:
        if len(edges) % _EDGE_BYTES:
            raise InvalidInput("the edges of a query are pairs of int32: pass what `pack_edges` returns")
        pairs = np.frombuffer(edges, np.int32)
    return PackedQuery(np.frombuffer(joined, np.uint64), values, exclude, pairs, edges is not None)


def _joined(ids: Sequence[VertexId] | bytes) -> bytes:
    if type(ids) is bytes:
        if len(ids) % _ID_BYTES == 0:
            return ids
    else:
        try:
            joined = b"".join(ids)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if not ids or set(map(len, ids)) == {_ID_BYTES}:  # type: ignore[arg-type]
                return joined
    raise InvalidInput("these are no vertex ids, which have 16 bytes each: pass `graph.ids`")


def _weights(weights: Sequence[int], count: int) -> Array:
    if len(weights) != count or set(map(type, weights)) - {int} or min(weights, default=1) <= 0:
        raise InvalidInput(
            f"weights must be one positive int for each of the {count} vertices: pass `graph.weights(graph, by)`"
        )
    if sum(weights) > _MOST:
        raise InvalidInput("weights must be less than 2**63 in all: count larger units, such as kB")
    return np.array(weights, np.int64)
