"""Graphs of hundreds and thousands of vertices: more than a machine word, and more than cones are kept for."""

from __future__ import annotations

import random

import pytest

from daskevo.index import Entry, PrefixIndex, Query, pack_edges
from daskevo.index.compiled.search import MOST_CLOSED
from daskevo.types import ModelId, Tick, VertexId
from tests.index.families import express, founder
from tests.index.plain import PlainIndex


@pytest.mark.parametrize("length", [62, 63, 64, 65, 1041])
def test_answers_are_exact(length: int) -> None:
    draw = random.Random(length)
    parent = founder(draw, length)
    index, plain = PrefixIndex(), PlainIndex()
    for number in range(24):
        genes = list(parent)
        # Late changes too, so that long prefixes compete.
        genes[draw.choice([draw.randrange(length), length - 1 - draw.randrange(5)])] = draw.randrange(36)
        entry = Entry("zoo", ModelId(f"m{number}"), express(tuple(genes)).ids, number % 3 / 3, Tick(1, number))
        index.insert(*entry)
        plain.insert(entry)
    for number in range(12):
        genes = list(parent)
        genes[draw.randrange(length)] = draw.randrange(36)
        model = express(tuple(genes))
        query = Query(model.ids, None if number % 2 else [draw.randrange(1, 9) for _ in model.ids])
        expected = plain.best("zoo", query)
        assert index.best("zoo", *query) == expected
        assert index.best("zoo", *query._replace(edges=model.edges)) == expected
        if expected is not None and number < 6:
            index.remove(expected.model_id)
            plain.remove(expected.model_id)


def test_beyond_the_size_for_cones_answers_stay_exact() -> None:
    count = MOST_CLOSED + 100
    ids = [VertexId(number.to_bytes(16, "big")) for number in range(count)]
    edges = pack_edges((number, number + 1) for number in range(count - 1))
    index = PrefixIndex()
    index.insert("zoo", ModelId("half"), ids[: count // 2], 0.9, Tick(1, 1))
    index.insert("zoo", ModelId("most"), ids[:-1], 0.1, Tick(1, 2))
    match = index.best("zoo", ids, None, frozenset(), edges)
    assert match is not None
    assert (match.score, match.model_id) == (count - 1, "most")
    index.remove(ModelId("most"))
    match = index.best("zoo", b"".join(ids), None, frozenset(), edges)
    assert match is not None
    assert (match.score, match.model_id) == (count // 2, "half")
