"""Hash tables with open addressing: slots of a 32-bit tag and a number plus 1, 0 for an empty one.

A slot's home is ``tag * size >> 32`` (Lemire's reduction), so any size does, and since homes ascend with tags, a table
is copied into a larger one in one pass through memory. A removal moves back what follows (Knuth's algorithm R): there
are no tombstones, so a table is as good after a million removals as after none. Tags are no proof: the caller compares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskevo.index.compiled.compilation import helper
from daskevo.index.query import Array

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_NUMBER = np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)


@helper
def tag_of(high: Any, low: Any) -> Any:
    """Return 32 bits of two words, as uint64; mixes the bits, since ids need not be hashes."""
    mixed = low ^ (high * _FIRST)
    mixed = (mixed ^ (mixed >> _HALF)) * _SECOND
    return (mixed ^ (mixed >> _HALF)) * _FIRST >> _HALF


@helper
def home_of(table: Array, tag: Any) -> int:
    """Return the slot at which a tag is looked for first."""
    return np.int64((tag * np.uint64(len(table))) >> _HALF)  # type: ignore[return-value]


@helper
def following(table: Array, slot: int) -> int:
    """Return the next slot."""
    return slot + 1 if slot + 1 < len(table) else 0


@helper
def put(table: Array, tag: Any, number: int) -> None:
    """Add a number that isn't there; the table has an empty slot."""
    slot = home_of(table, tag)
    while table[slot] != _EMPTY:
        slot = following(table, slot)
    table[slot] = (tag << _HALF) | (np.uint64(number) + _ONE)


@helper
def number_in(entry: Any) -> int:
    """Return the number of a slot that isn't empty."""
    return np.int64(entry & _NUMBER) - 1  # type: ignore[return-value]


@helper
def erase(table: Array, tag: Any, number: int) -> None:
    """Take out a number that is there."""
    wanted = (tag << _HALF) | (np.uint64(number) + _ONE)
    hole = home_of(table, tag)
    while table[hole] != wanted:
        hole = following(table, hole)
    slot = hole
    while True:
        slot = following(table, slot)
        entry = table[slot]
        if entry == _EMPTY:
            break
        home = home_of(table, entry >> _HALF)
        # It may move back unless its home lies after the hole, up to where it is, around the end of the table.
        between = hole < home <= slot if hole < slot else home > hole or home <= slot
        if not between:
            table[hole] = entry
            hole = slot
    table[hole] = _EMPTY


@helper
def find_node(table: Array, nodes: Array, high: Any, low: Any) -> int:
    """Return the node of an id, or -1."""
    tag = tag_of(high, low)
    slot = home_of(table, tag)
    while True:
        entry = table[slot]
        if entry == _EMPTY:
            return -1
        if entry >> _HALF == tag:
            node = number_in(entry)
            if nodes[node].low == low and nodes[node].high == high:
                return node
        slot = following(table, slot)


@helper
def copy_into(table: Array, larger: Array) -> None:
    """Put all of a table into an empty one."""
    for place in range(len(table)):
        entry = table[place]
        if entry != _EMPTY:
            slot = home_of(larger, entry >> _HALF)
            while larger[slot] != _EMPTY:
                slot = following(larger, slot)
            larger[slot] = entry
