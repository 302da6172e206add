"""A provider that gives no answer is waited for once, then only for a moment, until it answers again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client

import daskevo
from daskevo.client.directory import Directory
from daskevo.client.inherit import SILENT_OWNERS
from daskevo.client.suspect_providers import SILENCE_S, SILENT_TIMEOUT_S, SuspectProviders
from daskevo.deploy.local import local_cluster
from daskevo.errors import PutUnknown
from daskevo.protocol.shard_table import Place, ShardTable
from daskevo.types import ModelId
from daskevo.wire import tensor_framing
from daskevo.wire.transport import NoAnswer
from tests.cluster.helpers import chain, evo_cluster, make, open_here, put_reserved, reserve
from tests.faults.test_put_verdicts import Intercept
from tests.waiting import wait_until

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


class Waits:
    """Notes how long a transport's calls to providers were ready to wait: ``(address, method, seconds)``."""

    def __init__(self, transport: Any) -> None:
        self.seen: list[tuple[str, str, float]] = []
        self._real = transport.provider
        transport.provider = self.provider

    async def provider(self, address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        self.seen.append((address, method, timeout_s))
        return await self._real(address, method, timeout_s=timeout_s, **arguments)

    def of(self, address: str) -> list[float]:
        """Return the seconds of calls to one provider, and forget them."""
        found = [seconds for where, _, seconds in self.seen if where == address]
        self.seen = []
        return found


def test_silence_is_forgotten() -> None:
    now = 100.0
    silence = SuspectProviders(lambda: now)
    assert silence.patience("a", 5.0) == 5.0
    silence.missed("a", 5.0)
    silence.missed("b", 0.5)  # too short a wait to say anything
    assert [silence.patience(address, 5.0) for address in "abc"] == [SILENT_TIMEOUT_S, 5.0, 5.0]
    assert silence.patience("a", 0.1) == 0.1
    silence.heard("a")
    assert silence.patience("a", 5.0) == 5.0
    silence.missed("a", 5.0)
    now += SILENCE_S
    assert silence.patience("a", 5.0) == 5.0


@pytest.mark.parametrize("late", [True, False])
def test_only_a_wait_in_vain_is_silence(late: bool) -> None:
    class Transport:
        async def provider(self, address: str, method: str, **arguments: Any) -> Any:
            raise NoAnswer(address, method, "no", late=late)

    async def table() -> ShardTable:
        return ShardTable(1, 1, {0: Place("p", "tcp://p")}, {})

    async def ask() -> None:
        directory = Directory(Transport(), table)  # type: ignore[arg-type]
        _, silent = await directory.everywhere("match", timeout_s=5.0)
        assert list(silent) == ["p"]
        assert ("tcp://p" in directory.suspects) == late

    asyncio.run(ask())


def id_at(table: Any, address: str, stem: str) -> ModelId:
    """Return an id whose home is at a provider."""
    return next(ModelId(f"{stem}{n}") for n in range(99) if table.place(ModelId(f"{stem}{n}")).address == address)


@evo_cluster(providers=2)
async def test_a_silent_provider_costs_one_full_wait(c: Any, s: Any, a: Any, b: Any, t: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("daskevo.client.suspect_providers.SILENCE_S", 1000.0)
    repository = await open_here(c, None)
    session = repository.connection.session
    table = await session.directory.table()
    there, here = id_at(table, b.address, "there"), id_at(table, a.address, "here")
    await make(repository, GRAPH, there, seed=1)
    await make(repository, GRAPH, here, seed=2, score=0.9)  # inherits from there
    silent = [Intercept(b, repository, method, before="lose") for method in ("match", "refer", "ask", "stats")]
    waits = Waits(session.transport)
    for number in range(3):
        graph = chain(8, 6, 5 + number)
        reservation = await reserve(repository, graph, id_at(table, a.address, f"child{number}-"))
        # The best match is at a, but what it inherits is at b: the next best there is taken, and it says why.
        assert (reservation.ancestor is None) == (number == 0)
        assert "gave no answer" in reservation.tried[here]
        assert "gave no answer" in reservation.silent[str(b.name)]
        await put_reserved(repository, graph, reservation, seed=number, score=0.1)
        waited = waits.of(b.address)
        assert len(waited) >= 3  # it is asked again and again: its answer would be taken
        assert sum(seconds > SILENT_TIMEOUT_S for seconds in waited) == (number == 0)
    assert str(b.name) in (await repository.stats())["silent"]
    for interception in silent:
        interception.stop()
    reservation = await reserve(repository, WIDER, "last")
    assert reservation.ancestor is not None
    assert b.address not in session.directory.suspects


@evo_cluster(providers=2)
async def test_many_ancestors_of_a_silent_owner_are_not_all_tried(
    c: Any, s: Any, a: Any, b: Any, t: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("daskevo.client.suspect_providers.SILENCE_S", 1000.0)
    repository = await open_here(c, None)
    session = repository.connection.session
    table = await session.directory.table()
    await make(repository, GRAPH, id_at(table, b.address, "there"))
    for number in range(SILENT_OWNERS + 2):
        await make(repository, GRAPH, id_at(table, a.address, f"here{number}-"), score=0.9)
    silent = [Intercept(b, repository, method, before="lose") for method in ("match", "refer", "ask")]
    reservation = await reserve(repository, WIDER, "child")
    assert (reservation.ancestor, len(reservation.tried)) == (None, SILENT_OWNERS)
    for interception in silent:
        interception.stop()


@pytest.mark.parametrize("methods", [("land", "ask"), ("put", "ask")])
@evo_cluster(providers=2)
async def test_a_put_to_a_silent_home_ends_within_the_time_limit(
    c: Any, s: Any, a: Any, b: Any, t: Any, methods: tuple[str, ...], monkeypatch: Any
) -> None:
    monkeypatch.setattr(tensor_framing, "MESSAGE_BYTES", 50)
    repository = await open_here(c, None)
    session = repository.connection.session
    reservation = await reserve(repository, WIDER, id_at(await session.directory.table(), b.address, "there"))
    silent = [Intercept(b, repository, method, before="lose") for method in methods]
    waits = Waits(session.transport)
    with pytest.raises(PutUnknown):
        await put_reserved(repository, WIDER, reservation)
    waited: dict[str, list[float]] = {}
    for where, method, seconds in waits.seen:
        if where == b.address and method in methods:
            waited.setdefault(method, []).append(seconds)
    # Messages with tensors go two at a time (the second not, if the first is lost before); neither they nor the
    # question for the verdict are sent again.
    assert list(waited) == list(methods)
    half_s = session.timeout_s / 2
    assert half_s / 4 < max(waited[methods[0]]) <= half_s
    assert len(waited[methods[0]]) <= (2 if methods[0] == "land" else 1)
    assert sum(waited["ask"]) <= half_s
    for interception in silent:
        interception.stop()


@evo_cluster(providers=2)
async def test_a_match_whose_home_is_silent_gives_way(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    session = repository.connection.session
    table = await session.directory.table()
    here, there = id_at(table, a.address, "here"), id_at(table, b.address, "there")
    await make(repository, chain(8), here, score=0.1)
    await make(repository, GRAPH, there, keep=False)
    (match,) = await repository.best_match([WIDER])
    assert match.model_id == there
    silent = [Intercept(b, repository, method, before="lose") for method in ("match", "ask")]
    reservation = await reserve(repository, WIDER, "child", match=match)
    assert reservation.ancestor is not None
    assert reservation.ancestor.model_id == here
    assert "gave no answer" in reservation.tried[there]
    for interception in silent:
        interception.stop()


@pytest.mark.long
@pytest.mark.processes
def test_a_frozen_provider(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("daskevo.client.suspect_providers.SILENCE_S", 1000.0)
    with (
        # Its shards stay with it, however long this takes.
        dask.config.set({"daskevo.silent-after": "600s"}),
        local_cluster(trainers=1, providers=2, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        repository = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
        connection = repository.connection
        table = connection.run(connection.session.directory.table)
        places = {place.name: place.address for place in table.places.values()}
        here, there = places["provider-0"], places["provider-1"]
        client.sync(make, repository, GRAPH, id_at(table, here, "first"), seed=1)
        pid = client.run(os.getpid, workers=[there])[there]
        waits = Waits(connection.session.transport)
        connection.session.directory.suspects.heard(there)  # on a busy machine it was slow once already
        os.kill(pid, signal.SIGSTOP)
        try:
            for number in range(3):
                reservation = client.sync(reserve, repository, WIDER, id_at(table, here, f"child{number}-"))
                assert reservation.ancestor is not None
                assert list(reservation.silent) == ["provider-1"]
                client.sync(put_reserved, repository, WIDER, reservation, seed=number, score=0.1)
            # As futures all must answer: who waits no longer lets go, and nothing of the query is left.
            query = repository.query_futures(WIDER)
            with pytest.raises(TimeoutError):
                query.result(timeout=1)
            query.release()
            wait_until(lambda: not any(str(key).startswith("daskevo-") for key in cluster.scheduler.tasks))
            assert [where for where, _, seconds in waits.seen if where == there and seconds > SILENT_TIMEOUT_S] == [
                there
            ]
        finally:
            os.kill(pid, signal.SIGCONT)
        # It is given a moment each time; a busy machine may take longer.
        wait_until(lambda: not repository.best_match(WIDER).partial)
        assert repository.verify().clean
