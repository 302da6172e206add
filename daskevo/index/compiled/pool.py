"""Blocks of words in one array, by size class, and lists in them.

Size classes are 1, 2, 3, 4, 6, 8, 12, ... units: a block is at most a third larger than it has to be. Blocks that were
given back are used again for the same class; they are never joined.
"""

from __future__ import annotations

from daskevo.index.compiled.compilation import helper
from daskevo.index.compiled.layout import BLOCKS_FREE, POOL_END, UNIT
from daskevo.index.query import Array


@helper
def units_of(room: int) -> int:
    """Return the units of a block of this size class."""
    return 1 if room == 0 else (2 + ((room - 1) & 1)) << ((room - 1) >> 1)


@helper
def room_for(words: int) -> int:
    """Return the smallest size class of at least so many words."""
    room = 0
    while units_of(room) * UNIT < words:
        room += 1
    return room


@helper
def take(pool: Array, meta: Array, room: int) -> int:
    """Return the first unit of a block; the caller made sure that the pool's end has room for it."""
    head = meta[BLOCKS_FREE + room]
    if head > 0:
        unit = head - 1
        meta[BLOCKS_FREE + room] = pool[unit * UNIT]
        return unit  # type: ignore[no-any-return]
    unit = meta[POOL_END]
    meta[POOL_END] += units_of(room)
    return unit  # type: ignore[no-any-return]


@helper
def give(pool: Array, meta: Array, room: int, unit: int) -> None:
    """Give a block back."""
    pool[unit * UNIT] = meta[BLOCKS_FREE + room]
    meta[BLOCKS_FREE + room] = unit + 1


@helper
def value_at(pool: Array, at: int, room: int, place: int) -> int:
    """Return a list's value."""
    return at if room < 0 else pool[at * UNIT + place]


@helper
def growth(count: int, room: int) -> int:
    """Return the units that one more value may take."""
    if room < 0:
        return 0 if count == 0 else 1
    return units_of(room + 1) if count == units_of(room) * UNIT else 0


@helper
def moved(pool: Array, meta: Array, at: int, count: int, room: int, new: int) -> int:
    """Move a list's values into a block of another class, -1 for none; return where it begins now."""
    if new < 0:
        value = pool[at * UNIT]
        give(pool, meta, room, at)
        return value  # type: ignore[no-any-return]
    unit = take(pool, meta, new)
    if room < 0:
        pool[unit * UNIT] = at
        return unit
    for place in range(count):
        pool[unit * UNIT + place] = pool[at * UNIT + place]
    give(pool, meta, room, at)
    return unit


@helper
def widened(pool: Array, meta: Array, at: int, count: int, room: int) -> tuple[int, int]:
    """Make room for one more value in a list of at least one; return its (at, room)."""
    if growth(count, room) == 0:
        return at, room
    return moved(pool, meta, at, count, room, room + 1), room + 1


@helper
def narrowed(pool: Array, meta: Array, at: int, count: int, room: int) -> tuple[int, int]:
    """Give back most of a block that a list of at least one value has shrunk in; return its (at, room).

    Only at a quarter, to half of what it was: so values are moved rarely, whatever comes and goes.
    """
    if room < 0:
        return at, room
    if count == 1:
        return moved(pool, meta, at, count, room, -1), -1
    if count * 4 > units_of(room) * UNIT:
        return at, room
    new = room_for(count * 2)
    at_end = meta[BLOCKS_FREE + new] == 0
    # A removal must not need memory: without room for the smaller block, the larger one is kept.
    if new >= room or (at_end and (meta[POOL_END] + units_of(new)) * UNIT > len(pool)):
        return at, room
    return moved(pool, meta, at, count, room, new), new
