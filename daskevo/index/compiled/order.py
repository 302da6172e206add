"""Which of two models is better when both score the same: rank, then age, then name; larger wins each time."""

from __future__ import annotations

import numpy as np

from daskevo.index.compiled.compilation import helper
from daskevo.index.compiled.layout import MEMBERS, MEMBERS_AT, MEMBERS_ROOM, UNIT
from daskevo.index.compiled.pool import value_at
from daskevo.index.query import Array


@helper
def beats(members: Array, pool: Array, one: int, other: int) -> bool:
    """Return whether a member comes before another."""
    a, b = members[one], members[other]
    if a.rank != b.rank:
        return a.rank > b.rank  # type: ignore[no-any-return]
    if a.generation != b.generation:
        return a.generation > b.generation  # type: ignore[no-any-return]
    if a.counter != b.counter:
        return a.counter > b.counter  # type: ignore[no-any-return]
    for word in range(min(a.words, b.words)):
        mine, theirs = np.uint32(pool[a.text * UNIT + word]), np.uint32(pool[b.text * UNIT + word])
        if mine != theirs:
            return bool(mine > theirs)
    return a.length > b.length  # type: ignore[no-any-return]


@helper
def member_at(pool: Array, graph: int, place: int) -> int:
    """Return a graph's member; the best is at 0."""
    start = graph * UNIT
    return value_at(pool, pool[start + MEMBERS_AT], pool[start + MEMBERS_ROOM], place)


@helper
def place_of(members: Array, pool: Array, graph: int, member: int) -> int:
    """Return how many of a graph's members come before this one."""
    low, high = 0, pool[graph * UNIT + MEMBERS]
    while low < high:
        middle = (low + high) >> 1
        if beats(members, pool, member_at(pool, graph, middle), member):
            low = middle + 1
        else:
            high = middle
    return low


@helper
def among(exclude: Array, member: int) -> bool:
    """Return whether a member is in a sorted array."""
    low, high = 0, len(exclude)
    while low < high:
        middle = (low + high) >> 1
        if exclude[middle] < member:
            low = middle + 1
        else:
            high = middle
    return low < len(exclude) and exclude[low] == member


@helper
def first_allowed(pool: Array, graph: int, exclude: Array) -> int:
    """Return a graph's best member that is not excluded, or -1."""
    if len(exclude) == 0:
        return member_at(pool, graph, 0)
    for place in range(pool[graph * UNIT + MEMBERS]):
        member = member_at(pool, graph, place)
        if not among(exclude, member):
            return member
    return -1
