"""Layout of the two arrays that hold the models of one scope; adding or removing one takes O(number of its vertices).

A scope has two arrays, which Python allocates and lengthens and compiled code fills:

``pool``
    int32 words. A block is named by its first unit of UNIT words, so that an int32 reaches 32 GB. The pool begins with
    its own state: where it ends (END), how many slots are taken (TAKEN), and heads of lists of free blocks (FREE).
``slots``
    A hash table with open addressing, uint64: a tag of 32 bits and a block; 0 is an empty slot.

Blocks are of three kinds:

node
    A vertex id that some model has: the id; the list of the graphs that have it; that of them whose first model is
    best.
graph
    All models with the same vertex ids, so that a node's list names them once: how many nodes it has; its tag; the TOP
    rank of its models, float64, so that most are compared without a look at their records; the list of its models, best
    first; its nodes, ascending; for each of them the graph's place in the node's list.
model
    Its record, as :class:`daskevo.index.query.PackedModel` says.

A list is a header of three words: the block of its values (the value itself, if there is one and no block), COUNT, and
ROOM, the size class of that block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from daskevo.index.compiled.compilation import helper, prefetch
from daskevo.index.query import GRAPH, LENGTH, NAME, RANK, Array

UNIT: Final = 4
LINE: Final = 16
"""Words of a cache line."""
AHEAD: Final = 8
"""Number of graphs in a list that are prefetched ahead of the one that is read."""

END, TAKEN, FREE = 0, 1, 2
STATE_UNITS: Final = 16
LIST, BEST, NODE_ROOM, NODE_UNITS = 4, 7, 2, 2
SIZE, TAG, TOP, MODELS, NODES = 0, 1, 2, 4, 7
COUNT, ROOM = 1, 2

int64 = cast(Callable[[Any], int], np.int64)
"""Compiled code keeps its integers in this type."""

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)


@helper
def words_of(room: int) -> int:
    """Return the words of a size class: 4, 8, 12, 16, 24, 32, 48, ...; 1, in the header, of class 0."""
    if room < 2:
        return UNIT if room == 1 else 1
    return (2 + (room & 1)) * UNIT << ((room - 2) >> 1)


@helper
def room_for(words: int) -> int:
    """Return the smallest size class of at least so many words."""
    room = 1
    while words_of(room) < words:
        room += 1
    return room


@helper
def take(pool: Array, room: int) -> int:
    """Return a block; the caller made sure that the pool's end has room for it."""
    # 0 ends a list of free blocks: the block of that number is the pool's own state, which is never free.
    block = int64(pool[FREE + room])
    if block > 0:
        pool[FREE + room] = pool[block * UNIT]
        return block
    block = int64(pool[END])
    pool[END] += words_of(room) // UNIT
    return block


@helper
def give(pool: Array, room: int, block: int) -> None:
    """Free a block, for others of its size class: blocks are never joined."""
    pool[block * UNIT] = pool[FREE + room]
    pool[FREE + room] = block


@helper
def values_of(pool: Array, head: int) -> int:
    """Return the word at which a list's values begin."""
    return head if pool[head + ROOM] == 0 else pool[head] * UNIT


@helper
def growth(pool: Array, head: int) -> int:
    """Return the words that one more value of a list takes."""
    room = pool[head + ROOM]
    return words_of(room + 1) if pool[head + COUNT] == words_of(room) else 0


@helper
def move(pool: Array, head: int, room: int) -> None:
    """Move a list to a block of another size class, or into its header, class 0."""
    old, block, values = pool[head + ROOM], pool[head], values_of(pool, head)
    to = take(pool, room) * UNIT if room > 0 else head
    for place in range(min(pool[head + COUNT], words_of(room))):
        pool[to + place] = pool[values + place]
    if old > 0:
        give(pool, old, block)
    if room > 0:
        pool[head] = to // UNIT
    pool[head + ROOM] = room


@helper
def push(pool: Array, head: int, value: int) -> None:
    """Add a value at the end of a list."""
    if growth(pool, head) > 0:
        move(pool, head, pool[head + ROOM] + 1)
    pool[values_of(pool, head) + pool[head + COUNT]] = value
    pool[head + COUNT] += 1


@helper
def pop(pool: Array, head: int) -> None:
    """Remove the last value of a list; halve its block once only a quarter is used, so that values move rarely."""
    pool[head + COUNT] -= 1
    count, room = pool[head + COUNT], pool[head + ROOM]
    if count == 1 and room > 0:
        move(pool, head, 0)
    elif room > 1 and 4 * count <= words_of(room):
        less = max(room - 2, 1)
        # A removal must not need memory: where the pool is full, the list stays where it is.
        if pool[FREE + less] > 0 or pool[END] * UNIT + words_of(less) <= len(pool):
            move(pool, head, less)


