"""Attempts end with their holders, however a task or client ends; what they had reserved is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from distributed import Client, Event, wait

from daskevo.client.session import Caller, Session
from daskevo.errors import AttemptOver, PutFailed
from daskevo.protocol.holders import ClientHolder, TaskHolder
from daskevo_plugins.coordinator.plugin import CoordinatorPlugin
from tests.cluster.helpers import (
    at_rest,
    chain,
    coordinator_of,
    evo_cluster,
    hold_in_task,
    make,
    open_here,
    put_reserved,
    reserve,
)

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


async def reserved_in_task(c: Any, repository: Any, then: str, **options: Any) -> Any:
    """Submit a task that inherits from "first", and wait until it has; nobody else has an attempt then."""
    await repository.connection.session.outbox.sent()
    future = c.submit(
        hold_in_task, repository, WIDER, "child", then, pure=False, resources={"evaluation": 1}, **options
    )
    await Event("reserved-child").wait(timeout=120)
    return future


async def nothing_left(s: Any, repository: Any, *providers: Any) -> None:
    """Wait until the task's attempt is settled, and see that it has left nothing."""
    core = coordinator_of(s)._core
    while core.live():
        await asyncio.sleep(0.01)
    await at_rest(s, *providers)
    assert (await repository.stats())["references"] == 1  # first's own
    verification = await repository.verify()
    assert verification.clean, verification.differences


@pytest.mark.parametrize("way", ["returns", "raises", "is cancelled", "is released", "loses its worker", "reschedules"])
def test_a_task_that_ends_without_a_put_leaves_nothing(way: str) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, provider: Any, trainer: Any) -> None:
        repository = await open_here(c, None)
        await make(repository, GRAPH, "first", seed=1)
        then = {"raises": "raise", "reschedules": "reschedule"}.get(way, "return")
        future = await reserved_in_task(c, repository, then)
        (holder,) = {holder for holder, _ in coordinator_of(s)._core.live().values()}
        assert isinstance(holder, TaskHolder)
        assert (holder.key, holder.worker) == (future.key, trainer.address)
        assert (await repository.stats())["references"] == 2
        if way == "is cancelled":
            await c.cancel([future])
        elif way == "is released":
            future.release()
        elif way == "loses its worker":
            await trainer.close(executor_wait=False)
        elif way == "reschedules":
            await Event("reserved-child").clear()
            await Event("go").set()
            # The same key runs again: another run, another holder, another attempt.
            await Event("reserved-child").wait(timeout=120)
            (again,) = {holder for holder, _ in coordinator_of(s)._core.live().values()}
            assert (again.key, again.run_id != holder.run_id) == (holder.key, True)
            await c.cancel([future])
        else:
            await Event("go").set()
            await wait([future])
            assert future.status == ("error" if way == "raises" else "finished")
        await nothing_left(s, repository, provider)
        await Event("go").set()

    run()


