"""Opening: idempotent, several repositories on one cluster, and what is wrong is said with what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Scheduler

import daskevo
from daskevo.deploy import settings
from daskevo.errors import (
    ClusterError,
    DurabilityMismatch,
    InvalidInput,
    InvalidName,
    NoProvider,
    NotDeployed,
    RepositoryTaken,
    RootUnusable,
    SchedulerUnreachable,
    ScopeMismatch,
    VersionMismatch,
)
from daskevo.store.root import Root
from daskevo.wire.transport import withdraw
from tests.cluster.helpers import chain, coordinator_of, evo_cluster, make, open_here, plugin_of

GRAPH = chain(8, 6)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_goes_while_the_plugin_is_sent_does_not_fail_the_opening(moment: str, monkeypatch: Any) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        real = s.broadcast

        async def broadcast(*, msg: Any, workers: Any, **options: Any) -> Any:
            if workers != [b.address]:
                return await real(msg=msg, workers=workers, **options)
            if moment == "after":
                await real(msg=msg, workers=workers, **options)
            await b.close()
            return {b.address: OSError("Timed out trying to connect to tcp://127.0.0.1:1")}

        monkeypatch.setattr(s, "broadcast", broadcast)
        await make(await open_here(c, None), GRAPH, "first")
        assert len(plugin_of(a).host.shards) == 8

    run()


@evo_cluster(providers=2)
async def test_a_worker_that_went_before_it_was_checked_is_not_waited_for(
    c: Any, s: Any, a: Any, b: Any, t: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("daskevo.deploy.deployment._PAUSES_S", (0.01, 0.1))
    real, asked = s.handlers["identity"], []

    async def identity(**keywords: Any) -> Any:
        answer = real(**keywords)
        if keywords.get("n_workers") == -1 and not asked:
            asked.append(answer)
            await b.close()  # and the list still has it
        return answer

    s.handlers["identity"] = identity
    await make(await open_here(c, None), GRAPH, "first")
    assert asked


@evo_cluster()
async def test_a_worker_that_stays_silent_is_named(c: Any, s: Any, a: Any, t: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("daskevo.deploy.deployment._PAUSES_S", (0.01,))
    monkeypatch.setattr("daskevo_plugins.provider.serve", lambda *arguments: None)
    with pytest.raises(ClusterError, match="did not answer while the repository was opened"):
        await open_here(c, None, timeout_s=14)


@evo_cluster(providers=2)
async def test_opening_again_keeps_what_is_there(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    first, second = await asyncio.gather(open_here(c, None), open_here(c, None))
    await make(first, GRAPH, "first")
    third = await open_here(c, None)
    for repository in (second, third):
        assert [model.model_id for model in await repository.models()] == ["first"]
    assert len([name for name in s.plugins if name.startswith("daskevo-coordinator")]) == 1


@evo_cluster()
async def test_repositories_on_one_cluster_are_apart(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    one, two = await open_here(c, tmp_path / "one"), await open_here(c, tmp_path / "two")
    await make(one, GRAPH, "first")
    assert await two.models() == []
    assert await two.best_match([GRAPH]) == [None]


@evo_cluster()
async def test_scopes_are_apart_and_keep_their_objective(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    for root in (None, tmp_path / "root"):
        one = await open_here(c, root, "one")
        other = await open_here(c, root, "two", objective=None)
        await make(one, GRAPH, "first")
        assert await other.best_match([GRAPH]) == [None]
        assert str((await open_here(c, root, "one", objective=None)).objective) == "max score"
        with pytest.raises(ScopeMismatch):
            await open_here(c, root, "one", objective="min loss")


@evo_cluster()
async def test_scopes_that_are_declared_at_the_same_time_are_all_kept(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    await open_here(c, root)
    await asyncio.gather(*(open_here(c, root, f"scope-{number}") for number in range(20)))
    asked = [open_here(c, root, "one", objective=f"max {metric}") for metric in ("auc", "accuracy")]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sorted(isinstance(outcome, ScopeMismatch) for outcome in outcomes) == [False, True]
    (stored,) = (outcome for outcome in outcomes if not isinstance(outcome, ScopeMismatch))
    expected = {"test": "max score", "one": str(stored.objective)}
    assert Root.open(root).scopes() == expected | {f"scope-{number}": "max score" for number in range(20)}


@evo_cluster()
async def test_a_root_that_was_removed_is_made_anew_on_the_same_cluster(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    before = await open_here(c, root, "one")
    await make(before, GRAPH, "first")
    for shards in (8, 4):
        shutil.rmtree(root)
        again = await open_here(c, root, "one", shards=shards, objective="min loss")
        assert (await again.models(), await before.models()) == ([], [])
        for number in range(12):
            await make(again, GRAPH, f"m{number}")
        assert len(await again.models()) == len(await before.models()) == 12
        assert (await again.verify()).clean
    # No repository where one was may be a file system that is not mounted: nothing is made there.
    shutil.rmtree(root)
    root.mkdir()
    with pytest.raises(RootUnusable, match="remove the folder"):
        await open_here(c, root, "one")
    assert list(root.iterdir()) == []
    root.rmdir()
    await make(await open_here(c, root, "one"), GRAPH, "first")


@evo_cluster(providers=0, trainers=2)
async def test_without_a_provider(c: Any, s: Any, a: Any, b: Any) -> None:
    with pytest.raises(NoProvider, match=f"`dask worker {s.address} --resources provider=1 --nthreads 4`"):
        await open_here(c, None)


@evo_cluster()
async def test_another_version_on_the_cluster(c: Any, s: Any, a: Any, t: Any, monkeypatch: Any) -> None:
    real = settings.versions()
    monkeypatch.setattr("daskevo.repository.open.versions", lambda: {**real, "daskevo": "99.0"})
    monkeypatch.setattr("daskevo.deploy.deployment.versions", lambda: {**real, "daskevo": "99.0"})
    with pytest.raises(VersionMismatch, match=r"99\.0") as caught:
        await open_here(c, None)
    assert caught.value.found == {name: real[name] for name in settings.COMPARED}
    monkeypatch.undo()
    # What failed leaves nothing in the way of the next try.
    await make(await open_here(c, None), GRAPH, "first")


@evo_cluster()
async def test_another_version_on_a_worker(c: Any, s: Any, a: Any, t: Any, monkeypatch: Any) -> None:
    def check(theirs: Any, where: str, **options: Any) -> None:
        raise VersionMismatch(f"{where} runs daskevo 0.0", client=theirs, found={}, where=where)

    monkeypatch.setattr("daskevo_plugins.provider.check_versions", check)
    with pytest.raises(VersionMismatch, match="worker"):
        await open_here(c, None)


@pytest.mark.parametrize("package", ["keras", "tensorflow"])
def test_trainers_whose_graphs_may_be_others(package: str, monkeypatch: Any) -> None:
    real = settings.versions()
    assert real.keys() == {"daskevo", "python", "keras", "tensorflow"}

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        for there in (lambda: {**real, package: "1.0"}, lambda: {n: v for n, v in real.items() if n != package}):
            monkeypatch.setattr(settings, "versions", there)
            with pytest.raises(
                VersionMismatch, match=rf"client runs .*{package} {real[package]}.* but worker"
            ) as caught:
                await open_here(c, None)
            assert t.address in caught.value.where
            assert caught.value.found[package] == there().get(package, "none")
        # A client that builds no model has no say in it.
        monkeypatch.setattr("daskevo.repository.open.versions", lambda: {n: real[n] for n in settings.COMPARED})
        monkeypatch.setattr("daskevo.deploy.deployment.versions", lambda: {n: real[n] for n in settings.COMPARED})
        await make(await open_here(c, None), GRAPH, "first")

    run()


@evo_cluster()
async def test_a_root_that_a_worker_does_not_see(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    real = os.access
    monkeypatch.setattr("os.access", lambda path, mode: "shards" not in str(path) and real(path, mode))
    with pytest.raises(RootUnusable, match=r"worker .* does not see the root"):
        await open_here(c, tmp_path / "root")
    monkeypatch.undo()
    await make(await open_here(c, tmp_path / "root"), GRAPH, "first")


@evo_cluster()
async def test_a_root_that_cannot_be_made(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RootUnusable):
        await open_here(c, tmp_path / "file" / "root")


@evo_cluster()
async def test_a_root_that_another_job_has_open(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    await make(await open_here(c, tmp_path / "root"), GRAPH, "first")
    async with (
        Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as second,
        Client(second.address, asynchronous=True) as other,
    ):
        with pytest.raises(RepositoryTaken) as caught:
            await open_here(other, tmp_path / "root")
    assert caught.value.address == s.address


@evo_cluster()
async def test_the_same_root_by_another_path(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    await make(await open_here(c, tmp_path / "root"), GRAPH, "first")
    (tmp_path / "link").symlink_to(tmp_path / "root")
    with pytest.raises(RepositoryTaken, match="another path"):
        await open_here(c, tmp_path / "link")


@evo_cluster()
async def test_a_memory_budget_that_would_pause_the_workers(c: Any, s: Any, a: Any, t: Any) -> None:
    with pytest.raises(InvalidInput, match="pauses"):
        await open_here(c, None, memory=0.9)


@evo_cluster()
async def test_a_scheduler_that_is_gone(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await s.close()
    with pytest.raises(SchedulerUnreachable):
        await repository.connection.session.tick()
    with pytest.raises(SchedulerUnreachable):
        await open_here(c, None, timeout_s=0.5)


@evo_cluster()
async def test_a_cluster_without_the_plugins(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    withdraw(s.handlers, "coordinator", repository.settings.key)
    with pytest.raises(NotDeployed, match=r"daskevo\.open"):
        await repository.hold("first", "user:me")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"scope": "../x"}, InvalidName),
        ({"scope": ""}, InvalidName),
        ({"scope": "x" * 10_000}, InvalidName),
        ({"shards": 0}, InvalidInput),
        ({"shards": True}, InvalidInput),
        ({"shards": 4097}, InvalidInput),
        ({"durability": "maybe"}, InvalidInput),
        ({"durability": "synced", "root": None, "client": object()}, InvalidInput),
        ({"memory": -1}, InvalidInput),
        ({"timeout_s": 0}, InvalidInput),
        ({"objective": "more auc"}, InvalidInput),
        ({"root": 7}, InvalidInput),
        ({"root": None}, InvalidInput),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        daskevo.open(**{"root": "/tmp/none", "client": None, **arguments})


@evo_cluster()
async def test_a_second_open_keeps_the_durability_of_the_root(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root", durability="synced")
    assert (await repository.stats())["durability"] == "synced"
    again = await open_here(c, tmp_path / "root")
    assert (await again.stats())["durability"] == "synced"
    assert plugin_of(a).host.shards[0].folder._sync
    # Coordinator and providers are there already: it is refused all the same, as it is without a cluster.
    with pytest.raises(DurabilityMismatch, match=r"'written' was asked for, .* made with 'synced'"):
        await open_here(c, tmp_path / "root", durability="written")
    with pytest.raises(DurabilityMismatch):
        daskevo.open(tmp_path / "root", durability="written")


HOSTILE = ["../x", "", "x" * 10_000, "a\x00b", "a\nb", "a/b", ".hidden", 7, None, b"bytes"]


@evo_cluster()
async def test_hostile_ids_and_labels(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    for name in HOSTILE:
        for call in (
            repository.load,
            repository.read,
            repository.record,
            repository.status,
            repository.retire,
            repository.lineage,
            repository.contributors,
            lambda name: repository.hold(name, "user:me"),
            lambda name: repository.release(name, "user:me"),
            lambda name: repository.common_ancestor(name, "first"),
        ):
            with pytest.raises(InvalidName):
                await call(name)
    for label in ["", "no kind", "user:", "x" * 500, "user:a\nb", 7, None]:
        for call in (repository.release_label, lambda label: repository.hold("first", label)):
            with pytest.raises(InvalidName):
                await call(label)


def test_get_repository_outside_a_task() -> None:
    with pytest.raises(NotDeployed, match="inside a Dask task"):
        daskevo.get_repository()


def scope_of_the_task() -> list[Any]:
    repository = daskevo.get_repository()
    return [repository.scope, str(repository.objective), daskevo.get_repository("two").scope, repository.models()]


@evo_cluster(combined=1, providers=0, trainers=0)
async def test_get_repository_in_a_task(c: Any, s: Any, both: Any) -> None:
    with pytest.raises(NotDeployed):
        await c.submit(scope_of_the_task, pure=False)
    await open_here(c, None, "one")
    assert await c.submit(scope_of_the_task, pure=False) == ["one", "max score", "two", []]


@evo_cluster()
async def test_closing_while_shards_are_opened_says_nothing(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any, caplog: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    host = plugin_of(a).host
    generation = (await repository.stats())["generation"]
    await host.close()
    caplog.clear()
    result = await host.open_shards(range(8), generation, [])
    assert len(result["failed"]) == 8
    assert "can't open" not in caplog.text


@evo_cluster()
async def test_a_damaged_shard_is_not_opened_again_and_again(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    await open_here(c, tmp_path / "root")
    coordinator, number = coordinator_of(s), 3
    await plugin_of(a).host.close_shards([number])
    shutil.rmtree(tmp_path / "root" / "shards" / "003")
    coordinator._core.not_served(number, str(a.name))
    await asyncio.wait_for(coordinator._registry.assigner.assign(), 60)
    assert coordinator._core.table().places[number] is None
