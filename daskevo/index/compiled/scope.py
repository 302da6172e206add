"""The models of one scope: owns the arrays of the compiled core. Importing this module compiles the core."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numba import types

from daskevo.errors import InvalidInput
from daskevo.index import query
from daskevo.index.compiled import blocks, search
from daskevo.index.compiled.blocks import END, NODE_UNITS, STATE_UNITS, TAKEN, UNIT
from daskevo.index.compiled.compilation import cache_folder, entry
from daskevo.index.query import BAD_EDGES, NAME, RECORD, REPEATED, PackedModel, PrefixMatch
from daskevo.types import ModelId, Tick

_GROWTH = 1.25
"""Factor by which arrays grow, so that growing costs each model a constant share. The kernel moves the pages of large
arrays instead of copying them."""
_FULLEST, _EMPTIEST = 0.6, 0.4
"""Shares of slots in use: at 0.6 an absent id is known after 3.6 slots, mostly of one cache line."""
# Models to exclude: a count of 0, int64.
_NOBODY = bytes(8)

_SLOTS, _POOL = types.uint64[::1], types.int32[::1]
_IDS, _RECORD, _ASKED = (types.Array(kind, 1, "C", readonly=True) for kind in (types.uint64, types.int32, types.int64))
with cache_folder([*Path(__file__).parent.glob("*.py"), Path(query.__file__)]) as _keep:
    _add = entry(types.int64(_SLOTS, _POOL, _IDS, _RECORD), keep=_keep)(blocks.add)
    _remove = entry(types.void(_SLOTS, _POOL, types.int64), keep=_keep)(blocks.remove)
    _rehash = entry(types.void(_SLOTS, _SLOTS, _POOL), keep=_keep)(blocks.rehash)
    _best_many = entry(types.void(_SLOTS, _POOL, _ASKED, types.int64[:, ::1]), keep=_keep)(search.best_many)


class Scope:
    """The prefix index of one scope. Readers may run side by side, a writer alone: the caller sees to that."""

    def __init__(self) -> None:
        self.blocks: dict[ModelId, int] = {}
        """Models and their blocks."""
        self._slots = np.zeros(64, np.uint64)
        self._pool = np.zeros(4 * STATE_UNITS * UNIT, np.int32)
        self._pool[END] = STATE_UNITS

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._slots.nbytes + self._pool.nbytes

    def add(self, model_id: ModelId, model: PackedModel) -> None:
        """Add a model that isn't there."""
        ids, record = np.frombuffer(model.ids, np.uint64), np.frombuffer(model.record, np.int32)
        vertices = len(ids) // 2
        # At most: each vertex may be a new node, and all together a new graph.
        taken = int(self._pool[TAKEN]) + vertices + 1
        if taken > _FULLEST * len(self._slots):
            larger = np.zeros(int(taken / _EMPTIEST), np.uint64)
            _rehash(self._slots, larger, self._pool)
            self._slots = larger
        # Room for nodes first, which `add` takes for granted; it says itself how much the rest needs.
        block = -vertices * NODE_UNITS * UNIT
        self._lengthen(-block)
        while (block := _add(self._slots, self._pool, ids, record)) < 0:
            self._lengthen(-block)
        self.blocks[model_id] = block

    def _lengthen(self, words: int) -> None:
        """Make room for so many words at the end of the pool."""
        least = int(self._pool[END]) * UNIT + words
        if least > len(self._pool):
            # In place: a view of it would be a bug elsewhere, and the kernel can move the pages.
            self._pool.resize(max(least, int(least * _GROWTH) // UNIT * UNIT), refcheck=False)

    def remove(self, model_id: ModelId) -> None:
        """Take a model out."""
        _remove(self._slots, self._pool, self.blocks.pop(model_id))

    def best_many(self, queries: Iterable[tuple[bytes, frozenset[ModelId]]]) -> list[PrefixMatch | None]:
        """Return the best match of each query, given as `pack_query` returns it and with the models to exclude.

        Raises
        ------
        InvalidInput
            If an id stands twice, or the edges are not those of a graph in topological order.
        """
        parts: list[bytes] = []
        for packed, exclude in queries:
            parts += packed, self._excluded(exclude) if exclude else _NOBODY
        found = np.empty((len(parts) // 2, 3), np.int64)
        _best_many(self._slots, self._pool, np.frombuffer(b"".join(parts), np.int64), found)
        return [self._match(*row) if row[0] else None for row in found.tolist()]

    def _excluded(self, exclude: frozenset[ModelId]) -> bytes:
        blocks = [self.blocks[model_id] for model_id in exclude if model_id in self.blocks]
        return np.array([len(blocks), *blocks], np.int64).tobytes()

    def _match(self, score: int, model: int, length: int) -> PrefixMatch:
        if score == REPEATED:
            raise InvalidInput("the ids of a graph's vertices are distinct, these are not: pass `graph.ids`")
        if score == BAD_EDGES:
            raise InvalidInput(
                "the edges of a query lead from earlier to later vertices: pass what `pack_edges` returns"
            )
        start = model * UNIT
        record = self._pool[start : start + NAME + (length + 3 >> 2)].tobytes()
        _, _, rank, generation, counter = RECORD.unpack_from(record)
        name = record[RECORD.size : RECORD.size + length].decode("utf-8", "surrogatepass")
        return PrefixMatch(score, rank, Tick(generation, counter), ModelId(name))
