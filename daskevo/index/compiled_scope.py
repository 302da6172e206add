"""The models of one scope: the compiled core's arrays, which grow here, and the models' names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.index.compiled import entries
from daskevo.index.compiled.layout import (
    FOUND,
    GRAPHS,
    LACKING,
    MEMBER,
    MEMBER_END,
    META,
    MODELS,
    NODE,
    NODE_END,
    NODES,
    POOL_END,
    REPEATED,
    UNIT,
)
from daskevo.index.query import Array, PackedModel, PackedQuery, PrefixMatch
from daskevo.types import ModelId, Tick

GROWTH = 1.25
"""Of the arrays: what grows by a part of itself costs each model a constant share. Large ones are moved by the kernel
page by page, not copied."""
FULLEST = 0.6
"""Share of a hash table's slots in use at most: an absent id is known after 3.6 slots, mostly of one cache line."""
_EMPTIEST = 0.4
_NOBODY = np.frombuffer(b"", np.int64)


class Scope:
    """The prefix index of one scope. Readers may run side by side, a writer alone: the caller sees to that."""

    def __init__(self) -> None:
        self._slots = np.zeros(64, np.uint64)
        self._graphs = np.zeros(16, np.uint64)
        self._nodes = np.zeros(32, NODE)
        self._members = np.zeros(8, MEMBER)
        self._pool = np.zeros(64 * UNIT, np.int32)
        self._meta = np.zeros(META, np.int64)
        self._names: list[ModelId | None] = []

    def __len__(self) -> int:
        return int(self._meta[MODELS])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self._slots, self._graphs, self._nodes, self._members, self._pool, self._meta)
        return sum(array.nbytes for array in arrays)

    def add(self, model_id: ModelId, model: PackedModel) -> int:
        """Add a model that isn't there; return the number by which it is removed."""
        text = model_id.encode("utf-8", "surrogatepass")
        words = np.frombuffer(text.ljust(-(-len(text) // 4) * 4, b"\0"), ">i4").astype(np.int32)
        ids = np.frombuffer(model.ids, np.uint64)
        generation, counter = model.created
        self._make_room(len(ids) // 2)
        while True:
            member = entries.add(*self._arrays(), ids, words, len(text), model.rank, generation, counter)
            if member >= 0:
                break
            self._pool = _longer(self._pool, (int(self._meta[POOL_END]) + int(self._meta[LACKING])) * UNIT)
        if member == len(self._names):
            self._names.append(model_id)
        else:
            self._names[member] = model_id
        return member

    def remove(self, member: int) -> None:
        """Take a model out."""
        entries.remove(*self._arrays(), member)
        self._names[member] = None

    def _arrays(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        return self._slots, self._nodes, self._graphs, self._members, self._pool, self._meta

    def _make_room(self, vertices: int) -> None:
        """Grow all but the pool until one more model with so many new vertices fits."""
        meta = self._meta
        if meta[NODE_END] + vertices > len(self._nodes):
            self._nodes = _longer(self._nodes, int(meta[NODE_END]) + vertices)
        if meta[MEMBER_END] + 1 > len(self._members):
            self._members = _longer(self._members, int(meta[MEMBER_END]) + 1)
        if meta[NODES] + vertices > FULLEST * len(self._slots):
            self._slots = _rehashed(self._slots, int(meta[NODES]) + vertices)
        if meta[GRAPHS] + 1 > FULLEST * len(self._graphs):
            self._graphs = _rehashed(self._graphs, int(meta[GRAPHS]) + 1)

    def best(self, query: PackedQuery, numbers: Mapping[ModelId, int]) -> PrefixMatch | None:
        """Return the best match of one query.

        Parameters
        ----------
        numbers:
            Excluded models of this scope -> what `add` returned; models that are not in it don't matter.

        Raises
        ------
        InvalidInput
            If an id stands twice, or the edges are not those of a graph in topological order.
        """
        state, score, member, rank, generation, counter = entries.best(
            *(self._slots, self._nodes, self._members, self._pool),
            query.ids,
            query.weights,
            _sorted(numbers.values()) if numbers else _NOBODY,
            query.edges,
            query.closed,
        )
        if state == FOUND:
            return PrefixMatch(score, rank, Tick(generation, counter), self._names[member])  # type: ignore[arg-type]
        _check(state)
        return None

    def best_many(
        self, queries: Sequence[PackedQuery], numbers: Sequence[Mapping[ModelId, int]]
    ) -> list[PrefixMatch | None]:
        """Return the best match of each query; raises as `best`."""
        exclude = [_sorted(excluded.values()) if excluded else _NOBODY for excluded in numbers]
        ends = np.zeros((len(queries) + 1, 5), np.int64)
        rows = [
            (len(query.ids), len(query.weights), len(nobody), len(query.edges), query.closed)
            for query, nobody in zip(queries, exclude, strict=True)
        ]
        ends[1:] = rows
        ends[:, :4].cumsum(axis=0, out=ends[:, :4])
        found = np.zeros((len(queries), 5), np.int64)
        ranks = np.zeros(len(queries))
        entries.best_many(
            *(self._slots, self._nodes, self._members, self._pool),
            np.concatenate([query.ids for query in queries]),
            np.concatenate([query.weights for query in queries]),
            np.concatenate(exclude),
            np.concatenate([query.edges for query in queries]),
            ends,
            found,
            ranks,
        )
        matches: list[PrefixMatch | None] = []
        names: Any = self._names
        for (state, score, member, generation, counter), rank in zip(found.tolist(), ranks.tolist(), strict=True):
            if state == FOUND:
                matches.append(PrefixMatch(score, rank, Tick(generation, counter), names[member]))
            else:
                _check(state)
                matches.append(None)
        return matches


def _check(state: int) -> None:
    if state == REPEATED:
        raise InvalidInput("the ids of a graph's vertices are distinct, these are not: pass `graph.ids`")
    if state < 0:
        raise InvalidInput("the edges of a query lead from earlier to later vertices: pass what `pack_edges` returns")


def _sorted(numbers: Iterable[int]) -> Array:
    return np.array(sorted(numbers), np.int64)


def _longer(array: Array, least: int) -> Array:
    # In place: a view of it would be a bug elsewhere, and the kernel can move the pages.
    array.resize(max(least, int(len(array) * GROWTH)), refcheck=False)
    return array


def _rehashed(slots: Array, numbers: int) -> Array:
    larger = np.zeros(int(numbers / _EMPTIEST) + 1, np.uint64)
    entries.copy_into(slots, larger)
    return larger
