"""The best match of one query, exact, looking at as few models as can be.

Source: the LCP query of paper 000, section 4.2, answered by an inverted index instead of its scan over all models.

Let S be the vertices of the query that the index knows and W a sum of weights. Every model's match is a subset of S
that holds the cone of each of its vertices, and the best of all holders of a vertex is known. So

1. if one cone is all of S, the best holder of that vertex is the answer: nobody scores more than W(S), and whoever
   scores it holds the vertex;
2. the best holders of all vertices, scored, give a lower bound b; and any model whose match is a single cone is settled
   by them: the best holder of its lowest vertex scores at least as much and is not worse;
3. a model can be better only if its match is not inside any set with W < b, nor W = b if the set is a single settled
   cone. Such a set that holds the vertices with the longest posting lists is left out (`rest`): then every better
   model holds one of the uppermost vertices outside, the *entrances*, and only their posting lists are read;
4. or: if all that remains without v and what is below it is such a set, every better model holds v, and its posting
   list alone is read. Whichever is shorter;
5. b rises while lists are read, and reading ends once what the unread lists could bring weighs less than b.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskevo.index.compiled.compilation import helper
from daskevo.index.compiled.cones import ancestors_of, check_edges, drop_below_absent, holds, sums
from daskevo.index.compiled.layout import (
    AHEAD,
    BAD_EDGES,
    FOUND,
    MOST_CLOSED,
    NOTHING,
    REPEATED,
)
from daskevo.index.compiled.order import among, member_at
from daskevo.index.compiled.pool import value_at
from daskevo.index.compiled.prefetch import prefetch
from daskevo.index.compiled.scores import better, power_of_two, prefetch_graph, score_of, weights_by_node
from daskevo.index.compiled.table import find_node, home_of, tag_of
from daskevo.index.query import Array


@helper
def ask(
    table: Array,
    nodes: Array,
    members: Array,
    pool: Array,
    ids: Array,
    given: Array,
    exclude: Array,
    edges: Array,
    closed: bool,
) -> tuple[int, int, int]:
    """Return (what came of it, score, member) of the best match.

    Parameters
    ----------
    given:
        Weights of the vertices; empty if each counts 1.
    exclude:
        Members that must not be the answer, sorted.
    closed:
        Whether the edges are known.
    """
    if repeats(ids):
        return REPEATED, 0, -1
    total = len(ids) // 2
    if not check_edges(edges, total):
        return BAD_EDGES, 0, -1
    found = np.empty(total, np.int64)
    for vertex in range(total):
        prefetch(table, home_of(table, tag_of(ids[2 * vertex], ids[2 * vertex + 1])))
    for vertex in range(total):
        found[vertex] = find_node(table, nodes, ids[2 * vertex], ids[2 * vertex + 1])
    drop_below_absent(found, edges)

    number, at, weights = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    count = 0
    for vertex in range(total):
        number[vertex] = -1
        if found[vertex] >= 0:
            number[vertex] = count
            at[count] = found[vertex]
            weights[count] = given[vertex] if len(given) > 0 else 1
            count += 1
    if count == 0:
        return NOTHING, 0, -1
    at, weights = at[:count], weights[:count]
    cones = np.empty((0, 0), np.uint64)
    if closed and count <= MOST_CLOSED:
        cones = ancestors_of(number, count, edges)
    score, member = best_of(nodes, members, pool, at, weights, cones, exclude)
    return (FOUND if member >= 0 else NOTHING), score, member


@helper
def repeats(ids: Array) -> bool:
    """Whether an id occurs twice."""
    count = len(ids) // 2
    places = np.zeros(power_of_two(2 * count), np.int32)  # vertex + 1, or 0
    mask = len(places) - 1
    for vertex in range(count):
        place = int(np.int64(tag_of(ids[2 * vertex], ids[2 * vertex + 1]))) & mask
        while places[place] > 0:
            other = places[place] - 1
            if ids[2 * other] == ids[2 * vertex] and ids[2 * other + 1] == ids[2 * vertex + 1]:
                return True
            place = (place + 1) & mask
        places[place] = vertex + 1
    return False


@helper
def best_of(
    nodes: Array, members: Array, pool: Array, at: Array, weights: Array, cones: Array, exclude: Array
) -> tuple[int, int]:
    """Return (score, member) of the best match, or member -1, for vertices that are all in the index."""
    count = len(at)
    whole = 0
    settled = np.empty(count, np.bool_)
    for vertex in range(count):
        whole += weights[vertex]
        best = nodes[at[vertex]].best
        prefetch_graph(pool, best)
        settled[vertex] = len(exclude) == 0 or not among(exclude, member_at(pool, best, 0))
    above, below = sums(cones, weights)
    # Rule 1. Only the last vertex' cone can be all.
    if above[count - 1] == whole and settled[count - 1]:
        return whole, member_at(pool, nodes[at[count - 1]].best, 0)

    keys, values, apart = weights_by_node(at, weights)
    bound, winner = 0, -1
    # Rule 2. Neighbours often have the same best holder.
    seen = np.zeros(len(keys), np.int32)  # graph + 1, or 0
    for vertex in range(count - 1, -1, -1):
        graph = nodes[at[vertex]].best
        place = graph & (len(seen) - 1)
        while seen[place] > 0 and seen[place] != graph + 1:
            place = (place + 1) & (len(seen) - 1)
        if seen[place] == 0:
            seen[place] = graph + 1
            score = score_of(pool, graph, keys, values, apart)
            bound, winner = better(members, pool, graph, score, exclude, bound, winner)

    order = by_length(nodes, at)
    kept = rest(order, weights, above, settled, bound)
    entrances = uppermost(order, kept, cones)
    length = 0
    for place in range(len(entrances)):
        length += nodes[at[entrances[place]]].count
    # Rule 4.
    for place in range(count - 1, -1, -1):
        vertex = order[place]
        if nodes[at[vertex]].count >= length:
            break
        if is_necessary(vertex, cones, whole - below[vertex], above, settled, bound):
            entrances = order[place : place + 1]
            break

    read = np.zeros(count, np.bool_)
    left = whole
    for entrance in range(len(entrances) - 1, -1, -1):
        vertex = entrances[entrance]
        row = nodes[at[vertex]]
        for place in range(row.count):
            if place + AHEAD < row.count:
                prefetch_graph(pool, value_at(pool, row.at, row.room, place + AHEAD))
            graph = value_at(pool, row.at, row.room, place)
            score = score_of(pool, graph, keys, values, apart)
            bound, winner = better(members, pool, graph, score, exclude, bound, winner)
        # Rule 5.
        for lower in range(count):
            if not read[lower] and holds(cones, lower, vertex):
                read[lower] = True
                left -= weights[lower]
        if left < bound:
            break
    return bound, winner


@helper
def by_length(nodes: Array, at: Array) -> Array:
    """Return the vertices by falling length of their posting lists, upper ones first among equals.

    Lists grow shorter downwards along every path, so each beginning of this order holds the cones of all that is in
    it. Insertion sort: the order of the query is nearly that already.
    """
    order = np.empty(len(at), np.int64)
    for vertex in range(len(at)):
        place = vertex
        while place > 0 and nodes[at[order[place - 1]]].count < nodes[at[vertex]].count:
            order[place] = order[place - 1]
            place -= 1
        order[place] = vertex
    return order


@helper
def rest(order: Array, weights: Array, above: Array, settled: Array, bound: int) -> int:
    """Return how many of the first vertices can be left out: rule 3."""
    left_out = 0
    for kept in range(len(order)):
        left_out += weights[order[kept]]
        if left_out < bound:
            continue
        if left_out == bound:
            for place in range(kept + 1):
                vertex = order[place]
                if settled[vertex] and above[vertex] == bound:
                    return kept + 1
        return kept
    return len(order)


@helper
def uppermost(order: Array, kept: int, cones: Array) -> Array:
    """Return those of ``order[kept:]`` below which the others are, in the same order."""
    entrances = np.empty(len(order) - kept, np.int64)
    count = 0
    for place in range(kept, len(order)):
        vertex = order[place]
        is_below = False
        for other in range(count):
            if holds(cones, vertex, entrances[other]):
                is_below = True
                break
        if not is_below:
            entrances[count] = vertex
            count += 1
    return entrances[:count]


@helper
def is_necessary(vertex: int, cones: Array, without: int, above: Array, settled: Array, bound: Any) -> bool:
    """Return whether every model that may still win holds a vertex; `without`: weight of what is not below it."""
    if without != bound:
        return without < bound  # type: ignore[no-any-return]
    for other in range(len(above)):
        if settled[other] and above[other] == bound and not holds(cones, other, vertex):
            return True
    return False
