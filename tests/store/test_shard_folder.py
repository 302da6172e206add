"""Opening a shard: overtaking openers, cut-off owners, crashes at each step; what its owner deletes."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, DaskevoError, InvalidInput, RootUnusable, ShardFenced
from daskevo.store import journal as journal_module
from daskevo.store import shard_folder as module
from daskevo.store import shard_state
from daskevo.store.journal import journal_numbers, journal_path
from daskevo.store.journal_reader import read_journal
from daskevo.store.root import Root
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import read_shard
from daskevo.types import ModelId, Tick
from tests.store.owners import served, state_of


@pytest.fixture(params=["written", "synced"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Root:
    return Root.create(tmp_path / "root", shards=4, durability=request.param)


def test_a_shard_goes_from_owner_to_owner(root: Root) -> None:
    folder = root.shard(1)
    assert folder.open(1) == (1, ())
    folder.serve([])
    folder.append([{"a": 1}, {"b": 2}])
    folder.append([{"c": 3}], flush=False)
    folder.close()
    for epoch in (2, 3):
        folder = root.shard(1)
        opening = folder.open(1)
        assert opening == (epoch, ({"a": 1}, {"b": 2}, {"c": 3}))
        folder.serve(opening.records)
        folder.close()
        assert journal_numbers(folder.path) == [epoch]
    assert state_of(root) == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert read_shard(root.path, 2) == ()


def test_the_head_counts_not_what_it_was_made_from(root: Root) -> None:
    served(root, 1, "a", "b", "c").close()
    folder = root.shard(1)
    folder.open(1)
    folder.serve(["compact"])
    folder.append(["d"])
    assert state_of(root) == ["compact", "d"]


def test_an_owner_that_was_succeeded_is_told_by_its_next_record(root: Root) -> None:
    old = served(root, 1, "a")
    new = served(root, 2)
    with pytest.raises(ShardFenced, match="epoch 2 by generation 2") as caught:
        old.append(["late"])
    assert (caught.value.shard, caught.value.epoch, caught.value.found_epoch) == (1, 1, 2)
    for action in (old.check, lambda: old.append(["again"]), lambda: old.delete([(ModelId("m"), Tick(1, 1))])):
        with pytest.raises(ShardFenced):
            action()
    new.append(["b"])
    assert state_of(root) == ["a", "b"]


def test_what_a_cut_off_owner_appends_after_its_successor_has_read_never_comes_back(root: Root) -> None:
    old = served(root, 1, "a")
    new = root.shard(1)
    opening = new.open(1)
    with pytest.raises(ShardFenced):
        old.append(["late"])
    assert "late" not in opening.records
    new.serve(opening.records)
    assert state_of(root) == ["a"]
    assert served(root, 1).epoch == 3
    assert state_of(root) == ["a"]


def test_of_openers_that_overtake_each_other_one_serves(root: Root) -> None:
    served(root, 1, "a").close()
    slow, fast = root.shard(1), root.shard(1)
    slow.open(1)
    opening = fast.open(1)
    fast.serve(opening.records)
    with pytest.raises(ShardFenced):
        slow.serve(["wrong"])
    fast.append(["b"])
    assert state_of(root) == ["a", "b"]


def test_an_opener_overtaken_between_claim_and_epoch_stops_at_once(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    served(root, 1, "a").close()
    slow = root.shard(1)
    replace_file = shard_state.replace_file
    overtaking: list[ShardFolder] = []

    def overtaken(path: Path, data: bytes, *, sync: bool = False) -> None:
        if not overtaking:
            overtaking.append(root.shard(1))
            overtaking[0].serve(overtaking[0].open(1).records)
        replace_file(path, data, sync=sync)

    monkeypatch.setattr(shard_state, "replace_file", overtaken)
    with pytest.raises(ShardFenced, match="overtaken"):
        slow.open(1)
    # The slow one's number stands in the epoch file now: the fast one stops too, and either opens again.
    with pytest.raises(ShardFenced):
        overtaking[0].append(["never answered"])
    assert served(root, 1).epoch == 4


def test_an_opener_whose_epoch_was_overwritten_by_a_slower_one_removes_nothing(root: Root) -> None:
    served(root, 1, "a").close()
    slow = root.shard(1)
    slow.open(1)
    epoch = (slow.path / "epoch").read_bytes()
    fast = root.shard(1)
    opening = fast.open(1)
    (slow.path / "epoch").write_bytes(epoch)
    with pytest.raises(ShardFenced):
        fast.serve(opening.records)
    assert journal_numbers(fast.path) == [3, 2, 1]
    served(root, 1, "b")
    assert state_of(root) == ["a", "b"]


def test_an_opener_of_an_older_generation_does_not_take_the_shard(root: Root) -> None:
    served(root, 5, "a")
    with pytest.raises(ShardFenced, match="belongs to generation 5"):
        root.shard(1).open(4)
    served(root, 5, "b")
    served(root, 6, "c")
    assert state_of(root) == ["a", "b", "c"]


class Crash(BaseException):
    """The process dies here."""


# The steps of opening and serving, each as the call after which nothing more happens.
STEPS = [
    (journal_module.Journal, "__init__"),
    (shard_state, "replace_file"),
    (module, "journal_numbers"),
    (shard_state, "read_journal"),
    (journal_module.Journal, "_write"),
    (journal_module.Journal, "flush"),
    (module, "create_file"),
    (ShardFolder, "check"),
    (module, "remove"),
]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_crash_at_any_step_of_opening_loses_nothing(
    root: Root, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, nth: int, before: bool
) -> None:
    served(root, 1, "a", {"b": 2}).close()
    # A lower journal that its successor left behind, so that there are two to remove.
    (root.path / "shards/001/journal.0").write_bytes(b"")
    expected = ["a", {"b": 2}]
    original: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    def crashing(*args: Any, **kwargs: Any) -> Any:
        turn = next(calls)
        if before and turn == nth:
            raise Crash
        result = original(*args, **kwargs)
        if turn == nth:
            raise Crash
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crashing)
        dying = root.shard(1)
        with contextlib.suppress(Crash):
            dying.serve(dying.open(1).records)
    assert state_of(root) == expected
    folder = served(root, 1, "c")
    assert state_of(root) == [*expected, "c"]
    assert journal_numbers(folder.path) == [folder.epoch]
    with pytest.raises(DaskevoError):
        dying.append(["late"])
    assert state_of(root) == [*expected, "c"]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_crash_while_the_head_is_written_leaves_the_older_journal_in_force(root: Root, fresh: bool) -> None:
    expected = []
    if not fresh:
        served(root, 1, "a", "b").close()
        expected = ["a", "b"]
    folder = root.shard(1)
    opening = folder.open(1)
    folder._journal.write_head(opening.records, base=opening.epoch - 1)  # type: ignore[union-attr]
    path = journal_path(folder.path, opening.epoch)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert state_of(root) == expected
    next_owner = root.shard(1)
    assert list(next_owner.open(1).records) == expected


def test_a_journal_cut_into_its_head_after_it_was_served_is_an_error(root: Root) -> None:
    folder = served(root, 1, "a")
    path = journal_path(folder.path, 1)
    path.write_bytes(path.read_bytes()[:60])
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="served once"):
            root.shard(1).open(1)
        with pytest.raises(CorruptRecord, match="served once"):
            read_shard(root.path, 1)
    path.unlink()
    with pytest.raises(CorruptRecord, match="served once"):
        root.shard(1).open(1)


def test_damage_in_the_journal_in_force_is_an_error_even_with_older_ones_there(root: Root) -> None:
    folder = served(root, 1, "a", "b")
    data = bytearray(journal_path(folder.path, 1).read_bytes())
    data[80] ^= 1
    journal_path(folder.path, 1).write_bytes(data)
    with pytest.raises(CorruptRecord) as caught:
        root.shard(1).open(1)
    assert caught.value.path == str(journal_path(folder.path, 1))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"format":2,"epoch":1,"generation":1}',
        b'{"format":1,"epoch":"1","generation":1}',
        b"x" * 5000,
    ],
)
def test_a_damaged_epoch_stops_its_owner_and_is_mended_by_the_next(root: Root, content: bytes) -> None:
    folder = served(root, 1, "a")
    (folder.path / "epoch").write_bytes(content)
    with pytest.raises(CorruptRecord) as caught:
        folder.check()
    assert caught.value.path == str(folder.path / "epoch")
    for _ in range(2):
        with pytest.raises(ShardFenced, match="open it again"):
            folder.append(["b"])
    assert served(root, 1, "c").epoch == 2
    assert state_of(root) == ["a", "b", "c"]


def test_a_vanished_folder_is_named_and_not_made_again(root: Root) -> None:
    folder = served(root, 1, "a")
    root.path.rename(root.path.with_name("elsewhere"))
    for action in (
        folder.check,
        lambda: folder.write_segment(ModelId("m"), Tick(1, 1), {0: np.arange(3)}),
        lambda: list(folder.segments()),
        lambda: root.shard(1).open(1),
        lambda: read_shard(root.path, 1),
    ):
        with pytest.raises(RootUnusable) as caught:
            action()
        assert caught.value.folder.startswith(str(root.path))
    root.path.with_name("elsewhere").rename(root.path)
    folder.append(["b"])
    root.path.rename(root.path.with_name("elsewhere"))
    with pytest.raises(ShardFenced, match=str(root.path)):
        folder.append(["unknown"])
    assert not root.path.exists()
    root.path.with_name("elsewhere").rename(root.path)
    with pytest.raises(ShardFenced):
        folder.append(["after what nobody knows"])
    served(root, 1, "c")
    assert state_of(root) == ["a", "b", "unknown", "c"]


def test_after_a_failed_fsync_the_shard_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root.create(tmp_path / "root", shards=4, durability="synced")
    folder = served(root, 1, "a")

    def failing(handle: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, "fsync", failing)
        with pytest.raises(ShardFenced, match="input/output error"):
            folder.append(["unknown"])
    # The system may have dropped the pages, and says so only once.
    with pytest.raises(ShardFenced):
        folder.append(["b"])
    served(root, 1, "c")
    assert state_of(root) == ["a", "unknown", "c"]


def test_a_failed_write_that_can_not_be_cut_off_stops_the_shard(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = served(root, 1, "a")

    def half(handle: int, data: bytes) -> int:
        os.write(handle, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space left")

    def failing(handle: int, length: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "write_all", half)
        with pytest.raises(RootUnusable):
            folder.append(["cut off"])
        patch.setattr(journal_module.os, "ftruncate", failing)
        with pytest.raises(ShardFenced, match="open it again"):
            folder.append(["not cut off"])
    with pytest.raises(ShardFenced):
        folder.append(["b"])
    served(root, 1, "c")
    assert state_of(root) == ["a", "c"]


def test_not_opened_not_served(root: Root) -> None:
    folder = root.shard(1)
    for action in (
        lambda: folder.append(["a"]),
        lambda: folder.serve([]),
        lambda: folder.delete([(ModelId("m"), Tick(1, 1))]),
    ):
        with pytest.raises(ShardFenced, match="isn't open"):
            action()
    with pytest.raises(InvalidInput):
        root.shard(4)


def test_the_journals_of_openers_may_be_raced_by_threads(root: Root) -> None:
    """Many openers at once: whatever happens, answered records stay, and at most one can append in the end."""
    answered: list[str] = []

    def owner(mine: int) -> ShardFolder | None:
        folder = root.shard(1)
        try:
            folder.serve(folder.open(1).records)
            for turn in range(5):
                folder.append([f"{mine}.{turn}"])
                answered.append(f"{mine}.{turn}")
        except ShardFenced:
            return None
        return folder

    with ThreadPoolExecutor(6) as pool:
        owners = [folder for folder in pool.map(owner, range(12)) if folder is not None]
    state = state_of(root)
    assert set(answered) <= set(state)
    alive = 0
    for folder in owners:
        with contextlib.suppress(ShardFenced):
            folder.check()
            alive += 1
    assert alive <= 1


def test_a_new_shard_that_an_overtaken_opener_serves_meanwhile_is_not_damaged(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head was not complete when it was read; now it is, and the shard has the mark of one that was served."""
    low, high = root.shard(1), root.shard(1)
    low.open(1)

    def read(*arguments: Any) -> Any:
        content = read_journal(*arguments)
        with pytest.raises(ShardFenced):
            low.serve(())
        return content

    monkeypatch.setattr(shard_state, "read_journal", read)
    opening = high.open(1)
    monkeypatch.undo()
    assert opening.records == ()
    high.serve(opening.records)
    high.append(["a"])
    assert state_of(root) == ["a"]


