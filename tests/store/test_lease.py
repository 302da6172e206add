"""The root's lease: join, refuse, take over, race, give back."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, RepositoryTaken
from daskevo.store import lease as module
from daskevo.store.lease import Ask, Holder, Lease, current_lease, take_lease
from daskevo.store.root import Root


@pytest.fixture(params=["written", "synced"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Root:
    return Root.create(tmp_path / "root", durability=request.param)


def _holder(name: str) -> Holder:
    return Holder(f"Scheduler-{name}", f"tcp://10.0.0.1:{name}", f"job-{name}")


def _living(*names: str) -> Ask:
    """Those schedulers answer; an address with another scheduler now answers as that one."""
    by_address = {_holder(name).address: _holder(name).scheduler_id for name in names}
    return lambda holder: by_address.get(holder.address)


def test_first_opening(root: Root) -> None:
    assert current_lease(root) is None
    lease = take_lease(root, _holder("1"), _living())
    assert (lease.generation, lease.joined) == (1, False)
    lease.check()
    assert current_lease(root) == lease
    found = json.loads((root.path / "cluster.json").read_text())
    assert found["generation"] == 1
    assert found["scheduler_id"] == "Scheduler-1"
    assert found["address"] == "tcp://10.0.0.1:1"
    assert found["job"] == "job-1"
    assert found["host"]
    assert found["started"]


def test_the_same_scheduler_joins(root: Root) -> None:
    lease = take_lease(root, _holder("1"), _living())
    again = take_lease(root, _holder("1"), _living("1"))
    assert again == Lease(root, 1, lease.holder, joined=True)
    again.check()


def test_a_coordinator_that_starts_anew_in_the_same_scheduler_has_a_generation_of_its_own(root: Root) -> None:
    take_lease(root, _holder("1"), _living())
    again = take_lease(root, _holder("1"), _living())
    assert (again.generation, again.joined) == (2, False)


def test_another_job_is_refused_with_the_name_of_the_one_that_has_it(root: Root) -> None:
    lease = take_lease(root, _holder("1"), _living())
    with pytest.raises(RepositoryTaken, match="job-1") as caught:
        take_lease(root, _holder("2"), _living("1", "2"))
    assert caught.value.job == "job-1"
    assert caught.value.address == "tcp://10.0.0.1:1"
    lease.check()
    assert current_lease(root) == lease


def test_an_address_that_does_not_answer_or_as_another_is_taken_over(root: Root) -> None:
    first = take_lease(root, _holder("1"), _living())
    second = take_lease(root, _holder("2"), _living("2"))
    assert (second.generation, second.joined) == (2, False)
    with pytest.raises(RepositoryTaken, match="job-2"):
        first.check()
    third = take_lease(root, _holder("3"), lambda holder: "Scheduler-99")
    assert third.generation == 3
    assert sorted(path.name for path in root.path.glob("generation.*")) == ["generation.3"]


def test_given_back_it_is_taken_without_asking(root: Root) -> None:
    first = take_lease(root, _holder("1"), _living())
    first.release()
    assert current_lease(root) is None

    def nobody(holder: Holder) -> str | None:
        raise AssertionError(holder)

    second = take_lease(root, _holder("2"), nobody)
    assert second.generation == 2
    first.release()
    assert current_lease(root) == second
    second.check()


def test_of_takers_in_a_race_one_wins(root: Root) -> None:
    take_lease(root, _holder("0"), _living())
    names = [str(n) for n in range(1, 9)]
    together = threading.Barrier(len(names))

    def ask(holder: Holder) -> str | None:
        if holder == dead:
            together.wait(60)
            return None
        return holder.scheduler_id

    lease = current_lease(root)
    assert lease is not None
    dead = lease.holder

    def take(name: str) -> Lease | None:
        try:
            return take_lease(root, _holder(name), ask)
        except RepositoryTaken:
            return None

    with ThreadPoolExecutor(len(names)) as pool:
        winners = [lease for lease in pool.map(take, names) if lease is not None]
    assert len(winners) == 1
    assert winners[0].generation == 2
    winners[0].check()
    assert current_lease(root) == winners[0]
    assert json.loads((root.path / "cluster.json").read_text())["job"] == winners[0].holder.job


@pytest.mark.parametrize(("step", "nth"), [("_generations", 2), ("_cluster_generation", 1)])
@pytest.mark.parametrize("before", [True, False])
def test_a_taker_overtaken_between_asking_and_choosing_a_number_does_not_win_too(
    root: Root, monkeypatch: pytest.MonkeyPatch, step: str, nth: int, before: bool
) -> None:
    take_lease(root, _holder("0"), _living())
    original = getattr(module, step)
    calls = 0

    def overtaken(what: Any) -> Any:
        nonlocal calls
        calls += 1
        now = calls == nth
        if now and before:
            take_lease(root, _holder("1"), _living())
        found = original(what)
        if now and not before:
            take_lease(root, _holder("1"), _living())
        return found

    monkeypatch.setattr(module, step, overtaken)
    with pytest.raises(RepositoryTaken, match="job-1"):
        take_lease(root, _holder("2"), _living("1"))


def test_a_taker_that_slept_does_not_slip_in_below_the_winner(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    take_lease(root, _holder("0"), _living())
    create_file = module.create_file

    def slow(path: Path, data: bytes, *, sync: bool = False) -> bool:
        monkeypatch.setattr(module, "create_file", create_file)
        take_lease(root, _holder("1"), _living())
        take_lease(root, _holder("2"), _living())
        return create_file(path, data, sync=sync)

    monkeypatch.setattr(module, "create_file", slow)
    with pytest.raises(RepositoryTaken, match="job-2"):
        take_lease(root, _holder("3"), _living())
    assert sorted(path.name for path in root.path.glob("generation.*")) == ["generation.3"]
    lease = current_lease(root)
    assert lease is not None
    assert (lease.generation, lease.holder.job) == (3, "job-2")
    assert json.loads((root.path / "cluster.json").read_text())["job"] == "job-2"


def test_a_taker_that_died_between_generation_and_cluster_file(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    take_lease(root, _holder("0"), _living())

    class Crash(BaseException):
        pass

    def crash(*args: object, **kwargs: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(module, "replace_file", crash)
        with pytest.raises(Crash):
            take_lease(root, _holder("1"), _living())
    with pytest.raises(RepositoryTaken, match="job-1"):
        take_lease(root, _holder("2"), _living("1"))
    assert take_lease(root, _holder("2"), _living()).generation == 3


def test_generations_are_never_reused(root: Root) -> None:
    take_lease(root, _holder("1"), _living())
    take_lease(root, _holder("1"), _living())
    (root.path / "generation.2").unlink()
    assert take_lease(root, _holder("1"), _living()).generation == 3


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format":9}', b"\xff" * 10])
def test_a_damaged_cluster_file_is_replaced(root: Root, content: bytes) -> None:
    take_lease(root, _holder("1"), _living())
    (root.path / "cluster.json").write_bytes(content)
    with pytest.raises(RepositoryTaken):
        take_lease(root, _holder("2"), _living("1"))
    assert take_lease(root, _holder("2"), _living()).generation == 2
    assert json.loads((root.path / "cluster.json").read_text())["generation"] == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"format":1,"generation":1,"holder":{}}', b'{"format":1,"generation":2}'],
)
def test_a_damaged_generation_file_is_named(root: Root, content: bytes) -> None:
    take_lease(root, _holder("1"), _living())
    (root.path / "generation.1").write_bytes(content)
    with pytest.raises(CorruptRecord, match="remove this file") as caught:
        take_lease(root, _holder("2"), _living())
    assert caught.value.path == str(root.path / "generation.1")
    (root.path / "generation.1").unlink()
    assert take_lease(root, _holder("2"), _living()).generation == 2
