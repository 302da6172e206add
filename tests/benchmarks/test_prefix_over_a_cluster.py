"""Prefix queries over a real cluster, at toy size."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from benchmarks.prefix.cluster import (
    LAYERS,
    ClusterRow,
    ask,
    catalogue,
    cluster_json,
    cluster_rows,
    cluster_table,
    ids_of,
    mutated,
)


def test_relatives_share_all_that_comes_before_the_changed_layer() -> None:
    models = catalogue(200)
    assert models == catalogue(200) != catalogue(200, seed=1)
    assert {len(choices) for choices in models} == {LAYERS}
    parent = models[7]
    child = mutated(parent, random.Random(0))
    (place,) = (number for number in range(LAYERS) if parent[number] != child[number])
    shared = [mine == theirs for mine, theirs in zip(ids_of(child), ids_of(parent), strict=True)]
    assert shared == [True] * place + [False] * (LAYERS - place)
    assert len(set(ids_of(parent))) == LAYERS


def test_rows_as_table_and_as_json() -> None:
    rows = [ClusterRow(2, 1, 100, 25_000.04, 3.99999), ClusterRow(2, 8, 1, 900.0, 7.0)]
    assert cluster_json(rows) == [{"workers": 2, "batch": 100, "queries_per_s": 25000.0, "median_ms": 4.0}]
    assert "| 2       |       8 |     1 |       900 |      7.00 |" in str(cluster_table(rows))


def test_each_client_asks_once_however_long_it_takes_to_begin() -> None:
    asked: list[int] = []
    session = SimpleNamespace(query_batcher=SimpleNamespace(best=print))
    connection = SimpleNamespace(session=session, run=lambda best, scope, questions: asked.append(len(questions)))
    repository = SimpleNamespace(connection=connection, timeout_s=1.0)
    per_s, median_s = ask(repository, models=10, clients=3, batch=2, queries=100, seconds=0.0)
    assert asked == [2] * (1 + 3)
    assert per_s > 0 <= median_s


@pytest.mark.long
@pytest.mark.processes
def test_a_cluster_is_asked_in_every_way() -> None:
    said: list[str] = []
    rows = cluster_rows(True, said.append)
    assert said == ["prefix queries over 2 worker processes"]
    assert [(row.workers, row.clients, row.batch) for row in rows] == [(2, 1, 1), (2, 4, 1), (2, 1, 100)]
    assert all(row.queries_per_s > 0 and row.median_ms > 0 for row in rows)
