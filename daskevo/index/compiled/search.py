"""Find the exact best match of a query, reading as few models as possible.

Source: the LCP query of paper 000, section 4.2, answered by an inverted index instead of its scan over all models.

Let S be the vertices of the query that the index knows, in topological order, and W a sum of weights. The models that
hold a vertex hold its ancestors too, since ids contain them: its *cone* is itself and its ancestors. Where the edges of
a query are not known, each cone is the vertex alone, which makes the same rules true and less useful. Every model's
match is a subset of S that holds the cone of each of its vertices, and the best of all holders of a vertex is known. So

1. if one cone is all of S, the best holder of that vertex is the answer: nobody scores more than W(S), and whoever
   scores it holds the vertex;
2. the best holders of all vertices, scored, give a lower bound b; and any model whose match is a single cone is settled
   by them: the best holder of its lowest vertex scores at least as much and is not worse;
3. a model can be better only if its match is not inside any set with W < b, nor W = b if the set is a single settled
   cone. Such a set that holds the vertices with the longest lists is left out: then every better model holds one of
   the uppermost vertices outside, the *entrances*, and only their lists are read;
4. b rises while lists are read, and reading ends once what the unread lists could bring weighs less than b.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from daskevo.index.compiled.blocks import (
    AHEAD,
    BEST,
    COUNT,
    LIST,
    MODELS,
    NODES,
    SIZE,
    TOP,
    UNIT,
    beats,
    find_node,
    first_model,
    following,
    home_of,
    int64,
    prefetch_graph,
    tag_of,
    values_of,
)
from daskevo.index.compiled.compilation import helper, prefetch
from daskevo.index.query import BAD_EDGES, LENGTH, RANK, REPEATED, Array

MOST_CLOSED: Final = 4096
"""Vertices up to which a query's cones are used: their bit sets grow with the square of it (2 MB there)."""
SCORING_PLACES: Final = 1024
"""Places up to which the table that models are scored by is made larger: 12 kB, which the first cache holds."""

_ONE = np.uint64(1)


def best_many(slots: Array, pool: Array, asked: Array, found: Array) -> None:
    """Answer several queries.

    Parameters
    ----------
    asked:
        One after the other: what :func:`daskevo.index.query.pack_query` returns, how many models to exclude, and which.
    found:
        Filled with (score, model, length of its name); a score below 0 says what is wrong with the query. # (n, 3)
    """
    at = 0
    for query in range(len(found)):
        weights = at + 3 + 2 * asked[at]
        edges = weights + asked[at + 1]
        end = edges + max(asked[at + 2], 0)
        ids, pairs = asked[at + 3 : weights].view(np.uint64), asked[edges:end].view(np.int32)
        exclude = asked[end + 1 : end + 1 + asked[end]]
        score, model = best(slots, pool, ids, asked[weights:edges], pairs, asked[at + 2] >= 0, exclude)
        found[query] = score, model, int64(pool[model * UNIT + LENGTH])
        at = end + 1 + asked[end]


