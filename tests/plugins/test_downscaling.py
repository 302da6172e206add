"""A cluster that becomes smaller, as `cluster.adapt()` makes it, loses no provider and no evaluation."""

from __future__ import annotations

from typing import Any

from distributed import Event

from tests.cluster.helpers import chain, evo_cluster, make, open_here


@evo_cluster(providers=2, trainers=2)
async def test_only_trainers_without_a_task_are_closed(c: Any, s: Any, a: Any, b: Any, t: Any, u: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, chain(8), "first")
    assert set(s.workers_to_close(target=0)) == {t.address, u.address}
    event = Event("go")
    task = c.submit(event.wait, workers=[t.address], resources={"evaluation": 1}, pure=False)
    while not s.workers[t.address].processing:
        await event.wait(timeout=0.01)
    assert s.workers_to_close(target=0) == [u.address]
    assert await s.retire_workers(names=s.workers_to_close(target=0, attribute="name"))
    await event.set()
    await task
    assert set(s.workers) == {a.address, b.address, t.address}
    verification = await repository.verify()
    assert (verification.clean, verification.models) == (True, 1)