@helper
def pair(pool: Array, word: int) -> Any:
    """Return two words as one uint64."""
    # Through uint32: a negative int32 would set the upper half, too.
    return np.uint64(np.uint32(pool[word])) | np.uint64(np.uint32(pool[word + 1])) << _HALF


@helper
def tag_of(high: Any, low: Any) -> Any:
    """Return 32 bits of two words, as uint64, even: tags of nodes. Mixes the bits, since ids need not be hashes."""
    mixed = low ^ (high * _FIRST)
    mixed = (mixed ^ (mixed >> _HALF)) * _SECOND
    return (mixed ^ (mixed >> _HALF)) * _FIRST >> _HALF & ~_ONE


@helper
def home_of(slots: Array, tag: Any) -> int:
    """Return the slot at which a tag is looked for first.

    Lemire's reduction: any size does, and homes ascend with tags, so that a table is copied in one pass through memory.
    """
    return int64((tag * np.uint64(len(slots))) >> _HALF)


@helper
def following(slots: Array, slot: int) -> int:
    """Return the next slot."""
    return slot + 1 if slot + 1 < len(slots) else 0


@helper
def enter(slots: Array, pool: Array, entry: Any) -> None:
    """Put an entry, a tag and a block, into the first empty slot for its tag."""
    # There is an empty slot: the table is made larger long before it is full.
    slot = home_of(slots, entry >> _HALF)
    while slots[slot] != _EMPTY:
        slot = following(slots, slot)
    slots[slot] = entry
    pool[TAKEN] += 1


@helper
def erase(slots: Array, pool: Array, tag: Any, block: int) -> None:
    """Take out a block that is there, and move back what follows (Knuth's algorithm R).

    So there are no tombstones: a table is as good after a million removals as after none.
    """
    pool[TAKEN] -= 1
    hole = home_of(slots, tag)
    while slots[hole] != tag << _HALF | np.uint64(block):
        hole = following(slots, hole)
    slot = following(slots, hole)
    while slots[slot] != _EMPTY:
        home = home_of(slots, slots[slot] >> _HALF)
        # It may move back unless its home lies after the hole, up to where it is, around the end of the table.
        between = hole < home <= slot if hole < slot else home > hole or home <= slot
        if not between:
            slots[hole] = slots[slot]
            hole = slot
        slot = following(slots, slot)
    slots[hole] = _EMPTY


def rehash(slots: Array, larger: Array, pool: Array) -> None:
    """Copy a table into an empty one."""
    pool[TAKEN] = 0
    for slot in range(len(slots)):
        if slots[slot] != _EMPTY:
            enter(larger, pool, slots[slot])


@helper
def find_node(slots: Array, pool: Array, tag: Any, high: Any, low: Any) -> int:
    """Return the node of an id, or 0."""
    slot = home_of(slots, tag)
    while slots[slot] != _EMPTY:
        if slots[slot] >> _HALF == tag:
            node = int64(np.uint32(slots[slot]))
            # Tags are no proof.
            if pair(pool, node * UNIT) == high and pair(pool, node * UNIT + 2) == low:
                return node
        slot = following(slots, slot)
    return 0


@helper
def first_model(pool: Array, graph: int) -> int:
    """Return the best model of a graph."""
    return pool[values_of(pool, graph * UNIT + MODELS)]  # type: ignore[no-any-return]


