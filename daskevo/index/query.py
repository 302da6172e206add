"""What goes into the prefix index and what comes out: models, queries and matches, checked and packed."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.types import ModelId, Tick, VertexId

Array = np.ndarray[Any, Any]

_ID_BYTES = 16
_EDGE_BYTES = 8
_MOST = 2**63 - 1

RECORD = struct.Struct("=2id2q")
GRAPH, LENGTH, RANK, NAME = 0, 1, 2, 8
"""Words of a model's record."""
REPEATED, BAD_EDGES = -1, -2
"""Scores that say what is wrong with a query."""

_COUNTS = struct.Struct("=3q")


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
    """A model as the compiled core takes it: bytes, since a loading index keeps many.

    Parameters
    ----------
    ids:
        16 bytes each.
    record:
        Its block: GRAPH, int32; LENGTH of its name in bytes, int32; rank, float64; tick, two int64; its name in UTF-8,
        filled up to whole words.
    """

    scope: str
    ids: bytes
    record: bytes


def pack_model(entry: Entry) -> PackedModel:
    """Check and pack a model.

    Raises
    ------
    InvalidInput
        If its ids are no vertex ids.
    """
    rank = entry.rank
    known = float(rank) if rank is not None and math.isfinite(rank) else -math.inf
    name = entry.model_id.encode("utf-8", "surrogatepass")
    record = RECORD.pack(0, len(name), known, *entry.created) + name + bytes(-len(name) % 4)
    return PackedModel(entry.scope, _joined(entry.ids), record)


def pack_query(
    ids: Sequence[VertexId] | bytes,
    weights: Sequence[int] | None = None,
    exclude: frozenset[ModelId] = frozenset(),
    edges: bytes | None = None,
) -> tuple[bytes, frozenset[ModelId]]:
    """Check and pack a query, given by the fields of :class:`Query`, for the compiled core.

    Returns
    -------
    Numbers of 64 bits: how many vertices, weights (0 if each counts 1) and edges (-1 if they are not known); the ids;
    the weights; the edges. And the models to exclude: only the scope knows their blocks.

    Raises
    ------
    InvalidInput
        If its ids are no vertex ids, or weights or edges don't fit them. Equal ids are found by the core.
    """
    joined = _joined(ids)
    count = len(joined) // _ID_BYTES
    values = b"" if weights is None else _weights(weights, count)
    if edges is not None and len(edges) % _EDGE_BYTES:
        raise InvalidInput("the edges of a query are pairs of int32: pass what `pack_edges` returns")
    known = -1 if edges is None else len(edges) // _EDGE_BYTES
    return b"".join((_COUNTS.pack(count, len(values) // 8, known), joined, values, edges or b"")), exclude


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


def _weights(weights: Sequence[int], count: int) -> bytes:
    if len(weights) != count or set(map(type, weights)) - {int} or min(weights, default=1) <= 0:
        raise InvalidInput(
            f"weights must be one positive int for each of the {count} vertices: pass `graph.weights(graph, by)`"
        )
    # The core adds them up in int64, where a larger sum would become negative.
    if sum(weights) > _MOST:
        raise InvalidInput("weights must be less than 2**63 in all: count larger units, such as kB")
    return np.array(weights, np.int64).tobytes()
