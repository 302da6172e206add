"""Queries: direct and as futures the same answer, the maximum over all providers; partial answers say so."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import Any

import pytest
from distributed import Event, Worker

from daskevo.client.best_match import Question, best_of, match_to_wire
from daskevo.errors import InvalidInput, ShardUnavailable
from daskevo.index import PrefixIndex, PrefixMatch
from daskevo.provider.handlers import THREADED_BYTES
from daskevo.types import ModelId, Tick
from tests.cluster.helpers import chain, evo_cluster, make, open_here, plugin_of
from tests.faults.test_put_verdicts import Intercept

MODELS = {f"m{n}": (chain(8, 4 + n % 3, 3 + n % 2), n / 10) for n in range(10)}
QUERIES = [chain(8, 4, 3), chain(8, 5), chain(8, 9), chain(3)]


@evo_cluster(providers=3, trainers=0)
async def test_all_ways_give_the_one_answer(c: Any, s: Any, *providers: Any) -> None:
    repository = await open_here(c, None)
    index = PrefixIndex()
    for name, (graph, score) in MODELS.items():
        stored = await make(repository, graph, name, keep=False, score=score)
        index.insert("test", stored.record.model_id, graph.ids, score, stored.record.created)
    for weigh in ("vertex", "bytes"):
        expected = [
            index.best("test", question.ids, question.weights)
            for question in (Question.of(graph, weigh) for graph in QUERIES)
        ]
        found = await repository.best_match(QUERIES, weigh)
        assert list(found) == expected
        assert found.partial == {}
        many = QUERIES * 400
        assert 16 * sum(len(graph.ids) for graph in many) >= THREADED_BYTES
        assert list(await repository.best_match(many, weigh)) == expected * 400
        future = repository.query_futures(QUERIES, weigh)
        assert list(await (await future)) == expected
    assert expected[0] is not None
    assert len([worker for worker in providers if len(plugin_of(worker).host.models.index)]) == 3
    with pytest.raises(InvalidInput):
        repository.best_match(QUERIES, "layers")


@evo_cluster(providers=2)
async def test_excluded_models_are_no_match(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    for name in ("first", "second"):
        await make(repository, QUERIES[0], name, keep=False)
    found = []
    for exclude in ([], ["first"], ["first", "second", "unknown"]):
        (match,) = await (await repository.query_futures(QUERIES[:1], exclude=exclude))
        found.append(match and match.model_id)
    assert found[1:] == ["second", None]
    assert found[0] in ("first", "second")


@evo_cluster(providers=2)
async def test_query_futures_are_pinned_by_name_and_need_no_trainer(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, QUERIES[0], "first")
    busy = [c.submit(lambda: Event("go").wait(timeout=120), pure=False, workers=[t.address]) for _ in range(3)]
    while not t.state.executing_count:
        await asyncio.sleep(0.01)
    future = await repository.query_futures(QUERIES[:1])
    (match,) = await future
    assert match.model_id == "first"
    queries = [task for key, task in s.tasks.items() if str(key).startswith("daskevo-query")]
    assert sorted(sorted(task.worker_restrictions) for task in queries) == sorted([[a.address], [b.address]])
    await Event("go").set()
    await c.gather(busy)


@evo_cluster()
async def test_query_futures_follow_a_provider_that_is_started_again(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, QUERIES[0], "first")
    busy = [
        c.submit(lambda: Event("go").wait(timeout=120), pure=False, workers=[a.address], priority=200) for _ in range(2)
    ]
    while a.state.executing_count < 2:
        await asyncio.sleep(0.01)
    future = await repository.query_futures(QUERIES[:1])
    while not any(str(key).startswith("daskevo-query") for key in s.tasks):
        await asyncio.sleep(0.01)
    await a.close(executor_wait=False)
    await Event("go").set()
    async with Worker(s.address, nthreads=2, resources={"provider": 1}, name=a.name) as again:
        assert again.address != a.address
        (match,) = await future
        assert match.model_id == "first"
    del busy


@evo_cluster(providers=2)
async def test_a_provider_that_gives_no_answer_makes_it_partial(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    for name, (graph, score) in MODELS.items():
        await make(repository, graph, name, keep=False, score=score)
    Intercept(a, repository, "match", before="lose")
    found = await repository.best_match(QUERIES)
    assert list(found.partial) == [str(a.name)]
    assert found[0] == plugin_of(b).host.models.index.best("test", QUERIES[0].ids)


def test_the_reduction_of_nothing() -> None:
    assert best_of([]) == ()
    assert best_of([[None, None], [None, None]]) == (None, None)


def test_the_reduction_follows_the_total_order() -> None:
    rising = [
        PrefixMatch(1, 0.9, Tick(1, 9), ModelId("z")),
        PrefixMatch(2, -math.inf, Tick(1, 9), ModelId("z")),
        PrefixMatch(2, 0.5, Tick(1, 1), ModelId("z")),
        PrefixMatch(2, 0.5, Tick(1, 2), ModelId("a")),
        PrefixMatch(2, 0.5, Tick(1, 2), ModelId("b")),
    ]
    for asked in itertools.permutations([None, *rising], 3):
        best = max(match for match in asked if match is not None)
        assert best_of([[match_to_wire(match)] for match in asked]) == (best,)


@evo_cluster(providers=2, trainers=0)
async def test_a_query_at_a_provider_that_goes_is_answered_by_the_one_that_comes_in_its_place(
    c: Any, s: Any, a: Any, b: Any, tmp_path: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, QUERIES[0], "first")
    # As between a provider's death and its joining again.
    host, plugin_of(b).host = plugin_of(b).host, None
    future = await repository.query_futures(QUERIES[:1])
    while not b.state.executing_count:
        await asyncio.sleep(0.01)
    await b.close()
    await host.close()
    async with Worker(s.address, host="127.0.0.1", nthreads=2, name=b.name, resources={"provider": 1}):
        (match,) = await future
    assert match.model_id == "first"


@evo_cluster(providers=2, trainers=0)
async def test_a_provider_that_has_not_joined_is_not_said_to_be_none(
    c: Any, s: Any, a: Any, b: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("daskevo.client.query_futures._JOIN_S", 0.1)
    repository = await open_here(c, None)
    host, plugin_of(b).host = plugin_of(b).host, None
    with pytest.raises(ShardUnavailable, match="provider 1 has not joined the repository"):
        await (await repository.query_futures(QUERIES[:1]))
    plugin_of(b).host = host