def test_many_openers_and_a_look_beside_them(root: Root) -> None:
    served(root, 1, *range(50)).close()

    def look(_: int) -> bool:
        return state_of(root)[:50] == list(range(50))

    def reopen(_: int) -> bool:
        with contextlib.suppress(ShardFenced):
            served(root, 1).close()
        return True

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(look if n % 2 else reopen, n) for n in range(40)]
        assert all(result.result() for result in results)


def test_a_fenced_owner_deletes_nothing(root: Root) -> None:
    old = served(root)
    model = (ModelId("m"), Tick(1, 1))
    old.write_segment(*model, {0: np.arange(4)})
    served(root)
    with pytest.raises(ShardFenced):
        old.delete([model])
    assert old.segment_path(*model).exists()


def test_deleting_flushes_first(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = served(root)
    model = (ModelId("m"), Tick(1, 1))
    folder.write_segment(*model, {0: np.arange(4)})
    folder.append(["dropped"], flush=False)
    order: list[str] = []
    flush, check, unlink = journal_module.Journal.flush, ShardFolder.check, os.unlink
    monkeypatch.setattr(journal_module.Journal, "flush", lambda *args: (order.append("flush"), flush(*args))[1])
    monkeypatch.setattr(ShardFolder, "check", lambda *args: (order.append("check"), check(*args))[1])
    monkeypatch.setattr(os, "unlink", lambda *args: (order.append("unlink"), unlink(*args))[1])
    folder.delete([model])
    assert order == ["flush", "check", "unlink"]
