"""A journal that starts anew while its owner serves the shard: whatever happens, one state counts, and all of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import DaskevoError, RootUnusable, ShardFenced
from daskevo.store import journal as journal_module
from daskevo.store import shard_folder as module
from daskevo.store.journal import Journal, journal_numbers, journal_path
from daskevo.store.root import Root
from daskevo.store.shard_folder import ShardFolder
from daskevo.types import ModelId, Tick
from tests.store.owners import served, state_of


@pytest.fixture(params=["written", "synced"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Root:
    return Root.create(tmp_path / "root", shards=2, durability=request.param)


def test_the_owner_goes_on_under_the_next_number(root: Root) -> None:
    owner = served(root, 1, "a", "b")
    owner.append(["not flushed"], flush=False)
    owner.renew(["a+b"])
    assert (owner.epoch, journal_numbers(owner.path)) == (2, [2])
    owner.append(["c"])
    owner.check()
    assert owner.delete([(ModelId("m"), Tick(1, 1))]) == 0
    owner.renew(["a+b+c"])
    owner.append(["d"])
    assert state_of(root) == ["a+b+c", "d"]
    assert list(root.shard(1).open(1).records) == ["a+b+c", "d"]
    with pytest.raises(ShardFenced):
        owner.append(["late"])


def test_a_journal_is_long_by_its_own_head(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORT_BYTES", 1000)
    owner = served(root)
    assert not owner.is_long
    owner.append(["x" * 1000])
    assert owner.is_long
    owner.renew(["y" * 1000])
    assert owner.journal_bytes == journal_path(owner.path, 2).stat().st_size > 1000
    owner.append(["x" * 2000])
    assert not owner.is_long
    owner.append(["x" * 2000])
    assert owner.is_long


def test_an_owner_that_was_succeeded_renews_nothing(root: Root) -> None:
    old = served(root, 1, "a")
    served(root, 1, "b")
    with pytest.raises(ShardFenced):
        old.renew(["stale"])
    assert state_of(root) == ["a", "b"]
    assert journal_numbers(old.path) == [2]


@pytest.mark.parametrize("successors", [1, 2, 3])
def test_a_successor_that_comes_right_after_the_look_is_not_overruled(
    root: Root, monkeypatch: pytest.MonkeyPatch, successors: int
) -> None:
    """The old owner holds on between its check and its new journal: its number is taken, or lower than those there."""
    old = served(root, 1, "a")
    check = ShardFolder.check

    def looks_then_stalls(folder: ShardFolder) -> None:
        check(folder)
        monkeypatch.undo()
        for number in range(successors):
            served(root, 1, f"b{number}").close()

    monkeypatch.setattr(ShardFolder, "check", looks_then_stalls)
    with pytest.raises(ShardFenced):
        old.renew(["stale"])
    assert state_of(root) == ["a", *(f"b{number}" for number in range(successors))]
    with pytest.raises(ShardFenced):
        old.append(["late"])
    assert served(root, 1).epoch is not None


def test_a_successor_that_comes_when_the_head_is_written_reads_it(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    old = served(root, 1, "a")
    write_epoch = module.write_epoch
    successor = root.shard(1)

    def claims_first(*args: Any, **facts: Any) -> None:
        monkeypatch.undo()
        successor.serve(successor.open(1).records)
        successor.append(["b"])
        write_epoch(*args, **facts)

    monkeypatch.setattr(module, "write_epoch", claims_first)
    with pytest.raises(ShardFenced):
        old.renew(["a, renewed"])
    assert state_of(root) == ["a, renewed", "b"]
    # Its epoch was overwritten by the slower one: it stops too, and is opened again.
    with pytest.raises(ShardFenced):
        successor.append(["c"])
    assert state_of(root)[:2] == ["a, renewed", "b"]


def test_a_full_disk_changes_nothing(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = served(root, 1, "a")
    write_all = journal_module.write_all

    def full(handle: int, data: bytes) -> None:
        os.write(handle, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal_module, "write_all", full)
    with pytest.raises(RootUnusable, match="No space"):
        owner.renew(["a, renewed"])
    monkeypatch.setattr(journal_module, "write_all", write_all)
    assert journal_numbers(owner.path) == [1]
    owner.append(["b"])
    owner.renew(["a+b"])
    assert state_of(root) == ["a+b"]


def test_an_epoch_that_can_not_be_written_stops_the_shard(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = served(root, 1, "a")

    def full(*args: Any, **facts: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "write_epoch", full)
    with pytest.raises(ShardFenced, match="can't be told"):
        owner.renew(["a, renewed"])
    monkeypatch.undo()
    with pytest.raises(ShardFenced):
        owner.append(["lost"])
    again = served(root, 1, "b")
    assert state_of(root) == ["a, renewed", "b"]
    assert journal_numbers(again.path) == [again.epoch]


STEPS = ("new journal", "half a head", "head", "epoch", "removed")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_loses_nothing(root: Root, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    class Crash(BaseException):
        pass

    def dies(*args: Any, **facts: Any) -> Any:
        raise Crash

    owner = served(root, 1, "a", "b")
    if step == "new journal":
        monkeypatch.setattr(Journal, "write_head", dies)
    elif step == "half a head":
        write_head = Journal.write_head

        def dies_within(journal: Journal, head: Any, *, base: int) -> None:
            write_head(journal, head, base=base)
            os.truncate(journal.path, journal.nbytes - 20)
            raise Crash

        monkeypatch.setattr(Journal, "write_head", dies_within)
    elif step == "head":
        monkeypatch.setattr(module, "write_epoch", dies)
    elif step == "epoch":
        monkeypatch.setattr(ShardFolder, "check", _on_second_call(ShardFolder.check, dies))
    # Who has died tidies nothing away.
    monkeypatch.setattr(module, "remove", dies)
    with pytest.raises(Crash):
        owner.renew(["a+b"])
    monkeypatch.undo()
    found = ["a", "b"] if step in STEPS[:2] else ["a+b"]
    assert state_of(root) == found
    again = served(root, 1, "c")
    assert state_of(root) == [*found, "c"]
    assert journal_numbers(again.path) == [again.epoch]


def _on_second_call(first: Any, second: Any) -> Any:
    calls: list[None] = []

    def call(*args: Any) -> Any:
        calls.append(None)
        return (first if len(calls) == 1 else second)(*args)

    return call


def test_any_number_above_would_bring_back_what_is_past(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the next number or none: a head of the past under a higher one counts."""

    class Above(Journal):
        def __init__(self, folder: Path, shard: int, number: int, generation: int, *, sync: bool) -> None:
            number = max(journal_numbers(folder)) + 1
            super().__init__(folder, shard, number, generation, sync=sync)

    old = served(root, 1, "a")
    served(root, 1, "b")
    monkeypatch.setattr(ShardFolder, "check", lambda folder: None)
    monkeypatch.setattr(module, "Journal", Above)
    with pytest.raises(DaskevoError):
        old.renew(["stale"])
    assert state_of(root) == ["stale"]
