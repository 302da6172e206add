"""Reserving while the model is built: what is taken over, what is given back, and what is refused."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.errors import InvalidInput, InvalidName, ModelExists, UnknownModel
from daskevo.graph import ArchitectureGraph
from daskevo.repository import Repository
from daskevo.wire.transport import operation


@pytest.fixture
def repository(client: Any) -> Any:
    made = daskevo.open(None, f"e-{uuid.uuid4().hex[:8]}", client=client, objective="max score", shards=8)
    with made.inherit(build(), model_id=f"first-{made.scope}") as first:
        first.put(metrics={"score": 0.5})
    yield made
    for model in made.models(made.scope):
        made.retire(model.model_id)


def build(units: int = 3, width: int = 5) -> Any:
    import keras

    layers = keras.layers
    return keras.Sequential([keras.Input((4,)), layers.Dense(6, "relu"), layers.Dense(width), layers.Dense(units)])


def graph_of(*sizes: int) -> ArchitectureGraph:
    from daskevo.models import flatten, shape_only

    with shape_only():
        return flatten(build(*sizes)).graph


def nothing_is_held(repository: Repository, before: dict[str, Any]) -> None:
    after = repository.stats()
    assert after["references"] == before["references"]
    assert after["live_attempts"] == 0
    assert repository.verify().clean


def test_a_model_takes_over_what_was_reserved(repository: Repository) -> None:
    before = repository.stats()
    with repository.reserve(graph_of(2), model_id=f"early-{repository.scope}") as reserved:
        model = build(2)
        with repository.inherit(model, reserved=reserved, parent="somebody") as child:
            assert repository.stats()["live_attempts"] == 1
            assert repository.stats()["references"] > before["references"]
            assert child.ancestor == f"first-{repository.scope}"
            assert child.report.inherited_tensors == 4
            first = repository.load(child.ancestor).get_weights()
            for mine, theirs in zip(model.get_weights()[:4], first, strict=False):
                np.testing.assert_array_equal(mine, theirs)
            child.put(metrics={"score": 0.6})
    record = repository.record(f"early-{repository.scope}")
    assert (record.ancestor, record.parent) == (child.ancestor, "somebody")
    # The record is the built model's own: its names, not those of the graph that was asked with.
    assert [layer.name for layer in record.architecture.layers[1:]] == [layer.name for layer in model.layers]
    assert set(child.timings) >= {"wait_s", "match_s", "reserve_s"}
    assert repository.stats()["live_attempts"] == 0
    assert repository.verify().clean


def test_a_model_of_another_graph_is_asked_for_anew(repository: Repository) -> None:
    before = repository.stats()
    with repository.reserve(graph_of(2)) as reserved:
        model = build(3, 7)
        with repository.inherit(model, reserved=reserved) as child:
            # Two layers fit the graph that was asked with, one the model.
            assert child.report.inherited_tensors == 2
            assert child.model_id == reserved.model_id
            assert repository.stats()["live_attempts"] == 1
            with pytest.raises(InvalidInput, match="one model"), repository.inherit(build(2), reserved=reserved):
                pass
    nothing_is_held(repository, before)


def test_what_no_model_took_over_is_given_back(repository: Repository) -> None:
    before = repository.stats()
    with pytest.raises(ZeroDivisionError), repository.reserve(graph_of(2)):
        raise ZeroDivisionError
    nothing_is_held(repository, before)
    with repository.reserve(graph_of(2)) as reserved:
        while reserved.ready(reserved.graph) is None:
            pass
        assert repository.stats()["references"] > before["references"]
    nothing_is_held(repository, before)


def test_what_is_left_in_the_middle_is_given_back(
    repository: Repository, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider is asked, and has not answered when the block ends: nobody waits long for it."""
    before = repository.stats()
    asked, key = threading.Event(), operation("provider", repository.settings.key, "refer")
    workers = [worker for worker in client.cluster.workers.values() if key in worker.handlers]
    go_on: list[tuple[Any, asyncio.Event, threading.Event]] = []
    for worker in workers:

        async def slow(refer: Any = worker.handlers[key], worker: Any = worker, **arguments: Any) -> Any:
            event, done = asyncio.Event(), threading.Event()
            go_on.append((worker, event, done))
            asked.set()
            await event.wait()
            try:
                return await refer(**arguments)
            finally:
                done.set()

        monkeypatch.setitem(worker.handlers, key, slow)
    monkeypatch.setattr("daskevo.repository.early_reservation._PATIENCE_S", 0.01)
    with repository.reserve(graph_of(2)):
        assert asked.wait(120)
    monkeypatch.undo()
    for worker, event, done in go_on:
        worker.loop.add_callback(event.set)
        assert done.wait(120)
    while repository.stats()["unsettled"]:
        pass
    assert repository.verify(repair=True) is not None  # what was reserved after it was settled, the audit takes
    nothing_is_held(repository, before)


def test_errors_come_where_inherit_has_them(repository: Repository) -> None:
    before = repository.stats()
    with (
        repository.reserve(graph_of(2), model_id=f"first-{repository.scope}") as reserved,
        pytest.raises(ModelExists) as caught,
        repository.inherit(build(2), reserved=reserved),
    ):
        pass
    assert caught.value.record.quality == 0.5
    with (
        repository.reserve(graph_of(2), ancestor="nobody") as reserved,
        pytest.raises(UnknownModel),
        repository.inherit(build(2), reserved=reserved),
    ):
        pass
    with repository.reserve(graph_of(2), ancestor="nobody"):
        pass  # nobody hears of it
    nothing_is_held(repository, before)


def test_what_reserve_refuses(repository: Repository) -> None:
    with pytest.raises(InvalidName):
        repository.reserve(graph_of(2), model_id="../x")
    reserved = repository.reserve(build(2))
    with pytest.raises(InvalidInput, match="inside the with block"), repository.inherit(build(2), reserved=reserved):
        pass
    with reserved:
        for given in ({"ancestor": False}, {"model_id": "m"}, {"weights": "bytes"}):
            with pytest.raises(InvalidInput, match="give them to `reserve`"):
                repository.inherit(build(2), reserved=reserved, **given)
    with pytest.raises(InvalidInput, match="once"), reserved:
        pass


def test_an_asynchronous_client_reserves_early(client: Any, repository: Repository) -> None:
    from distributed import Client

    scope = repository.scope

    async def run() -> None:
        async with Client(client.scheduler.address, asynchronous=True) as other:
            mine = await daskevo.open(None, scope, client=other, objective="max score")
            async with mine.reserve(graph_of(2)) as reserved, mine.inherit(build(2), reserved=reserved) as child:
                assert child.ancestor == f"first-{scope}"
                await child.put(metrics={"score": 0.1})
            async with mine.reserve(graph_of(2)):
                pass
            async with mine.reserve(graph_of(2)) as reserved, mine.inherit(build(3, 7), reserved=reserved) as child:
                assert child.report.inherited_tensors == 2

    before = repository.stats()
    asyncio.run(run())
    assert repository.stats()["live_attempts"] == before["live_attempts"] == 0
    assert repository.verify().clean
