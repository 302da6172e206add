"""A root that another job takes: this cluster stops whatever it did for it, and can open it again once it is free."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import PutFailed, RepositoryTaken
from daskevo.store.lease import Holder, Lease, take_lease
from daskevo.store.root import Root
from tests.cluster.helpers import chain, coordinator_of, evo_cluster, make, open_here, plugin_of

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)
OTHER = Holder("Scheduler-other", "tcp://10.0.0.1:1", "job other")


def take(path: Path) -> Lease:
    """Take a root and all its shards as a job does that gets no answer from the one before."""
    root = Root.open(path)
    lease = take_lease(root, OTHER, lambda holder: None)
    for number in range(root.shards):
        folder = root.shard(number)
        opening = folder.open(lease.generation)
        folder.serve(opening.records)
        folder.close()
    return lease


def epochs(path: Path) -> list[str]:
    """Return what the shards' epoch files say."""
    return [file.read_text() for file in sorted(path.glob("shards/*/epoch"))]


async def beats(scheduler: Any, number: int) -> None:
    """Wait until the coordinator has heard so many signs of life more."""
    pulse = coordinator_of(scheduler)._registry._heartbeats
    heard: set[float] = set()
    while len(heard) <= number:
        heard.update(seen.heard for seen in pulse._seen.values())
        await asyncio.sleep(0.01)


@evo_cluster(config={"daskevo.silent-after": "1s"})
async def test_a_root_that_was_taken_and_given_back_is_opened_again_and_nothing_of_before_goes_on(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    repository = await open_here(c, root)
    await make(repository, GRAPH, "first")
    before = coordinator_of(s)
    other = take(root)
    with pytest.raises((PutFailed, RepositoryTaken)):
        await make(repository, WIDER, "late")
    while before._failure is None:
        await asyncio.sleep(0.01)
    with pytest.raises(RepositoryTaken, match="job other"):
        await repository.retire("first")
    other.check()
    other.release()
    # The first try opens it.
    again = await open_here(c, root)
    assert not before._background._tasks
    opened = epochs(root)
    await beats(s, 8)
    assert epochs(root) == opened
    await make(again, WIDER, "second")
    await make(repository, chain(8, 6, 7), "third")  # the handle from before goes on with the new coordinator
    assert sorted(model.model_id for model in await again.models()) == ["first", "second", "third"]
    assert (await again.verify()).clean


@evo_cluster()
async def test_who_opens_a_root_that_was_taken_unheard_of_is_told_who_has_it_now(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    await open_here(c, root)
    take(root).release()
    # Nobody has written since: no shard has found out.
    last = take_lease(Root.open(root), Holder("Scheduler-last", "tcp://10.0.0.1:2", "job last"), lambda holder: None)
    before = coordinator_of(s)
    last.release()
    repository = await open_here(c, root)
    assert before._failure is not None
    await make(repository, GRAPH, "first")
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_coordinator_that_is_past_has_no_shard_closed_or_opened(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    await open_here(c, tmp_path / "root")
    host, generation = plugin_of(a).host, coordinator_of(s)._core.generation
    served = dict(host.shards)
    await host.close_shards(list(served), generation - 1)
    answer = await host.open_shards(list(served), generation - 1, [])
    assert {kind for _, kind, _ in answer["failed"]} == {"ShardFenced"}
    assert host.shards == served


@evo_cluster()
async def test_a_coordinator_that_cannot_begin_gives_the_lease_back(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    Root.create(root, shards=8)
    (root / "scopes.json").write_text("damaged")
    with pytest.raises(Exception, match=r"scopes\.json is damaged"):
        await open_here(c, root)
    take_lease(Root.open(root), OTHER, lambda holder: pytest.fail("nobody has it"))
