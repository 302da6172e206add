"""Add a model to the arrays of a scope, and take one out: O(number of its vertices), postings swap with their last."""

from __future__ import annotations

import numpy as np

from daskevo.index.compiled.compilation import helper
from daskevo.index.compiled.layout import (
    AHEAD,
    GRAPHS,
    HEADER,
    LACKING,
    LINE,
    MEMBER_END,
    MEMBER_FREE,
    MEMBERS,
    MEMBERS_AT,
    MEMBERS_ROOM,
    MODELS,
    NODE_END,
    NODE_FREE,
    NODES,
    POOL_END,
    SIZE,
    TAG,
    UNIT,
)
from daskevo.index.compiled.order import beats, member_at, place_of
from daskevo.index.compiled.pool import give, growth, narrowed, room_for, take, units_of, value_at, widened
from daskevo.index.compiled.prefetch import prefetch
from daskevo.index.compiled.table import erase, find_node, following, home_of, number_in, put, tag_of
from daskevo.index.query import Array

_HALF = np.uint64(32)


@helper
def add(
    table: Array,
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
    """Add a model; return its row in `members`.

    `table`, `nodes`, `graphs` and `members` have room for all that it may bring. If `pool` hasn't, nothing is changed,
    -1 is returned, and ``meta[LACKING]`` says how many units it needs.
    """
    found = np.empty(len(ids) // 2, np.int64)
    units = 0
    absent = False
    for vertex in range(len(found)):
        node = find_node(table, nodes, ids[2 * vertex], ids[2 * vertex + 1])
        found[vertex] = node
        if node < 0:
            absent = True
        else:
            units += growth(nodes[node].count, nodes[node].room)
    graph = -1
    if not absent:
        found = distinct(found)
        graph = find_graph(graphs, pool, found)
    if graph < 0:
        units += units_of(room_for(HEADER + 2 * len(found)))
    else:
        units = growth(pool[graph * UNIT + MEMBERS], pool[graph * UNIT + MEMBERS_ROOM])
    units += units_of(room_for(len(text)))
    if (meta[POOL_END] + units) * UNIT > len(pool):
        meta[LACKING] = units
        return -1

    member = new_member(members, meta)
    row = members[member]
    row.rank, row.generation, row.counter = rank, generation, counter
    row.text = take(pool, meta, room_for(len(text)))
    row.length, row.words = length, len(text)
    for word in range(len(text)):
        pool[row.text * UNIT + word] = text[word]
    if graph >= 0:
        row.graph = graph
        join(nodes, members, pool, meta, graph, member)
        return member
    if absent:
        for vertex in range(len(found)):
            if found[vertex] < 0:
                found[vertex] = find_or_make_node(table, nodes, meta, ids[2 * vertex], ids[2 * vertex + 1])
        found = distinct(found)
    row.graph = new_graph(nodes, graphs, members, pool, meta, found, member)
    return member


@helper
def distinct(numbers: Array) -> Array:
    """Return the numbers in order, each once: what is equal in all models with the same vertices."""
    # Shell's sort: few lines, so few seconds to compile, and most vertices come in order already.
    gap = 1
    while gap < len(numbers) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, len(numbers)):
            number, place = numbers[start], start
            while place >= gap and numbers[place - gap] > number:
                numbers[place] = numbers[place - gap]
                place -= gap
            numbers[place] = number
        gap //= 3
    count = 0
    for place in range(len(numbers)):
        if count == 0 or numbers[count - 1] != numbers[place]:
            numbers[count] = numbers[place]
            count += 1
    return numbers[:count]


@helper
def new_member(members: Array, meta: Array) -> int:
    """Return an unused row of `members`."""
    meta[MODELS] += 1
    if meta[MEMBER_FREE] > 0:
        member = meta[MEMBER_FREE] - 1
        meta[MEMBER_FREE] = members[member].counter
        return member  # type: ignore[no-any-return]
    meta[MEMBER_END] += 1
    return meta[MEMBER_END] - 1  # type: ignore[no-any-return]


@helper
def find_or_make_node(table: Array, nodes: Array, meta: Array, high: int, low: int) -> int:
    """Return the node of an id: it may have been made a moment ago, where a model names an id twice."""
    node = find_node(table, nodes, high, low)
    if node >= 0:
        return node
    if meta[NODE_FREE] > 0:
        node = meta[NODE_FREE] - 1
        meta[NODE_FREE] = nodes[node].at
    else:
        node = meta[NODE_END]
        meta[NODE_END] += 1
    meta[NODES] += 1
    row = nodes[node]
    row.high, row.low = high, low
    row.count, row.room, row.best = 0, -1, -1
    put(table, tag_of(high, low), node)
    return node  # type: ignore[no-any-return]


@helper
def graph_tag(found: Array) -> int:
    """Return the tag of a set of nodes, given in order."""
    tag = np.uint64(len(found))
    for place in range(len(found)):
        tag = tag_of(tag, np.uint64(found[place]))
    return tag  # type: ignore[return-value]


@helper
def find_graph(graphs: Array, pool: Array, found: Array) -> int:
    """Return the graph with exactly these nodes, given in order, or -1."""
    tag = graph_tag(found)
    slot = home_of(graphs, tag)
    while graphs[slot] != np.uint64(0):
        entry = graphs[slot]
        if entry >> _HALF == tag:
            graph = number_in(entry)
            start = graph * UNIT
            same = pool[start + SIZE] == len(found)
            place = 0
            while same and place < len(found):
                same = pool[start + HEADER + place] == found[place]
                place += 1
            if same:
                return graph
        slot = following(graphs, slot)
    return -1


@helper
def new_graph(nodes: Array, graphs: Array, members: Array, pool: Array, meta: Array, found: Array, member: int) -> int:
    """Make a graph of nodes in order, its first member, and its places in their posting lists."""
    size = len(found)
    graph = take(pool, meta, room_for(HEADER + 2 * size))
    tag = graph_tag(found)
    put(graphs, tag, graph)
    meta[GRAPHS] += 1
    start = graph * UNIT
    pool[start + SIZE] = size
    pool[start + TAG] = np.int32(tag)
    pool[start + MEMBERS_AT], pool[start + MEMBERS], pool[start + MEMBERS_ROOM] = member, 1, -1
    for place in range(size):
        row = nodes[found[place]]
        count = row.count
        if count == 0:
            row.at, row.best = graph, graph
        else:
            at, room = widened(pool, meta, row.at, count, row.room)
            row.at, row.room = at, room
            pool[at * UNIT + count] = graph
            if beats(members, pool, member, member_at(pool, row.best, 0)):
                row.best = graph
        row.count = count + 1
        pool[start + HEADER + place] = found[place]
        pool[start + HEADER + size + place] = count
    return graph


@helper
def join(nodes: Array, members: Array, pool: Array, meta: Array, graph: int, member: int) -> None:
    """Add a member to a graph, in order."""
    start = graph * UNIT
    place = place_of(members, pool, graph, member)
    count = pool[start + MEMBERS]
    at, room = widened(pool, meta, pool[start + MEMBERS_AT], count, pool[start + MEMBERS_ROOM])
    for later in range(count, place, -1):
        pool[at * UNIT + later] = pool[at * UNIT + later - 1]
    pool[at * UNIT + place] = member
    pool[start + MEMBERS_AT], pool[start + MEMBERS], pool[start + MEMBERS_ROOM] = at, count + 1, room
    if place == 0:
        for index in range(pool[start + SIZE]):
            row = nodes[pool[start + HEADER + index]]
            # The graph may be this node's best already; no other is better than what it had before.
            if row.best != graph and beats(members, pool, member, member_at(pool, row.best, 0)):
                row.best = graph


@helper
def remove(table: Array, nodes: Array, graphs: Array, members: Array, pool: Array, meta: Array, member: int) -> None:
    """Take a model out, and its graph with its last member."""
    row = members[member]
    graph = row.graph
    if pool[graph * UNIT + MEMBERS] > 1:
        leave(nodes, members, pool, meta, graph, member)
    else:
        remove_graph(table, nodes, graphs, members, pool, meta, graph)
    give(pool, meta, room_for(row.words), row.text)
    row.counter = meta[MEMBER_FREE]
    meta[MEMBER_FREE] = member + 1
    meta[MODELS] -= 1


@helper
def leave(nodes: Array, members: Array, pool: Array, meta: Array, graph: int, member: int) -> None:
    """Take a member out of a graph that has others."""
    start = graph * UNIT
    place = place_of(members, pool, graph, member)
    at, count = pool[start + MEMBERS_AT], pool[start + MEMBERS] - 1
    for later in range(place, count):
        pool[at * UNIT + later] = pool[at * UNIT + later + 1]
    at, room = narrowed(pool, meta, at, count, pool[start + MEMBERS_ROOM])
    pool[start + MEMBERS_AT], pool[start + MEMBERS], pool[start + MEMBERS_ROOM] = at, count, room
    if place == 0:
        for index in range(pool[start + SIZE]):
            node = pool[start + HEADER + index]
            if nodes[node].best == graph:
                choose_best(nodes, members, pool, node)


@helper
def remove_graph(
    table: Array, nodes: Array, graphs: Array, members: Array, pool: Array, meta: Array, graph: int
) -> None:
    """Take a graph out of all posting lists."""
    start = graph * UNIT
    size = pool[start + SIZE]
    prefetch_changes(nodes, pool, graph)
    for index in range(size):
        node = pool[start + HEADER + index]
        row = nodes[node]
        count = row.count - 1
        row.count = count
        if count == 0:
            erase(table, tag_of(row.high, row.low), node)
            row.at = meta[NODE_FREE]
            meta[NODE_FREE] = node + 1
            meta[NODES] -= 1
            continue
        place = pool[start + HEADER + size + index]
        if place != count:
            last = pool[row.at * UNIT + count]
            pool[row.at * UNIT + place] = last
            pool[place_in(pool, last, node)] = place
        at, room = narrowed(pool, meta, row.at, count, row.room)
        row.at, row.room = at, room
        if row.best == graph:
            choose_best(nodes, members, pool, node)
    erase(graphs, np.uint64(np.uint32(pool[start + TAG])), graph)
    give(pool, meta, room_for(HEADER + 2 * size), graph)
    meta[GRAPHS] -= 1


@helper
def prefetch_changes(nodes: Array, pool: Array, graph: int) -> None:
    """Fetch what a removal reads at random: each node, the end of its posting list, the graph that stands there."""
    start = graph * UNIT + HEADER
    size = pool[graph * UNIT + SIZE]
    for index in range(size):
        prefetch(nodes, pool[start + index])
    for index in range(size):
        row = nodes[pool[start + index]]
        if row.room >= 0:
            prefetch(pool, row.at * UNIT + row.count - 1)
            prefetch(pool, row.at * UNIT + pool[start + size + index])
    for index in range(size):
        row = nodes[pool[start + index]]
        last = value_at(pool, row.at, row.room, row.count - 1)
        for line in range(0, HEADER + 2 * size, LINE):
            prefetch(pool, last * UNIT + line)


@helper
def place_in(pool: Array, graph: int, node: int) -> int:
    """Return the word that holds a graph's position in a node's posting list."""
    size = pool[graph * UNIT + SIZE]
    start = graph * UNIT + HEADER
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        if pool[start + middle] < node:
            low = middle + 1
        else:
            high = middle
    return start + size + low  # type: ignore[no-any-return]


@helper
def choose_best(nodes: Array, members: Array, pool: Array, node: int) -> None:
    """Look for a node's best holder among all, after the one it had got worse or went.

    As long as the list, but a list of n holders loses its best in one of n removals if who goes is drawn by chance, and
    less often in a search, which keeps the best.
    """
    row = nodes[node]
    best = value_at(pool, row.at, row.room, 0)
    first = member_at(pool, best, 0)
    for place in range(1, row.count):
        graph = value_at(pool, row.at, row.room, place)
        if place + AHEAD < row.count:
            prefetch(pool, value_at(pool, row.at, row.room, place + AHEAD) * UNIT)
        member = member_at(pool, graph, 0)
        if beats(members, pool, member, first):
            best, first = graph, member
    row.best = best
