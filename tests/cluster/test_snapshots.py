"""Snapshots between a client, a task and providers in one process: put, read, list, keep and let go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput, InvalidName, ModelExists, SnapshotGone, UnknownModel
from daskevo.graph import ArchitectureGraph
from daskevo.repository import Snapshot
from daskevo.testing.arrays import awkward_arrays, same_tensor
from daskevo.tuning import KeptSnapshot, evictions
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, reserve, values

GRAPH = chain(8, 6)


def state(
    seed: int, graph: ArchitectureGraph | None = GRAPH, *, frozen: int = 0, attached: Mapping[str, Any] | None = None
) -> Snapshot:
    """Return a state of a training whose first tensors are frozen, with slots for the others."""
    weights = [] if graph is None else list(values(graph, seed).values())
    if graph is not None:
        weights[:frozen] = list(values(graph, 0).values())[:frozen]
    rng = np.random.default_rng(seed)
    slots = {f"optimizer/{number:04d}": rng.normal(size=array.shape) for number, array in enumerate(weights[frozen:])}
    slots["random/0000"] = rng.integers(0, 2**32, 2, np.uint32)
    return Snapshot(graph, tuple(weights), attached or slots, {"step": seed, "trajectory": "00ff"})


def assert_same(found: Snapshot, expected: Snapshot) -> None:
    assert found.graph == expected.graph
    assert found.extra == expected.extra
    assert found.attached.keys() == expected.attached.keys()
    assert len(found.weights) == len(expected.weights)
    assert all(map(same_tensor, found.weights, expected.weights))
    assert all(same_tensor(found.attached[name], array) for name, array in expected.attached.items())


@pytest.mark.parametrize("way", ["files", "messages", "memory"])
def test_a_state_comes_back_bit_for_bit(way: str, tmp_path: Any) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, *workers: Any) -> None:
        repository = await open_here(c, None if way == "memory" else tmp_path / "root")
        repository.connection.session.directory.local_peers.through_messages = way == "messages"
        states = {
            "a": state(1),
            "b": Snapshot(GRAPH, state(1).weights, awkward_arrays(), {"epoch": 3, "offset": [1, None, "x", 0.5]}),
            "c": Snapshot(None, (), {f"state/{name}": array for name, array in awkward_arrays(1).items()}),
            "d": Snapshot(None, (), {}),
        }
        for step, (name, snapshot) in enumerate(states.items()):
            assert await repository.put_snapshot(snapshot, name=name, step=step, metrics={"score": step}) == name
        assert {row.name: row.extra for row in await repository.snapshots()} == {
            name: snapshot.extra for name, snapshot in states.items()
        }
        for step, (name, snapshot) in enumerate(states.items()):
            found = await repository.read_snapshot(name)
            assert_same(found, snapshot)
            assert (found.name, found.step, found.metrics, found.base) == (name, step, {"score": step}, None)
            assert not any(array.flags.writeable for array in (*found.weights, *found.attached.values()))
        assert (await repository.verify()).clean

    run()


@evo_cluster(providers=2)
async def test_what_an_earlier_one_has_is_not_stored_again(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    first = await repository.put_snapshot(state(1, frozen=2), step=1, labels=["request:run"])
    stored = (await repository.stats())["payload_bytes"]
    # The same state again, as an evaluation has it: not a byte of tensors.
    again = await repository.put_snapshot(state(1, frozen=2), step=1, base=first, metrics={"score": 0.5})
    assert (await repository.stats())["payload_bytes"] == stored
    # Trained on, with two tensors frozen, and the same values under another name.
    later = state(2, frozen=2)
    later = Snapshot(GRAPH, later.weights, {**later.attached, "copy": state(1, frozen=2).attached["optimizer/0000"]})
    last = await repository.put_snapshot(later, step=2, base=again)
    changed = sum(array.nbytes for array in (*later.weights[2:], *state(2, frozen=2).attached.values()))
    assert (await repository.stats())["payload_bytes"] == stored + changed
    rows = await repository.snapshots()
    assert [(row.name, row.base, row.own_bytes, row.nbytes) for row in rows] == [
        (first, None, stored, stored),
        (again, first, 0, stored),
        (last, again, changed, later.nbytes),
    ]
    assert [record.model_id for record in await repository.lineage(last)] == [last, again, first]
    # What others use stays when it is let go, and goes with the last of them.
    await repository.release_label("request:run")
    await repository.retire(again)
    assert_same(await repository.read_snapshot(last), later)
    with pytest.raises(SnapshotGone) as caught:
        await repository.read_snapshot(first)
    assert caught.value.reason == "retired"
    await repository.retire(last)
    await at_rest(s, a, b)
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert (verification.models, verification.tensors, verification.payload_bytes) == (0, 0, 0)


@evo_cluster()
async def test_queries_for_models_meet_no_snapshot(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root", scope="digits")
    other = await open_here(c, tmp_path / "root", scope="letters")
    name = await repository.put_snapshot(state(1), step=1, metrics={"score": 0.9}, labels=["request:run"])
    assert await repository.best_match([GRAPH]) == [None]
    assert (await reserve(repository, GRAPH, "child")).ancestor is None
    assert await repository.models() == await repository.models("digits") == []
    assert await other.snapshots() == await other.models("letters", snapshots=True) == []
    await make(repository, GRAPH, "model", score=0.1)
    assert (await repository.best_match([GRAPH]))[0].model_id == "model"
    assert [model.model_id for model in await repository.models()] == ["model"]
    both = await repository.models("digits", snapshots=True)
    assert [(model.model_id, model.scope, model.quality) for model in both] == [
        (name, "digits.snapshots", 0.9),
        ("model", "digits", 0.1),
    ]
    (row,) = await repository.snapshots()
    assert (row.step, row.metrics, row.labels) == (1, {"score": 0.9}, ("request:run",))
    assert row.extra == {"step": 1, "trajectory": "00ff"}
    assert ((await repository.stats())["models"], (await repository.stats())["snapshots"]) == (2, 1)
    for scope in ("digits.snapshots", ".snapshots"):
        with pytest.raises(InvalidName):
            await open_here(c, tmp_path / "root", scope=scope)


@evo_cluster()
async def test_a_model_may_be_the_base(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "model", seed=1)
    snapshot = state(1)
    name = await repository.put_snapshot(snapshot, step=0, base="model")
    (row,) = await repository.snapshots()
    assert row.own_bytes == sum(array.nbytes for array in snapshot.attached.values())
    await repository.retire("model")
    assert_same(await repository.read_snapshot(name), snapshot)
    await make(repository, GRAPH, "other")
    with pytest.raises(InvalidInput, match="no snapshot"):
        await repository.read_snapshot("other")


@evo_cluster()
async def test_a_base_that_has_gone_is_no_error(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    base = await repository.put_snapshot(state(1), step=1)
    await repository.retire(base)
    name = await repository.put_snapshot(state(1), step=1, base=base)
    assert_same(await repository.read_snapshot(name), state(1))
    assert (await repository.snapshots())[0].own_bytes == state(1).nbytes
    assert [record.model_id for record in await repository.lineage(name)] == [name, base]
    with pytest.raises(UnknownModel):
        await repository.put_snapshot(state(1), step=1, base="never")
    assert (await repository.stats())["live_attempts"] == 0


@evo_cluster()
async def test_a_put_that_is_done_again_finds_its_own(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    for _ in range(2):
        assert await repository.put_snapshot(state(1), name="mine", step=1, labels=["request:run"]) == "mine"
    with pytest.raises(ModelExists, match="another content"):
        await repository.put_snapshot(state(2), name="mine", step=2)
    assert_same(await repository.read_snapshot("mine"), state(1))
    await repository.release("mine", "request:run")
    await at_rest(s, a)
    with pytest.raises(ModelExists, match="retired"):
        await repository.put_snapshot(state(1), name="mine", step=1)
    assert (await repository.stats())["live_attempts"] == 0
    assert (await repository.verify()).clean


@evo_cluster()
async def test_both_kinds_of_labels_on_one(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    name = await repository.put_snapshot(state(1), step=1, labels=["request:run"])
    assert sorted(await repository.hold(name, "cache:run")) == ["cache:run", "request:run"]
    assert await repository.release(name, "request:run") == ("cache:run",)
    assert_same(await repository.read_snapshot(name), state(1))


@evo_cluster()
async def test_what_can_not_be_put_is_said_before_anything_is_sent(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    for wrong in (
        {"step": -1},
        {"step": 1.0},
        {"step": True},
        {"step": 1, "name": "../x"},
        {"step": 1, "base": ""},
        {"step": 1, "labels": "request:run"},
        {"step": 1, "labels": ["request"]},
        {"step": 1, "metrics": {"score": object()}},
    ):
        with pytest.raises(InvalidInput):
            await repository.put_snapshot(state(1), **wrong)
    with pytest.raises(InvalidInput):
        await repository.put_snapshot(Snapshot(None, (), {}, {"a": {1, 2}}), step=1)
    with pytest.raises(InvalidInput):
        await repository.put_snapshot({"weights": []}, step=1)
    with pytest.raises(InvalidName):
        await repository.read_snapshot("../x")
    with pytest.raises(SnapshotGone) as caught:
        await repository.read_snapshot("never")
    assert caught.value.reason == "unknown"
    assert await repository.snapshots() == []


@evo_cluster()
async def test_in_the_background_of_an_event_loop(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    putting = [repository.begin_put_snapshot(state(seed), name=f"s{seed}", step=1) for seed in range(3)]
    assert await asyncio.gather(*map(asyncio.wrap_future, putting)) == ["s0", "s1", "s2"]
    with pytest.raises(ModelExists):
        await asyncio.wrap_future(repository.begin_put_snapshot(state(9), name="s0", step=1))
    with pytest.raises(InvalidInput):
        repository.begin_put_snapshot(state(1), step=-1)


def _in_a_task(repository: Any, background: bool) -> list[Any]:
    first = repository.put_snapshot(state(1), step=1)
    if background:
        second = repository.begin_put_snapshot(state(2), step=2, base=first).result(timeout=120)
    else:
        second = repository.put_snapshot(state(2), step=2, base=first)
    assert_same(repository.read_snapshot(second), state(2))
    return [first, second, [row.name for row in repository.snapshots()]]


@pytest.mark.parametrize("background", [False, True])
def test_in_a_task(background: bool, tmp_path: Any) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        first, second, names = await c.submit(_in_a_task, repository, background, resources={"evaluation": 1})
        assert names == [first, second]
        assert_same(await repository.read_snapshot(second), state(2))
        assert (await repository.stats())["live_attempts"] == 0
        assert (await repository.verify()).clean

    run()


@evo_cluster(providers=2)
async def test_what_would_be_freed_is_known_before(c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    base: str | None = None
    names: list[str] = []
    for seed in range(6):
        base = await repository.put_snapshot(state(seed, frozen=2), step=seed + 1, base=base, labels=["cache:run"])
        names.append(base)
    tensors = await repository.snapshot_tensors([*names, "never"])
    assert list(tensors) == names
    for quota in (2 * state(0).nbytes, state(0).nbytes, 0):
        there = [name for name in names if (await repository.status(name)).state == "published"]
        kept = [
            KeptSnapshot(name, {"cache"}, tensors[name], names[number - 1] if number else None, 1.0 + number % 3)
            for number, name in enumerate(names)
            if name in there
        ]
        for name in evictions(kept, quota):
            await repository.release(name, "cache:run")
        await at_rest(s, a, b)
        stored = {tensor: size for row in await repository.snapshots() for tensor, size in tensors[row.name].items()}
        assert (await repository.stats())["payload_bytes"] == sum(stored.values()) <= quota
