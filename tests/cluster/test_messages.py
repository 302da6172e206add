"""How many messages things take, and what happens to those that came in one message when it is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from daskevo.client.best_match import Question, best_matches
from daskevo.client.query_batcher import MOST_TOGETHER
from daskevo.errors import ModelExists, ShardUnavailable
from daskevo.protocol.messages import Status
from daskevo.protocol.replies import Standing
from daskevo.types import ModelId
from daskevo.wire.transport import NoAnswer, operation
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of, put_reserved, reserve
from tests.faults.test_put_verdicts import Intercept

GRAPH, WIDER, WIDEST = chain(8, 6, 3), chain(8, 6, 5), chain(8, 6, 5, 7)


class Counted:
    """Counts a session's messages by role and method."""

    def __init__(self, repository: Any) -> None:
        self.session = repository.connection.session
        self.found: Counter[str] = Counter()
        transport = self.session.transport
        self._coordinator, self._provider = transport.coordinator, transport.provider
        transport.coordinator, transport.provider = self.coordinator, self.provider

    async def coordinator(self, method: str, **arguments: Any) -> Any:
        self.found[f"coordinator {method}"] += 1
        return await self._coordinator(method, **arguments)

    async def provider(self, address: str, method: str, **arguments: Any) -> Any:
        self.found[f"provider {method}"] += 1
        return await self._provider(address, method, **arguments)

    async def take(self) -> dict[str, int]:
        """Return the messages since the last time."""
        await self.session.outbox.sent()
        found, self.found = self.found, Counter()
        return dict(found)


@evo_cluster()
async def test_messages_of_one_inherit_and_put(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first", seed=1)
    await make(repository, WIDER, "second", seed=2)
    counted = Counted(repository)
    await counted.take()
    reservation = await reserve(repository, WIDEST, "third", check_id=True)
    assert set(reservation.owners) == {"first", "second"}
    assert await counted.take() == {"coordinator begin": 1, "provider match": 1, "provider together": 1}
    # One inherited tensor is changed: its bits are dropped, which nobody waits for.
    await put_reserved(repository, WIDEST, reservation, tensors={1: reservation.arrays[1] + 1})
    found = await counted.take()
    assert found == {"coordinator tick": 1, "provider put": 1, "provider ask": 1, "coordinator end": 1}
    assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_an_id_that_is_taken_is_found_with_the_match(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    (match,) = await repository.best_match(GRAPH)
    for options in ({}, {"ancestor": False}, {"ancestor": "first"}, {"match": match}):
        with pytest.raises(ModelExists) as caught:
            await reserve(repository, GRAPH, "first", check_id=True, **options)
        assert caught.value.facts["record"].model_id == "first"
    await at_rest(s, a, b)
    assert (await repository.stats())["live_attempts"] == 0
    assert (await reserve(repository, GRAPH, "second", check_id=True)).ancestor is not None


@evo_cluster(providers=2)
async def test_messages_that_travel_together_and_get_lost(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    session = repository.connection.session
    names = [ModelId(f"m{number}") for number in range(12)]
    found = await session.send_together([Status(name) for name in names])
    assert [reply.state for reply in found if isinstance(reply, Standing)] == ["unknown"] * 12
    # One provider's message is refused at once: each is sent again by itself.
    handlers, key = a.handlers, operation("provider", repository.settings.key, "together")
    together = handlers.pop(key)
    handlers[key] = lambda **arguments: None
    found = await session.send_together([Status(name) for name in names])
    assert [reply.state for reply in found if isinstance(reply, Standing)] == ["unknown"] * 12
    # It is never answered: only that provider's shards have no answer.
    handlers[key] = together
    Intercept(a, repository, "together", before="lose")
    found = await session.send_together([Status(name) for name in names])
    table = await session.directory.table()
    for name, reply in zip(names, found, strict=True):
        place = table.places[await session.directory.shard_of(name)]
        assert isinstance(reply, ShardUnavailable if place.address == a.address else Standing), name


@evo_cluster(providers=2)
async def test_queries_of_one_process_travel_together(
    c: Any, s: Any, a: Any, b: Any, t: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daskevo.client.query_batcher.PATIENCE_S", 60.0)  # a slow machine sends no more messages
    repository = await open_here(c, None)
    for number in range(6):
        await make(repository, chain(8, 4 + number), f"m{number}", keep=False, score=number / 10)
    counted = Counted(repository)
    session = counted.session
    questions = [Question.of(chain(8, 4 + number % 6)) for number in range(3 * MOST_TOGETHER)]
    expected = (await best_matches(session.directory, "test", questions, timeout_s=60)).matches
    await counted.take()
    answers = await asyncio.gather(*(session.query_batcher.best("test", [one], timeout_s=60) for one in questions))
    assert [answer.matches[0] for answer in answers] == list(expected)
    # The first leaves alone, the others as they fit into messages; two providers each.
    assert (await counted.take())["provider match"] <= 2 * 5
    large = await session.query_batcher.best("test", questions, timeout_s=60)
    assert large.matches == expected
    assert await counted.take() == {"provider match": 2}


@evo_cluster()
async def test_queries_do_not_wait_for_one_that_is_stuck(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    session = repository.connection.session
    key, go_on, asked = operation("provider", repository.settings.key, "match"), asyncio.Event(), []
    match = a.handlers[key]

    async def stuck_once(**arguments: Any) -> Any:
        asked.append(len(arguments["questions"]))
        if len(asked) == 1:
            await go_on.wait()
        return await match(**arguments)

    a.handlers[key] = stuck_once
    question = [Question.of(GRAPH)]
    first = asyncio.ensure_future(session.query_batcher.best("test", question, timeout_s=60))
    while not asked:
        await asyncio.sleep(0.001)
    second, cancelled = (
        asyncio.ensure_future(session.query_batcher.best("test", question, timeout_s=60)) for _ in range(2)
    )
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await second).matches[0].model_id == "first"
    assert not first.done()
    go_on.set()
    assert (await first).matches == (await second).matches
    assert asked == [1, 2]


@evo_cluster()
async def test_an_error_reaches_all_who_asked_together(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    session = repository.connection.session

    async def broken(*arguments: Any, **more: Any) -> Any:
        raise ValueError("broken")

    session.directory.everywhere = broken
    question = [Question.of(GRAPH)]
    asking = [session.query_batcher.best("test", question, timeout_s=60) for _ in range(3)]
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(error) for error in found] == ["broken"] * 3


@evo_cluster()
async def test_what_nobody_waits_for_is_given_up_when_nobody_hears_it(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    reservation = await reserve(repository, GRAPH, "second")
    session = repository.connection.session
    transport = session.transport
    provider = transport.provider

    async def refused(address: str, method: str, **arguments: Any) -> Any:
        if method == "ask":
            raise NoAnswer(address, method, "lost", late=True)
        return await provider(address, method, **arguments)

    transport.provider = refused
    stored = await put_reserved(repository, GRAPH, reservation, keep=False, seed=2)
    await session.outbox.sent()
    transport.provider = provider
    assert not stored.by_other
    assert (await repository.stats())["live_attempts"] == 0
    verification = await repository.verify()
    assert [difference.kind for difference in verification.differences] == ["leftover reference"]
    assert plugin_of(a).host.shards
    assert (await repository.verify(repair=True)).clean
