"""Kind 17: the coordinator's hooks in every way in which a task goes on: none raises, none waits, and counts are right.

Dask logs what a hook raises and goes on, so that nobody would see that a holder was missed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Event, wait

from daskevo_plugins.coordinator.plugin import CoordinatorPlugin
from tests.cluster.helpers import at_rest, chain, coordinator_of, evo_cluster, hold_in_task, make, open_here

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)
TRAIN = {"pure": False, "resources": {"evaluation": 1}}
HOOKS = ("transition", "add_worker", "remove_worker", "log_event", "valid_workers_downscaling", "remove_client")


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Count the calls of each hook; in the end, none of them has raised."""
    calls = dict.fromkeys(HOOKS, 0)
    raised: list[BaseException] = []

    def counted(name: str) -> Any:
        hook = getattr(CoordinatorPlugin, name)

        @functools.wraps(hook)
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            try:
                return hook(*arguments, **options)
            except BaseException as error:
                raised.append(error)
                raise

        return call

    for name in HOOKS:
        monkeypatch.setattr(CoordinatorPlugin, name, counted(name))
    yield calls
    assert raised == []


async def is_settled(s: Any, repository: Any, references: int, *providers: Any) -> None:
    """Wait until nobody is live, then compare what the repository counts with a count from scratch."""
    core = coordinator_of(s)._core
    while core.live():
        await asyncio.sleep(0.01)
    await at_rest(s, *providers)
    stats = await repository.stats()
    assert (stats["live_attempts"], stats["unsettled"], stats["references"]) == (0, 0, references)
    verification = await repository.verify()
    assert verification.clean, verification.differences


def test_cancelled_while_waiting_for_a_thread(hooks: dict[str, int]) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, provider: Any, trainer: Any) -> None:
        repository = await open_here(c, None)
        await make(repository, GRAPH, "first", seed=1)
        holding = c.submit(hold_in_task, repository, WIDER, "child", "return", **TRAIN)
        await Event("reserved-child").wait(timeout=120)
        # One waits for the trainer's resource, one for the other's result, one has been given to the worker.
        waiting = c.submit(hold_in_task, repository, WIDER, "late", "return", **TRAIN)
        depending = c.submit(lambda _, *rest: hold_in_task(*rest), holding, repository, WIDER, "last", "put", **TRAIN)
        while waiting.key not in s.tasks or depending.key not in s.tasks:
            await asyncio.sleep(0.01)
        before = (await repository.stats())["references"]
        await c.cancel([waiting, depending])
        assert {waiting.status, depending.status} == {"cancelled"}
        assert (await repository.stats())["references"] == before
        await Event("go").set()
        await wait([holding])
        await is_settled(s, repository, 1, provider)
        assert (await repository.status("late")).state == (await repository.status("last")).state == "unknown"
        assert coordinator_of(s)._keys == {}

    run()
    assert hooks["transition"] > 5


def test_a_result_that_is_lost_is_computed_again_and_stored_once(hooks: dict[str, int]) -> None:
    @evo_cluster(trainers=2)
    async def run(c: Any, s: Any, provider: Any, t0: Any, t1: Any) -> None:
        repository = await open_here(c, None)
        await make(repository, GRAPH, "first", seed=1)
        await Event("go").set()
        stored = c.submit(hold_in_task, repository, WIDER, "child", "put", **TRAIN)
        assert await stored == "mine"
        await is_settled(s, repository, 3, provider)
        # Its result goes with its worker; whoever wants it has the task run again, under the same key.
        (holder,) = (worker for worker in (t0, t1) if stored.key in worker.data)
        await holder.close()
        assert await stored == "other"
        assert s.tasks[stored.key].who_has
        await is_settled(s, repository, 3, provider)
        assert [model.model_id for model in await repository.models()] == ["first", "child"]
        assert (await repository.status("child")).labels == ("population:run",)

    run()
    assert hooks["remove_worker"]


def test_many_other_tasks_cost_little(hooks: dict[str, int]) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, provider: Any, trainer: Any) -> None:
        repository = await open_here(c, None)
        await make(repository, GRAPH, "first", seed=1)
        plugin = coordinator_of(s)
        await repository.stats()
        await c.gather(c.map(lambda number: number, range(150), pure=False))
        assert hooks["transition"] > 300
        # They leave nothing behind, and nothing is looked up for them.
        assert (plugin._core.live(), plugin._keys) == ({}, {})

    run()