@helper
def beats(pool: Array, one: int, other: int) -> bool:
    """Return whether a model comes before another of the same score: higher rank, then younger, then larger name."""
    a, b = one * UNIT, other * UNIT
    ranks, ticks, text = pool.view(np.float64), pool.view(np.int64), pool.view(np.uint8)
    if ranks[(a + RANK) // 2] != ranks[(b + RANK) // 2]:
        return ranks[(a + RANK) // 2] > ranks[(b + RANK) // 2]  # type: ignore[no-any-return]
    for word in range(RANK // 2 + 1, NAME // 2):
        if ticks[a // 2 + word] != ticks[b // 2 + word]:
            return ticks[a // 2 + word] > ticks[b // 2 + word]  # type: ignore[no-any-return]
    for place in range(4 * NAME, 4 * NAME + min(pool[a + LENGTH], pool[b + LENGTH])):
        if text[4 * a + place] != text[4 * b + place]:
            return text[4 * a + place] > text[4 * b + place]  # type: ignore[no-any-return]
    return pool[a + LENGTH] > pool[b + LENGTH]  # type: ignore[no-any-return]


@helper
def update_top(pool: Array, graph: int) -> None:
    """Note the rank of a graph's best model."""
    ranks = pool.view(np.float64)
    ranks[(graph * UNIT + TOP) // 2] = ranks[(first_model(pool, graph) * UNIT + RANK) // 2]


@helper
def prefetch_graph(pool: Array, graph: int) -> None:
    """Fetch a graph's size and its first nodes."""
    prefetch(pool, graph * UNIT)
    prefetch(pool, graph * UNIT + LINE)


def add(slots: Array, pool: Array, ids: Array, record: Array) -> int:
    """Add a model; return its block.

    `slots` has room for all that it may bring, the pool's end for its nodes. Where the pool lacks room for the rest,
    returns minus the words that are needed, to be called again.
    """
    found = np.empty(len(ids) // 2, np.int64)
    size = 0
    for vertex in range(len(found)):
        node = find_or_make_node(slots, pool, ids[2 * vertex], ids[2 * vertex + 1])
        # Insertion sort, each once: the order that all models with these vertices have. Most come in order already.
        place = size
        while place > 0 and found[place - 1] > node:
            place -= 1
        if place > 0 and found[place - 1] == node:
            continue
        for later in range(size, place, -1):
            found[later] = found[later - 1]
        found[place] = node
        size += 1
    found = found[:size]
    tag = np.uint64(size)
    for place in range(size):
        tag = tag_of(tag, np.uint64(found[place]))
    tag |= _ONE  # odd, since those of nodes are even
    graph = find_graph(slots, pool, tag, found)
    words = words_of(room_for(len(record)))
    if graph > 0:
        words += growth(pool, graph * UNIT + MODELS)
    else:
        words += words_of(room_for(NODES + 2 * size))
        for place in range(size):
            words += growth(pool, found[place] * UNIT + LIST)
    # Nothing has changed but new nodes without graphs, which the next call finds.
    if pool[END] * UNIT + words > len(pool):
        return -words

    if graph == 0:
        graph = make_graph(slots, pool, tag, found)
    model = take(pool, room_for(len(record)))
    for word in range(len(record)):
        pool[model * UNIT + word] = record[word]
    pool[model * UNIT + GRAPH] = graph
    head = graph * UNIT + MODELS
    rank = place_of(pool, head, model)
    push(pool, head, model)
    values = values_of(pool, head)
    for later in range(pool[head + COUNT] - 1, rank, -1):
        pool[values + later] = pool[values + later - 1]
    pool[values + rank] = model
    update_top(pool, graph)
    for place in range(size if rank == 0 else 0):
        best = found[place] * UNIT + BEST
        # The graph may be this node's best already; no other is better than what it had before.
        if pool[best] != graph and (pool[best] == 0 or beats(pool, model, first_model(pool, pool[best]))):
            pool[best] = graph
    return model


@helper
def find_or_make_node(slots: Array, pool: Array, high: Any, low: Any) -> int:
    """Return the node of an id; a new one has no graphs."""
    tag = tag_of(high, low)
    node = find_node(slots, pool, tag, high, low)
    if node == 0:
        node = take(pool, NODE_ROOM)
        start = node * UNIT
        pool[start], pool[start + 1] = np.int32(high), np.int32(high >> _HALF)
        pool[start + 2], pool[start + 3] = np.int32(low), np.int32(low >> _HALF)
        pool[start + LIST : start + BEST + 1] = 0
        enter(slots, pool, tag << _HALF | np.uint64(node))
    return node


@helper
def find_graph(slots: Array, pool: Array, tag: Any, found: Array) -> int:
    """Return the graph of exactly these nodes, given in order, or 0."""
    slot = home_of(slots, tag)
    while slots[slot] != _EMPTY:
        if slots[slot] >> _HALF == tag:
            graph = int64(np.uint32(slots[slot]))
            place = 0
            if pool[graph * UNIT + SIZE] == len(found):
                while place < len(found) and pool[graph * UNIT + NODES + place] == found[place]:
                    place += 1
                if place == len(found):
                    return graph
        slot = following(slots, slot)
    return 0


@helper
def make_graph(slots: Array, pool: Array, tag: Any, found: Array) -> int:
    """Make a graph of nodes in order, without models, and put it into the nodes' lists."""
    size = len(found)
    graph = take(pool, room_for(NODES + 2 * size))
    start = graph * UNIT
    pool[start + SIZE], pool[start + TAG] = size, np.int32(tag)
    pool[start + MODELS : start + NODES] = 0
    for place in range(size):
        head = found[place] * UNIT + LIST
        pool[start + NODES + place] = found[place]
        pool[start + NODES + size + place] = pool[head + COUNT]
        push(pool, head, graph)
    enter(slots, pool, tag << _HALF | np.uint64(graph))
    return graph


@helper
def place_of(pool: Array, head: int, model: int) -> int:
    """Return how many of a graph's models come before this one."""
    values = values_of(pool, head)
    low, high = 0, pool[head + COUNT]
    while low < high:
        middle = (low + high) >> 1
        if beats(pool, pool[values + middle], model):
            low = middle + 1
        else:
            high = middle
    return low


def remove(slots: Array, pool: Array, model: int) -> None:
    """Take a model out, and its graph with its last model."""
    graph = int64(pool[model * UNIT + GRAPH])
    head = graph * UNIT + MODELS
    rank = place_of(pool, head, model)
    values = values_of(pool, head)
    for place in range(rank, pool[head + COUNT] - 1):
        pool[values + place] = pool[values + place + 1]
    pop(pool, head)
    give(pool, room_for(NAME + (pool[model * UNIT + LENGTH] + 3 >> 2)), model)
    is_empty = pool[head + COUNT] == 0
    size = int64(pool[graph * UNIT + SIZE])
    if is_empty:
        prefetch_lists(pool, graph * UNIT + NODES, size)
    else:
        update_top(pool, graph)
    for place in range(size if rank == 0 else 0):
        node = pool[graph * UNIT + NODES + place] * UNIT
        if is_empty:
            leave(slots, pool, graph, place)
        if pool[node + BEST] == graph:
            choose_best(pool, node)
    if is_empty:
        erase(slots, pool, np.uint64(np.uint32(pool[graph * UNIT + TAG])), graph)
        give(pool, room_for(NODES + 2 * size), graph)


@helper
def leave(slots: Array, pool: Array, graph: int, index: int) -> None:
    """Remove a graph from the list of one of its nodes, and the node, too, if no other graph has it."""
    word = graph * UNIT + NODES + index
    node = int64(pool[word])
    head = node * UNIT + LIST
    values, last = values_of(pool, head), pool[head + COUNT] - 1
    if last == 0:
        erase(slots, pool, tag_of(pair(pool, node * UNIT), pair(pool, node * UNIT + 2)), node)
        pool[node * UNIT + BEST] = 0
        give(pool, NODE_ROOM, node)
        return
    place, other = pool[word + pool[graph * UNIT + SIZE]], int64(pool[values + last])
    if place != last:
        pool[values + place] = other
        low, high = other * UNIT + NODES, other * UNIT + NODES + pool[other * UNIT + SIZE] - 1
        while low < high:
            middle = (low + high) >> 1
            if pool[middle] < node:
                low = middle + 1
            else:
                high = middle
        pool[low + pool[other * UNIT + SIZE]] = place
    pop(pool, head)


@helper
def prefetch_lists(pool: Array, start: int, size: int) -> None:
    """Fetch what a removal reads at random: each node, the end of its list, the graph that stands there."""
    for index in range(size):
        prefetch(pool, pool[start + index] * UNIT)
    for index in range(size):
        head = pool[start + index] * UNIT + LIST
        prefetch(pool, values_of(pool, head) + pool[head + COUNT] - 1)
        prefetch(pool, values_of(pool, head) + pool[start + size + index])
    for index in range(size):
        head = pool[start + index] * UNIT + LIST
        last = pool[values_of(pool, head) + pool[head + COUNT] - 1]
        for line in range(0, NODES + 2 * size, LINE):
            prefetch(pool, last * UNIT + line)


@helper
def choose_best(pool: Array, node: int) -> None:
    """Find a node's best graph in its list, after the former best got worse or was removed.

    This reads the whole list. But of n graphs, a random removal takes the best with a probability of 1/n only, and a
    search, which keeps its best models, removes it less often.
    """
    values, count = values_of(pool, node + LIST), pool[node + LIST + COUNT]
    best = pool[values]
    ranks = pool.view(np.float64)  # not in the loop: making a view takes as long as looking at a graph
    for place in range(1, count):
        if place + AHEAD < count:
            prefetch(pool, pool[values + place + AHEAD] * UNIT)
        graph = pool[values + place]
        rank, highest = ranks[(graph * UNIT + TOP) // 2], ranks[(best * UNIT + TOP) // 2]
        if rank > highest or (rank == highest and beats(pool, first_model(pool, graph), first_model(pool, best))):
            best = graph
    pool[node + BEST] = best
