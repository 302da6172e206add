"""Ids that the index's hash tables can't tell apart by their tags: only the comparison of both halves does."""

from __future__ import annotations

import random

import pytest

from daskevo.index import Entry, PrefixIndex, Query
from daskevo.types import ModelId, Tick, VertexId
from tests.index.plain import PlainIndex

WORD = 1 << 64
MULTIPLIER = 0x9E3779B97F4A7C15  # of the first half, in `tag_of`


def of_words(high: int, low: int) -> VertexId:
    return VertexId(high.to_bytes(8, "little") + low.to_bytes(8, "little"))


def of_one_tag(draw: random.Random) -> VertexId:
    high = draw.randrange(WORD)
    return of_words(high, 12345 ^ (high * MULTIPLIER) % WORD)


IDS = {
    "one tag": of_one_tag,
    "one first half": lambda draw: of_words(7, draw.randrange(WORD)),
    "one second half": lambda draw: of_words(draw.randrange(WORD), 7),
    "small numbers": lambda draw: of_words(0, draw.randrange(5000)),
}


@pytest.mark.parametrize("kind", IDS)
def test_answers_are_exact(kind: str) -> None:
    draw = random.Random(kind)
    ids = list(dict.fromkeys(IDS[kind](draw) for _ in range(120)))
    index, plain = PrefixIndex(), PlainIndex()
    names: list[ModelId] = []
    for number in range(200):
        if names and draw.random() < 0.3:
            gone = names.pop(draw.randrange(len(names)))
            index.remove(gone)
            plain.remove(gone)
        name = ModelId(f"m{number}")
        names.append(name)
        entry = Entry("digits", name, draw.sample(ids, draw.randrange(1, 20)), draw.random(), Tick(1, number))
        index.insert(*entry)
        plain.insert(entry)
        query = Query(draw.sample(ids, 30))
        assert index.best("digits", *query) == plain.best("digits", query)
    for name in names:
        index.remove(name)
    assert index.nbytes == 0
