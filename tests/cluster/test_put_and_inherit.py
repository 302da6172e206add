"""Inherit, put, read and retire between a client and providers in one process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from daskevo.client.model_reader import read_model
from daskevo.client.renewal import renew
from daskevo.errors import ModelExists, ModelLost, ModelRetired, UnknownModel
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.shard import Shard
from daskevo.provider import retire
from daskevo.provider.handlers import ProviderHandlers
from daskevo.provider.published_models import PublishedModels
from daskevo.types import ModelId
from tests.cluster.helpers import (
    at_rest,
    chain,
    evo_cluster,
    make,
    open_here,
    plugin_of,
    put_reserved,
    reserve,
    values,
)


@pytest.mark.parametrize("root", ["disk", "memory"])
def test_a_child_inherits_what_its_ancestor_stored(root: str, tmp_path: Any) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, *workers: Any) -> None:
        repository = await open_here(c, tmp_path / "root" if root == "disk" else None)
        graph, wider = chain(8, 6, 3), chain(8, 6, 5)
        await make(repository, graph, "first", seed=1)
        reservation = await reserve(repository, wider, "second")
        assert reservation.ancestor is not None
        assert reservation.ancestor.model_id == "first"
        first = values(graph, 1)
        assert set(reservation.arrays) == {0, 1, 2, 3}
        for number, array in reservation.arrays.items():
            np.testing.assert_array_equal(array, first[number])
            assert not array.flags.writeable
        stored = await put_reserved(repository, wider, reservation, seed=2)
        assert [entry.owner for entry in stored.record.owner_map.entries] == ["first"] * 4 + ["second"] * 2
        found = await read_model(repository.connection.session, repository.connection.caller(), stored.record)
        for number, array in {**values(wider, 2), **reservation.arrays}.items():
            np.testing.assert_array_equal(found[number], array)
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert (verification.models, verification.tensors) == (2, 8)

    run()


@evo_cluster(providers=2)
async def test_what_changed_is_stored_and_the_rest_given_back(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    graph = chain(8, 6)
    await make(repository, graph, "first", seed=1)
    reservation = await reserve(repository, graph, "second")
    bias = reservation.arrays[1] + 1
    stored = await put_reserved(repository, graph, reservation, tensors={1: bias})
    assert [entry.owner for entry in stored.record.owner_map.entries] == ["first", "second", "first", "first"]
    assert [entry.steps for entry in stored.record.owner_map.entries] == [1, 2, 1, 1]
    assert (await repository.stats())["references"] == 3  # first's own, second's own, second's at first
    assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_after_the_last_label_nothing_is_left(c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    for number in range(5):
        await make(repository, chain(8, 6, 3 + number), f"m{number}", seed=number, labels=["population:run"])
    released, retired = await repository.release_label("population:run")
    assert sorted(released) == sorted(retired) == [f"m{number}" for number in range(5)]
    await at_rest(s, a, b)
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert (verification.models, verification.tensors, verification.payload_bytes) == (0, 0, 0)
    stats = await repository.stats()
    assert (stats["tensors"], stats["payload_bytes"], stats["references"], stats["models"]) == (0, 0, 0, 0)
    assert not list((tmp_path / "root").rglob("*.seg"))
    assert await repository.best_match([chain(8)]) == [None]


@evo_cluster(providers=2)
async def test_stats_count_what_was_retired_before_as_gone(
    c: Any, s: Any, a: Any, b: Any, t: Any, monkeypatch: Any
) -> None:
    real = retire.retire

    async def late(*arguments: Any) -> None:
        await asyncio.sleep(0.1)
        await real(*arguments)

    monkeypatch.setattr(retire, "retire", late)
    repository = await open_here(c, None)
    await make(repository, chain(8, 6, 3), "first", seed=1)
    await put_reserved(repository, chain(8, 6, 5), await reserve(repository, chain(8, 6, 5), "second"), seed=2)
    await repository.retire(ModelId("first"))
    await repository.retire(ModelId("second"))
    assert (await repository.stats())["payload_bytes"] == 0


@evo_cluster()
async def test_tensors_of_a_retired_ancestor_stay_for_its_child(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    graph = chain(8, 6)
    await make(repository, graph, "first", seed=1)
    await make(repository, graph, "second", score=0.9)
    assert await repository.retire("first") == ()
    with pytest.raises(ModelRetired):
        await repository.record("first")
    found = await repository.read("second")
    np.testing.assert_array_equal(found[1, 0], values(graph, 1)[0])
    assert (await repository.stats())["retained_bytes"] == graph.nbytes
    assert [record.model_id for record in await repository.lineage("second")] == ["second", "first"]
    await repository.retire("second")
    await at_rest(s, a)
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert (verification.models, verification.tensors, verification.payload_bytes) == (0, 0, 0)


@evo_cluster(providers=2)
async def test_an_ancestor_that_is_retired_during_inherit_gives_way_to_the_next(
    c: Any, s: Any, a: Any, b: Any, t: Any
) -> None:
    repository = await open_here(c, None)
    graph = chain(8, 6)
    await make(repository, graph, "good", seed=1, score=0.9)
    await make(repository, chain(8, 3), "other", seed=2, keep=False, score=0.1)
    (match,) = await repository.best_match([graph])
    assert match.model_id == "good"
    await repository.retire("good")
    await at_rest(s, a, b)
    reservation = await reserve(repository, graph, "child", match=match)
    assert reservation.ancestor is not None
    assert reservation.ancestor.model_id == "other"
    assert list(reservation.tried) == ["good"]
    await put_reserved(repository, graph, reservation)
    assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_an_ancestor_whose_shard_is_being_opened_is_waited_for(
    c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # While a shard is opened, its models are in the index before anybody serves their records.
    leaving, indexed, matched = threading.Event(), threading.Event(), threading.Event()
    index_shard, match = PublishedModels.index_shard, ProviderHandlers.match

    def index_and_wait(self: PublishedModels, shard: Any, summaries: Any) -> None:
        index_shard(self, shard, summaries)
        if leaving.is_set() and names[-1] in summaries:
            indexed.set()
            assert matched.wait(60)

    async def match_and_say(self: ProviderHandlers, **arguments: Any) -> Any:
        answer = await match(self, **arguments)
        if indexed.is_set():
            matched.set()
        return answer

    monkeypatch.setattr(PublishedModels, "index_shard", index_and_wait)
    monkeypatch.setattr(ProviderHandlers, "match", match_and_say)
    names = ["first", "best"]
    repository = await open_here(c, tmp_path / "root")
    graph = chain(8, 6)
    for number, name in enumerate(names):
        await make(repository, graph, name, seed=number, score=number / 100)
    directory = repository.connection.session.directory
    shard = await directory.shard_of(ModelId(names[-1]))
    leaving.set()
    await (a if shard in plugin_of(a).host.shards else b).close()
    while not indexed.is_set() or (await directory.refresh()).places[shard] is not None:
        await asyncio.sleep(0.01)
    child = await reserve(repository, graph, "child")
    assert child.ancestor is not None
    assert (child.ancestor.model_id, child.tried) == (names[-1], {})


@evo_cluster()
async def test_retiring_the_ancestor_while_its_child_trains(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    graph = chain(8, 6)
    await make(repository, graph, "first", seed=1)
    reservation = await reserve(repository, graph, "child")
    await repository.retire("first")
    await at_rest(s, a)
    assert (await repository.stats())["retained_bytes"] == graph.nbytes
    stored = await put_reserved(repository, graph, reservation)
    assert stored.record.owner_map.owners == {"first": frozenset(range(4))}
    np.testing.assert_array_equal((await repository.read("child"))[2, 1], values(graph, 1)[3])
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_new_attempt_reserves_what_is_still_there(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    graph, wider = chain(8, 6), chain(8, 6, 5)
    await make(repository, graph, "first", seed=1)
    connection = repository.connection
    reservations = [await reserve(repository, wider, name) for name in ("one", "two")]
    for reservation in reservations:
        await connection.session.end(reservation.attempt, settled=False)
    await at_rest(s, a)
    again = await renew(connection.session, connection.caller(), reservations[0])
    assert again.attempt > reservations[0].attempt
    assert again.entries == reservations[0].entries
    stored = await put_reserved(repository, wider, again)
    assert len(stored.record.own) == 2
    for name in ("first", "one"):
        await repository.retire(name)
    await at_rest(s, a)
    alone = await renew(connection.session, connection.caller(), reservations[1])
    assert alone.entries == {}
    stored = await put_reserved(repository, wider, alone)
    assert len(stored.record.own) == 6
    np.testing.assert_array_equal((await repository.read("two"))[1, 0], values(graph, 1)[0])
    assert (await repository.verify()).clean


@pytest.mark.parametrize("changed", [(0, 1, 2, 3), (3,)])
def test_an_attempt_that_is_over_keeps_no_tensor_that_is_another_now(changed: tuple[int, ...]) -> None:
    """As after the loss of a shard in memory, when another model was stored under the id of the one that was lost."""

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, None)
        graph, wider = chain(8, 6, 3), chain(8, 6, 5)
        await make(repository, graph, "first", seed=1)
        connection, number = repository.connection, shard_of(ModelId("first"), 8)
        reservation = await reserve(repository, wider, "child")
        await connection.session.end(reservation.attempt, settled=False)
        await at_rest(s, a)
        host = plugin_of(a).host
        host.models.index.remove(ModelId("first"))
        host.shards[number].shard = Shard(number, host.shards[number].shard.state.generation)
        tensors = {**values(graph, 1), **{tensor: values(graph, 9)[tensor] for tensor in changed}}
        await make(repository, graph, "first", tensors=tensors)
        again = await renew(connection.session, connection.caller(), reservation)
        assert set(again.entries) == {0, 1, 2, 3} - set(changed)
        stored = await put_reserved(repository, wider, again, seed=2)
        assert set(stored.record.own) == {*changed, 4, 5}
        found = await repository.read("child")
        np.testing.assert_array_equal(found[2, 1], values(graph, 1)[3])
        verification = await repository.verify()
        assert verification.clean, verification.differences

    run()


@evo_cluster()
async def test_a_prefix_without_weights_is_no_inheritance(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, chain(8), "first")
    reservation = await reserve(repository, chain(3), "second")
    assert reservation.ancestor is not None  # the best match: it shares the input
    assert (len(reservation.prefix.vertices), reservation.entries) == (1, {})
    stored = await put_reserved(repository, chain(3), reservation)
    assert stored.record.ancestor is None
    assert [record.model_id for record in await repository.lineage("second")] == ["second"]
    child = await make(repository, chain(3, 2), "third")
    assert child.record.ancestor == "second"


@evo_cluster()
async def test_ids_are_never_used_again(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    graph = chain(8)
    await make(repository, graph, "first")
    reservation = await reserve(repository, graph, "first")
    with pytest.raises(UnknownModel):
        await repository.record("second")
    again = await put_reserved(repository, graph, reservation, seed=9, score=0.1)
    assert again.by_other
    assert again.record.quality == 0.5
    await repository.retire("first")
    with pytest.raises(ModelExists):
        await make(repository, graph, "first")
    assert (await repository.status(ModelId("first"))).state in ("retiring", "retired")
    assert (await repository.verify()).clean


@pytest.mark.parametrize("where", ["apart", "same process"])
@pytest.mark.parametrize("what", ["values", "shape", "never heard of"])
def test_tensors_that_are_not_those_inherited_are_never_returned(what: str, where: str) -> None:
    """As after a loss, when another model was stored under the id of the one that was lost."""

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, None)
        graph, wider = chain(8, 6, 3), chain(8, 6, 5)
        await make(repository, chain(8), "other", seed=3, score=0.1)
        alone = await reserve(repository, graph, "first", ancestor=False)
        await put_reserved(repository, graph, alone, seed=1)
        second = await make(repository, wider, "second", seed=2, score=0.9)
        host = plugin_of(a).host
        number = shard_of(ModelId("first"), 8)
        state = host.shards[number].shard.state
        host.shards[number].shard = Shard(number, state.generation)
        if what != "never heard of":
            another = graph if what == "values" else chain(9, 6, 3)
            alone = await reserve(repository, another, "first", ancestor=False)
            await put_reserved(repository, another, alone, seed=7)
        host.models.index.remove(ModelId("first"))
        if where == "same process":
            repository.connection.session.transport.provider = plugin_of(a).transport.provider
        with pytest.raises(ModelLost, match="'second' can't be read: it inherits from 'first'"):
            await repository.read("second")
        assert second.record.owner_map.entries[0].owner == "first"
        reservation = await reserve(repository, wider, "third")
        assert "first" in reservation.tried["second"]
        assert reservation.ancestor is None or reservation.ancestor.model_id == "other"
        if where == "apart" and what != "never heard of":
            with pytest.raises(ModelRetired, match="tensor 0 of 'first' is another"):
                await reserve(repository, wider, "fourth", ancestor="second")

    run()


@pytest.mark.parametrize("how", ["forgotten", "with its provider"])
def test_a_model_whose_own_tensors_are_gone_inherits_from_nobody(how: str) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, None)
        stored = await make(repository, chain(8, 6), "alone")
        home = shard_of(ModelId("alone"), 8)
        workers = {worker: plugin_of(worker).host for worker in (a, b)}
        holder, host = next((worker, host) for worker, host in workers.items() if home in host.shards)
        if how == "with its provider":
            await holder.close()
            while home not in (await repository.connection.session.directory.refresh()).lost:
                await asyncio.sleep(0.01)
        else:
            # Its record is there, and none of its tensors.
            host.shards[home].shard.state.references.alive.clear()
        with pytest.raises(ModelLost, match="'alone' can't be read: its own tensors") as caught:
            await read_model(repository.connection.session, repository.connection.caller(), stored.record)
        assert "inherits" not in str(caught.value)

    run()
