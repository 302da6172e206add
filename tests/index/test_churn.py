"""Thousands of models that come and go: every answer as by the plain index, and memory that does not grow."""

from __future__ import annotations

import random

import pytest

from daskevo.index import Entry, PrefixIndex, Query
from daskevo.types import ModelId, Tick
from tests.index.families import Genes, child, express, founder
from tests.index.plain import PlainIndex


class Churn:
    """A population of genes, an index and the plain one, changed together by chance."""

    def __init__(self, seed: int, length: int, most: int) -> None:
        self.random = random.Random(seed)
        self.length, self.most = length, most
        self.index, self.plain = PrefixIndex(), PlainIndex()
        self.genes: dict[ModelId, Genes] = {}
        self.made = 0

    def draw(self) -> Genes:
        if not self.genes or self.random.random() < 0.02:
            return founder(self.random, self.length)
        return child(self.random, self.random.choice(list(self.genes.values())))

    def entry(self, name: ModelId, genes: Genes) -> Entry:
        # Few ranks and moments, so that ties are frequent.
        rank = self.random.choice([None, 0.1, 0.2, 0.3])
        return Entry("digits", name, express(genes).ids, rank, Tick(1, self.random.randrange(self.made // 50 + 1)))

    def insert(self) -> None:
        self.made += 1
        genes = self.draw()
        if self.random.random() < 0.1 and self.genes:
            genes = self.random.choice(list(self.genes.values()))  # a graph that is there
        entry = self.entry(ModelId(f"model-{self.made % 997}"), genes)
        self.genes[entry.model_id] = genes
        self.index.insert(*entry)
        self.plain.insert(entry)

    def remove(self) -> None:
        name = self.random.choice(list(self.genes))
        del self.genes[name]
        self.index.remove(name)
        self.plain.remove(name)

    def step(self) -> None:
        if len(self.genes) < self.random.randrange(self.most + 1):
            self.insert()
        elif self.genes:
            self.remove()

    def query(self) -> Query:
        model = express(self.draw())
        weights = None if self.random.random() < 0.5 else [self.random.randrange(1, 2000) for _ in model.ids]
        edges = None if self.random.random() < 0.3 else model.edges
        query = Query(model.ids, weights, frozenset(), edges)
        if self.random.random() < 0.5:
            # Who would win, so that the second best must be found, and the third.
            for _ in range(self.random.randrange(4)):
                best = self.plain.best("digits", query)
                if best is not None:
                    query = query._replace(exclude=query.exclude | {best.model_id})
        return query

    def check(self, queries: int) -> None:
        asked = [self.query() for _ in range(queries)]
        expected = [self.plain.best("digits", query) for query in asked]
        assert self.index.best_many("digits", asked) == expected
        assert [self.index.best("digits", *query) for query in asked[:3]] == expected[:3]
        assert len(self.index) == len(self.genes)


@pytest.mark.parametrize(("seed", "length", "most"), [(1, 3, 40), (2, 12, 300), (3, 30, 60)])
def test_answers_stay_exact_through_thousands_of_changes(seed: int, length: int, most: int) -> None:
    churn = Churn(seed, length, most)
    for _ in range(60):
        for _ in range(60):
            churn.step()
        churn.check(6)


def test_freed_memory_is_used_again() -> None:
    churn = Churn(4, 12, 200)
    for _ in range(1500):
        churn.step()
    first = churn.index.nbytes
    for _ in range(6000):
        churn.step()
    assert churn.index.nbytes <= 1.3 * first
    churn.check(20)


def test_removal_leaves_nothing_behind() -> None:
    churn = Churn(5, 8, 300)
    churn.index.warm()
    for _ in range(1000):
        churn.insert()
    assert churn.index.nbytes > 0
    while churn.genes:
        churn.remove()
    assert (len(churn.index), churn.index.nbytes) == (0, 0)
    churn.check(3)
    churn.insert()
    churn.check(3)


def test_a_group_of_equal_graphs_is_ordered() -> None:
    draw = random.Random(6)
    model = express(founder(draw, 6))
    index, plain = PrefixIndex(), PlainIndex()
    names = [ModelId(f"m{number}{'x' * (number % 5)}") for number in range(200)]
    for name in names:
        entry = Entry("digits", name, model.ids, draw.choice([None, 0.1, 0.2]), Tick(1, draw.randrange(4)))
        index.insert(*entry)
        plain.insert(entry)
    # One posting for all of them: many times less than if each had its own.
    alone = PrefixIndex()
    for name in names:
        alone.insert("digits", name, express((*founder(draw, 6), len(alone) % 36)).ids, 0.1, Tick(1, 1))
    alone.warm()
    index.warm()
    assert index.nbytes < alone.nbytes / 2
    excluded: frozenset[ModelId] = frozenset()
    while (match := index.best("digits", model.ids, None, excluded, model.edges)) is not None:
        assert match == plain.best("digits", Query(model.ids, exclude=excluded))
        if len(excluded) % 2:
            index.remove(match.model_id)
            plain.remove(match.model_id)
        excluded |= {match.model_id}
    assert excluded == frozenset(names)
