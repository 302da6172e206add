"""The functions that Python calls. Importing this module compiles them, or takes them from the cache."""

from __future__ import annotations

from pathlib import Path

import numba
from numba import types

from daskevo.index.compiled import search, table, updates
from daskevo.index.compiled.compilation import cache_folder, entry
from daskevo.index.compiled.layout import FOUND, MEMBER, NODE
from daskevo.index.query import Array

_SLOTS = types.uint64[::1]
_NODES = numba.from_dtype(NODE)[::1]
_MEMBERS = numba.from_dtype(MEMBER)[::1]
_POOL = types.int32[::1]
_META = types.int64[::1]


def _given(kind: types.Number) -> types.Array:
    """What comes with a call, mostly a view of bytes."""
    return types.Array(kind, 1, "C", readonly=True)


_IDS, _WEIGHTS, _EDGES, _TEXT = map(_given, (types.uint64, types.int64, types.int32, types.int32))
_ANSWER = types.Tuple((types.int64, types.int64, types.int64, types.float64, types.int64, types.int64))

with cache_folder(list(Path(__file__).parent.glob("*.py"))) as _keep:

    @entry(
        types.int64(
            *(_SLOTS, _NODES, _SLOTS, _MEMBERS, _POOL, _META),
            *(_IDS, _TEXT, types.int64, types.float64, types.int64, types.int64),
        ),
        keep=_keep,
    )
    def add(
        slots: Array,
        nodes: Array,
        graphs: Array,
        members: Array,
        pool: Array,
        meta: Array,
        ids: Array,
        text: Array,
        length: int,
        rank: float,
        generation: int,
        counter: int,
    ) -> int:
        """As :func:`changing.add`."""
        return updates.add(slots, nodes, graphs, members, pool, meta, ids, text, length, rank, generation, counter)

    @entry(types.void(_SLOTS, _NODES, _SLOTS, _MEMBERS, _POOL, _META, types.int64), keep=_keep)
    def remove(
        slots: Array, nodes: Array, graphs: Array, members: Array, pool: Array, meta: Array, member: int
    ) -> None:
        """As :func:`changing.remove`."""
        updates.remove(slots, nodes, graphs, members, pool, meta, member)

    @entry(types.void(_SLOTS, _SLOTS), keep=_keep)
    def copy_into(slots: Array, larger: Array) -> None:
        """As :func:`table.copy_into`."""
        table.copy_into(slots, larger)

    @entry(
        _ANSWER(_SLOTS, _NODES, _MEMBERS, _POOL, _IDS, _WEIGHTS, _WEIGHTS, _EDGES, types.boolean),
        keep=_keep,
    )
    def best(
        slots: Array,
        nodes: Array,
        members: Array,
        pool: Array,
        ids: Array,
        weights: Array,
        exclude: Array,
        edges: Array,
        closed: bool,
    ) -> tuple[int, int, int, float, int, int]:
        """As :func:`searching.ask`, with the rank and the tick of what was found."""
        state, score, member = search.ask(slots, nodes, members, pool, ids, weights, exclude, edges, closed)
        row = members[max(member, 0)]
        return state, score, member, row.rank, row.generation, row.counter

    @entry(
        types.void(
            *(_SLOTS, _NODES, _MEMBERS, _POOL, _IDS, _WEIGHTS, _WEIGHTS, _EDGES),
            *(types.Array(types.int64, 2, "C", readonly=True), types.int64[:, ::1], types.float64[::1]),
        ),
        keep=_keep,
    )
    def best_many(
        slots: Array,
        nodes: Array,
        members: Array,
        pool: Array,
        ids: Array,
        weights: Array,
        exclude: Array,
        edges: Array,
        ends: Array,
        found: Array,
        ranks: Array,
    ) -> None:
        """Answer several queries.

        Parameters
        ----------
        ids, weights, exclude, edges:
            Those of all queries, one after the other.
        ends:
            Where those of each query end, and whether its edges are known. # (n + 1, 5), the first row 0
        found:
            Filled with (what came of it, score, member, generation, counter). # (n, 5)
        ranks:
            Filled with the ranks. # (n,)
        """
        for query in range(len(found)):
            start, end = ends[query], ends[query + 1]
            state, score, member = search.ask(
                slots,
                nodes,
                members,
                pool,
                ids[start[0] : end[0]],
                weights[start[1] : end[1]],
                exclude[start[2] : end[2]],
                edges[start[3] : end[3]],
                end[4] != 0,
            )
            found[query, 0], found[query, 1], found[query, 2] = state, score, member
            if state == FOUND:
                row = members[member]
                found[query, 3], found[query, 4] = row.generation, row.counter
                ranks[query] = row.rank