@evo_cluster()
async def test_a_cancelled_task_that_goes_on_cannot_publish(c: Any, s: Any, provider: Any, trainer: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    future = await reserved_in_task(c, repository, "put")
    key = future.key
    assert trainer.state.tasks[key].state == "executing"
    await c.cancel([future])
    await nothing_left(s, repository, provider)
    await Event("go").set()
    while trainer.active_threads:
        await asyncio.sleep(0.01)
    assert (await repository.status("child")).state == "unknown"
    await nothing_left(s, repository, provider)


@evo_cluster(trainers=2)
async def test_a_task_that_runs_twice_stores_once(c: Any, s: Any, provider: Any, t0: Any, t1: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    futures = [
        c.submit(hold_in_task, repository, WIDER, "child", "put", pure=False, resources={"evaluation": 1})
        for _ in range(2)
    ]
    core = coordinator_of(s)._core
    await repository.connection.session.outbox.sent()  # the end of first's
    while len(core.live()) < 2:
        await asyncio.sleep(0.01)
    await Event("go").set()
    assert sorted(await c.gather(futures)) == ["mine", "other"]
    standing = await repository.status("child")
    assert standing.labels == ("population:run",)
    assert (await repository.stats())["references"] == 3  # each one's own, and child's at first
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_client_that_leaves_gives_back(c: Any, s: Any, provider: Any, trainer: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    async with Client(s.address, asynchronous=True) as other:
        theirs = await open_here(other, None)
        await reserve(theirs, WIDER, "child")
        assert (await repository.stats())["references"] == 2
    await nothing_left(s, repository, provider)


@evo_cluster()
async def test_an_attempt_that_was_ended_cannot_put_but_a_new_one_can(
    c: Any, s: Any, provider: Any, trainer: Any
) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    reservation = await reserve(repository, WIDER, "child")
    await repository.connection.session.end(reservation.attempt, settled=False)
    await nothing_left(s, repository, provider)
    with pytest.raises(PutFailed):
        await put_reserved(repository, WIDER, reservation)
    await nothing_left(s, repository, provider)
    await make(repository, WIDER, "child")


def begin_as(repository: Any, holder: Any) -> bool:
    """Try to begin an attempt as somebody else."""
    connection = repository.connection
    try:
        connection.run(connection.session.begin, Caller(holder, holder.key), None)
    except AttemptOver:
        return False
    return True


@evo_cluster()
async def test_only_the_run_that_the_scheduler_knows_can_begin(c: Any, s: Any, provider: Any, trainer: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    future = await reserved_in_task(c, repository, "return")
    task = s.tasks[future.key]
    right = TaskHolder(future.key, task.run_id, trainer.address)
    wrong = [
        TaskHolder(future.key, task.run_id + 1, trainer.address),
        TaskHolder(future.key, task.run_id, provider.address),
        TaskHolder("no such task", task.run_id, trainer.address),
    ]
    for holder, expected in [(right, True), *((holder, False) for holder in wrong)]:
        assert await c.submit(begin_as, repository, holder, pure=False, workers=[provider.address]) is expected
    await Event("go").set()
    await future
    assert not await c.submit(begin_as, repository, right, pure=False, workers=[provider.address])
    await nothing_left(s, repository, provider)


async def break_connection(c: Any, s: Any) -> None:
    """Break a client's connection off at the scheduler, and wait until Dask has connected it again under its id."""
    before = s.clients[c.id]
    s.client_comms[c.id].comm.abort()
    # Dask calls two states of one client equal.
    while s.clients.get(c.id) is None or s.clients[c.id] is before or c.status != "running":
        await asyncio.sleep(0.01)


@evo_cluster()
async def test_a_client_whose_connection_broke_goes_on_and_its_attempts_from_before_are_over(
    c: Any, s: Any, provider: Any, trainer: Any
) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    await repository.connection.session.outbox.sent()
    before = await reserve(repository, WIDER, "before")
    for number in range(2):
        await break_connection(c, s)
        await nothing_left(s, repository, provider)
        with pytest.raises(PutFailed):
            await put_reserved(repository, WIDER, before)
        assert await repository.read("first")
        reservation = await reserve(repository, WIDER, f"after-{number}")
        assert reservation.ancestor is not None
        await put_reserved(repository, WIDER, reservation)
        await repository.retire(f"after-{number}")
        await at_rest(s, provider)
    await make(repository, WIDER, "before")
    assert (await repository.verify()).clean


@evo_cluster()
async def test_nothing_is_kept_of_clients_that_left(c: Any, s: Any, provider: Any, trainer: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    for number in range(2):
        async with Client(s.address, asynchronous=True) as other:
            await reserve(await open_here(other, None), WIDER, f"other-{number}")
    while set(s.clients) - {"fire-and-forget"} != {c.id}:
        await asyncio.sleep(0.01)
    assert set(coordinator_of(s)._connections) == {c.id}
    await make(repository, WIDER, "second")


@evo_cluster()
async def test_ends_that_no_hook_has_told_are_found_by_an_audit(
    c: Any, s: Any, provider: Any, trainer: Any, monkeypatch: Any
) -> None:
    def broken(self: Any, *arguments: Any, **options: Any) -> None:
        raise RuntimeError("a hook that fails")

    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    monkeypatch.setattr(CoordinatorPlugin, "transition", broken)
    monkeypatch.setattr(CoordinatorPlugin, "remove_client", broken)
    future = await reserved_in_task(c, repository, "return")
    async with Client(s.address, asynchronous=True) as other:
        await reserve(await open_here(other, None), WIDER, "others")
        assert (await repository.stats())["references"] == 3
        # Whoever is live is left alone.
        await repository.verify()
        assert (await repository.stats())["references"] == 3
    await Event("go").set()
    await wait([future])
    await repository.verify()
    await nothing_left(s, repository, provider)
    assert coordinator_of(s)._keys == {}


@evo_cluster()
async def test_ends_that_no_hook_has_told_are_found_now_and_then(
    c: Any, s: Any, provider: Any, trainer: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("daskevo_plugins.coordinator.plugin._COMPARE_EVERY_S", 0.05)
    monkeypatch.setattr(CoordinatorPlugin, "transition", lambda *arguments, **options: None)
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", seed=1)
    future = await reserved_in_task(c, repository, "return")
    await Event("go").set()
    await wait([future])
    await nothing_left(s, repository, provider)


def test_a_client_that_is_being_connected_again_asks_until_it_is_known() -> None:
    replies: list[Any] = [None, None, [1, 7], None, [1, 8]]

    class Scheduler:
        async def coordinator(self, method: str, **arguments: Any) -> Any:
            return replies.pop(0)

    async def run() -> None:
        session = Session(Scheduler(), 60)  # type: ignore[arg-type]
        assert await session.begin(Caller(ClientHolder("Client-1")), None) == (1, 7)
        with pytest.raises(AttemptOver):
            await session.begin(Caller(TaskHolder("train", 1, "tcp://10.0.0.1:1")), None)

    asyncio.run(run())