@helper
def best(
    slots: Array, pool: Array, ids: Array, given: Array, edges: Array, closed: bool, exclude: Array
) -> tuple[int, int]:
    """Return the (score, model) of the best match; model 0: none. `given`: weights, if there are any."""
    total = len(ids) // 2
    tags = np.empty(total, np.uint64)
    for vertex in range(total):
        tags[vertex] = tag_of(ids[2 * vertex], ids[2 * vertex + 1])
        prefetch(slots, home_of(slots, tags[vertex]))
    if repeats(ids, tags):
        return REPEATED, 0
    number = np.empty(total, np.int64)  # nodes, 0 for none; below: places among the known vertices, -1 for none
    for vertex in range(total):
        number[vertex] = find_node(slots, pool, tags[vertex], ids[2 * vertex], ids[2 * vertex + 1])
    for edge in range(len(edges) // 2):
        source, target = edges[2 * edge], edges[2 * edge + 1]
        # In order of targets, so that a source is done before what it flows into.
        if not 0 <= source < target < total or (edge > 0 and target < edges[2 * edge - 1]):
            return BAD_EDGES, 0
        if number[source] == 0:
            number[target] = 0
    at, weights = np.empty(total, np.int64), np.empty(total, np.int64)
    count = 0
    for vertex in range(total):
        node = number[vertex] * UNIT
        number[vertex] = -1
        # No graph has it if there was no memory for the model that brought it.
        if node > 0 and pool[node + LIST + COUNT] > 0:
            number[vertex] = count
            at[count] = node
            weights[count] = given[vertex] if len(given) > 0 else 1
            count += 1
    if count == 0:
        return 0, 0
    cones = np.zeros((count if closed and count <= MOST_CLOSED else 0, (count + 63) >> 6), np.uint64)
    for vertex in range(len(cones)):
        cones[vertex, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
    for edge in range(len(edges) // 2 if len(cones) > 0 else 0):
        source, target = number[edges[2 * edge]], number[edges[2 * edge + 1]]
        if target >= 0:
            for word in range((source >> 6) + 1):
                cones[target, word] |= cones[source, word]
    return best_of(pool, at[:count], weights[:count], cones, exclude)


@helper
def repeats(ids: Array, tags: Array) -> bool:
    """Return whether an id occurs twice."""
    seen = np.zeros(2 * len(tags) + 1, np.int32)  # vertex + 1, or 0
    for vertex in range(len(tags)):
        place = home_of(seen, tags[vertex])
        while seen[place] > 0:
            other = seen[place] - 1
            if ids[2 * other] == ids[2 * vertex] and ids[2 * other + 1] == ids[2 * vertex + 1]:
                return True
            place = following(seen, place)
        seen[place] = vertex + 1
    return False


@helper
def holds(cones: Array, lower: int, upper: int) -> bool:
    """Return whether `upper` is in the cone of `lower`; without cones, whether they are one."""
    if len(cones) == 0:
        return lower == upper
    return (cones[lower, upper >> 6] >> np.uint64(upper & 63)) & _ONE == _ONE  # type: ignore[no-any-return]


@helper
def best_of(pool: Array, at: Array, weights: Array, cones: Array, exclude: Array) -> tuple[int, int]:
    """Answer for vertices that are all in the index; `at`: their nodes' first words; `cones`: as bit sets, if known."""
    count = len(at)
    whole = 0
    settled = np.empty(count, np.bool_)
    above = np.zeros(count, np.int64)  # weight of its cone
    for vertex in range(count):
        whole += weights[vertex]
        graph = pool[at[vertex] + BEST]
        prefetch_graph(pool, graph)
        # If the best holder is excluded, who is best among the others is not known without reading the list.
        settled[vertex] = first_model(pool, graph) not in exclude
        for upper in range(vertex if len(cones) == 0 else 0, vertex + 1):
            if holds(cones, vertex, upper):
                above[vertex] += weights[upper]
    # Rule 1. Only the last vertex' cone can be all.
    if above[count - 1] == whole and settled[count - 1]:
        return whole, first_model(pool, pool[at[count - 1] + BEST])

    keys, values, apart = weights_by_node(at, weights)
    bound, winner, last = 0, 0, 0
    ranks = pool.view(np.float64)
    # Rule 2. Neighbours often have the same best holder.
    for vertex in range(count - 1, -1, -1):
        graph = pool[at[vertex] + BEST]
        if graph != last:
            score = score_of(pool, graph, keys, values, apart)
            bound, winner = better(pool, ranks, graph, score, exclude, bound, winner)
            last = graph

    order = by_length(pool, at)
    entrances = uppermost(order, left_out(order, weights, above, settled, bound), cones)
    read = np.zeros(count, np.bool_)
    unread = whole
    # The shortest list first: what it finds may spare reading the long ones.
    for entrance in range(len(entrances) - 1, -1, -1):
        vertex = entrances[entrance]
        head = at[vertex] + LIST
        graphs, end = values_of(pool, head), pool[head + COUNT]
        for place in range(end):
            if place + AHEAD < end:
                prefetch_graph(pool, pool[graphs + place + AHEAD])
            graph = pool[graphs + place]
            score = score_of(pool, graph, keys, values, apart)
            if score >= bound:
                bound, winner = better(pool, ranks, graph, score, exclude, bound, winner)
        # Rule 4.
        for lower in range(count):
            if not read[lower] and holds(cones, lower, vertex):
                read[lower] = True
                unread -= weights[lower]
        if unread < bound:
            break
    return bound, winner


@helper
def weights_by_node(at: Array, weights: Array) -> tuple[Array, Array, bool]:
    """Return a small hash table, node -> weight: nodes, 0 in empty places; weights; whether no two collide.

    Without collisions a model is scored without a branch that the processor could guess wrong, in half the time: so
    the table is made larger for it, while the first cache holds it.
    """
    size = 4
    while size < 4 * len(at):
        size *= 2
    while True:
        keys, values = np.zeros(size, np.int32), np.zeros(size, np.int64)
        apart = True
        for vertex in range(len(at)):
            node = at[vertex] // UNIT
            place = node & (size - 1)
            while keys[place] > 0:
                apart = False
                place = (place + 1) & (size - 1)
            keys[place], values[place] = node, weights[vertex]
        if apart or size >= SCORING_PLACES:
            return keys, values, apart
        size *= 2


@helper
def score_of(pool: Array, graph: int, keys: Array, values: Array, apart: bool) -> int:
    """Return the weight of the vertices that a graph shares with the query."""
    mask = len(keys) - 1
    first = graph * UNIT + NODES
    end = first + pool[graph * UNIT + SIZE]
    score = 0
    if apart:
        for word in range(first, end):
            place = pool[word] & mask
            score += values[place] * np.int64(keys[place] == pool[word])
        return score
    for word in range(first, end):
        place = pool[word] & mask
        while keys[place] > 0 and keys[place] != pool[word]:
            place = (place + 1) & mask
        score += values[place]
    return score


@helper
def better(
    pool: Array, ranks: Array, graph: int, score: int, exclude: Array, bound: int, winner: int
) -> tuple[int, int]:
    """Return (score, model) of the better of a graph's best model and the winner so far."""
    if score < bound:
        return bound, winner
    if score == bound and winner > 0 and ranks[(graph * UNIT + TOP) // 2] < ranks[(winner * UNIT + RANK) // 2]:
        return bound, winner
    head = graph * UNIT + MODELS
    models = values_of(pool, head)
    for place in range(pool[head + COUNT]):
        model = int64(pool[models + place])
        if model not in exclude:
            if score > bound or winner == 0 or beats(pool, model, winner):
                return score, model
            break
    return bound, winner


@helper
def by_length(pool: Array, at: Array) -> Array:
    """Return the vertices by falling length of their lists, upper ones first among equals.

    Lists grow shorter downwards along every path, so each beginning of this order holds the cones of all that is in
    it. Insertion sort: the order of the query is nearly that already.
    """
    order = np.empty(len(at), np.int64)
    for vertex in range(len(at)):
        place = vertex
        while place > 0 and pool[at[order[place - 1]] + LIST + COUNT] < pool[at[vertex] + LIST + COUNT]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = vertex
    return order


@helper
def left_out(order: Array, weights: Array, above: Array, settled: Array, bound: int) -> int:
    """Return how many of the first vertices need not be read: rule 3."""
    weight = 0
    for kept in range(len(order)):
        weight += weights[order[kept]]
        if weight == bound:
            for place in range(kept + 1):
                if settled[order[place]] and above[order[place]] == bound:
                    return kept + 1
        if weight >= bound:
            return kept
    return len(order)


@helper
def uppermost(order: Array, start: int, cones: Array) -> Array:
    """Return those of ``order[start:]`` below which the others are, in the same order."""
    entrances = np.empty(len(order) - start, np.int64)
    count = 0
    for place in range(start, len(order)):
        is_below = False
        for other in range(count):
            is_below = is_below or holds(cones, order[place], entrances[other])
        if not is_below:
            entrances[count] = order[place]
            count += 1
    return entrances[:count]
