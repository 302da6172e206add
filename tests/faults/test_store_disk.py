"""Disks that are full, read-only or gone: one named error, and everything that was there stays."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from daskevo.errors import RootUnusable
from daskevo.store.files import with_reserve
from daskevo.store.lease import Holder, take_lease
from daskevo.store.root import Root
from daskevo.store.segment import Segment
from daskevo.store.segment_names import segment_name
from daskevo.store.segment_writer import write_segment
from daskevo.store.shard_state import read_shard
from daskevo.store.tiers import DurableTensors, SpillingTensors, Tensors
from daskevo.types import Attempt, ModelId, Tick
from tests.tmpfs import mounted, own_disk

DISK_BYTES = 2 << 20
MODEL, ATTEMPT = ModelId("model"), Tick(1, 1)

Full = Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """No file of this process may grow: as good as a full disk, without a mount."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def _filled(folder: Path) -> Iterator[None]:
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    if file.write(bytes(size)) < size:
                        break
    try:
        yield
    finally:
        filler.unlink()


@pytest.fixture(params=["mount", "limit"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, Full]]:
    """A folder, and a context manager in which nothing more can be written there."""
    folder = tmp_path / "disk"
    if request.param == "limit":
        folder.mkdir()
        yield folder, _limited
        return
    with own_disk(folder, DISK_BYTES):
        yield folder, lambda: _filled(folder)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[Path, Full]]:
    """A folder, and a context manager in which it can only be read."""
    folder = tmp_path / "disk"

    @contextlib.contextmanager
    def remounted() -> Iterator[None]:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        try:
            yield
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)

    @contextlib.contextmanager
    def forbidden() -> Iterator[None]:
        folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        for path in folders:
            path.chmod(0o555)
        try:
            yield
        finally:
            for path in folders:
                path.chmod(0o755)

    with mounted(folder, DISK_BYTES) as is_mounted:
        if not is_mounted and os.geteuid() == 0:
            pytest.skip("root may write to any folder, and can't mount here")
        yield folder, remounted if is_mounted else forbidden


def _refused(action: Callable[[], object], folder: Path, *, writes: bool = True) -> RootUnusable:
    with pytest.raises(RootUnusable) as caught:
        action()
    error = caught.value
    assert error.folder.startswith(str(folder))
    assert error.folder in str(error)
    if writes:
        assert isinstance(error.needed_bytes, int)
        assert "bytes needed" in str(error)
        assert error.free_bytes is None or f"{error.free_bytes} free" in str(error)
    return error


def _tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.name != "filler"}


def test_a_segment_is_written_whole_or_not_at_all(disk: tuple[Path, Full]) -> None:
    folder, full = disk
    write_segment(folder / "a.seg", {0: np.arange(10)})
    before = _tree(folder)
    with full():
        error = _refused(lambda: write_segment(folder / "b.seg", {0: np.zeros(1 << 20)}), folder)
        assert error.needed_bytes > 8 << 20
        assert error.errno in (errno.ENOSPC, errno.EFBIG)
        assert "retire models" in str(error)
        _refused(lambda: write_segment(folder / "a.seg", {0: np.zeros(1 << 20)}), folder)
        assert _tree(folder) == before
        assert Segment.open(folder / "a.seg").read()[0].tolist() == list(range(10))
    write_segment(folder / "b.seg", {0: np.zeros(10)})


def test_a_journal_goes_on_as_if_nothing_had_been(disk: tuple[Path, Full]) -> None:
    path, full = disk
    root = Root.create(path / "root", shards=2)
    folder = root.shard(0)
    folder.serve(folder.open(1).records)
    expected = []
    record = {"long": "x" * 5000}
    for turn in range(3):
        folder.append([{"turn": turn}])
        expected.append({"turn": turn})
        with full():
            # The last page of a file has room for some small ones.
            for _ in range(20):
                try:
                    folder.append(["small"])
                except RootUnusable:
                    break
                expected.append("small")
            _refused(lambda: folder.append([record, record]), path)
            assert list(read_shard(root.path, 0)) == expected
        folder.append([record])
        expected.append(record)
    assert list(read_shard(root.path, 0)) == expected
    assert list(root.shard(0).open(1).records) == expected


def test_opening_where_nothing_can_be_written_fails_and_works_later(tmp_path: Path) -> None:
    path = tmp_path
    root = Root.create(path / "root", shards=2)
    first = take_lease(root, Holder("s1", "a1", "j1"), lambda holder: None)
    folder = root.shard(0)
    folder.serve(folder.open(1).records)
    records = [{"number": n, "text": "x" * 1000} for n in range(20)]
    folder.append(records)
    with _limited():
        _refused(lambda: Root.create(path / "other"), path)
        _refused(lambda: take_lease(root, Holder("s2", "a2", "j2"), lambda holder: None), path)
        _refused(lambda: root.declare_scope("scope", "max val_auc"), path)
        # Claiming a number takes no bytes, the epoch file does.
        _refused(lambda: root.shard(0).open(1), path)
        assert list(read_shard(root.path, 0)) == records
        first.check()
    second = root.shard(0)
    opening = second.open(1)
    with _limited():
        _refused(lambda: second.serve(opening.records), path)
    assert list(read_shard(root.path, 0)) == records
    assert take_lease(root, Holder("s2", "a2", "j2"), lambda holder: None).generation == 2
    third = root.shard(0)
    opening = third.open(2)
    assert list(opening.records) == records
    third.serve(opening.records)
    assert root.scopes() == {}


def test_on_a_full_disk_a_repository_can_be_opened_and_models_retired(tmp_path: Path) -> None:
    records = [{"number": n, "text": "x" * 1000} for n in range(200)]
    with own_disk(tmp_path / "disk", DISK_BYTES) as disk:
        root = Root.create(disk / "root", shards=2)
        take_lease(root, Holder("s1", "a1", "j1"), lambda holder: None)
        for number in range(2):
            folder = root.shard(number)
            folder.serve(folder.open(1).records)
            folder.append(records)
            folder.close()
        # An opening keeps back as much as the next one will take, and more than a short journal needs.
        for generation in (2, 3):
            folder = root.shard(0)
            folder.serve(folder.open(generation).records)
            folder.close()
        with _filled(disk):
            _refused(lambda: Root.create(disk / "other"), disk)
            for turn in (4, 5):
                assert take_lease(root, Holder(f"s{turn}", "a", "j"), lambda holder: None).generation == turn - 2
                assert root.declare_scope(f"scope-{turn}", None) is None
                folder = root.shard(0)
                opening = folder.open(turn)
                assert list(opening.records) == records
                folder.serve(opening.records)
                folder.append([{"retired": turn}], frees=True)
                records.append({"retired": turn})
                folder.close()
        assert list(read_shard(root.path, 0)) == records


def test_on_a_full_disk_models_can_still_be_retired(tmp_path: Path) -> None:
    with own_disk(tmp_path / "disk", DISK_BYTES) as disk:
        root = Root.create(disk / "root", shards=1)
        folder = root.shard(0)
        folder.serve(folder.open(1).records)
        models = 0
        with contextlib.suppress(RootUnusable):
            while models < 1000:
                folder.write_segment(ModelId(f"m{models}"), Tick(1, models), {0: np.zeros(10_000)})
                folder.append([{"stored": models}])
                models += 1
        assert 0 < models < 1000
        with _filled(disk):
            with pytest.raises(RootUnusable):
                folder.append([{"stored": "x" * 5000}])
            folder.append([{"retired": 0, "why": "x" * 5000}], frees=True)
            assert folder.delete([(ModelId("m0"), Tick(1, 0))]) > 80_000
        folder.write_segment(ModelId("new"), Tick(1, 1000), {0: np.zeros(5_000)})
        folder.append([{"stored": "new"}])
        records = read_shard(root.path, 0)
        assert [record["stored"] for record in records if "stored" in record] == [*range(models), "new"]
        assert [record["retired"] for record in records if "retired" in record] == [0]
        assert (folder.path / "reserve").stat().st_size >= 1 << 16


def test_a_shard_without_a_reserve_opens_in_the_room_of_another(tmp_path: Path) -> None:
    """Such as one that was opened on a full disk before, or whose reserve's room another shard took that moment."""
    with own_disk(tmp_path / "disk", DISK_BYTES) as disk:
        root = Root.create(disk / "root", shards=3)
        for number in range(3):
            folder = root.shard(number)
            folder.serve(folder.open(1).records)
            folder.append([{"stored": number, "why": "x" * 5000}])
            folder.close()
        (root.path / "shards").joinpath(sorted(os.listdir(root.path / "shards"))[0], "reserve").unlink()
        with _filled(disk):
            folder = root.shard(0)
            opening = folder.open(2)
            folder.serve(opening.records)
            assert [record["stored"] for record in opening.records] == [0]
            folder.close()


def test_room_that_others_take_is_freed_again(tmp_path: Path) -> None:
    reserves = [tmp_path / f"{number}" / "reserve" for number in range(4)]
    for reserve in reserves:
        reserve.parent.mkdir()
        reserve.touch()
    left: list[list[bool]] = []

    def act() -> str:
        left.append([reserve.exists() for reserve in reserves])
        if len(left) < 4:
            raise OSError(errno.ENOSPC, "another wrote first")
        return "written"

    assert with_reserve(act, tmp_path, "2") == "written"
    own_first = [[True, True, True, True], [True, True, False, True], [False, True, False, True]]
    assert left == [*own_first, [False, False, False, True]]


def _durable(folder: Path) -> Tensors:
    def locate(model_id: ModelId, attempt: Attempt) -> Path:
        return folder / segment_name(model_id, attempt)

    return DurableTensors(locate, 100_000)


def _spilling(folder: Path) -> Tensors:
    return SpillingTensors(folder / "spill", 100_000)


@pytest.mark.parametrize("make", [_durable, _spilling])
def test_a_tier_keeps_what_it_had_and_goes_on_when_there_is_room(
    disk: tuple[Path, Full], make: Callable[[Path], Tensors]
) -> None:
    folder, full = disk
    tier = make(folder)
    tensors = {number: np.full(5000, number) for number in range(10)}
    tier.put(MODEL, ATTEMPT, tensors)
    before, files = tier.payload_bytes, _tree(folder)
    with full():
        other = {number: np.full(40_000, -1) for number in range(10)}
        _refused(lambda: tier.put(MODEL, Tick(1, 2), other), folder)
        # Neither half of the new, nor less of the old, nor another old.
        _refused(lambda: tier.put(MODEL, ATTEMPT, other), folder)
        for _ in range(2):
            assert set(tier) == {(MODEL, ATTEMPT, number) for number in tensors}
            found = tier.read(list(tier))
            assert all((found[MODEL, ATTEMPT, number] == array).all() for number, array in tensors.items())
        assert tier.payload_bytes == before
    if make is _durable:
        assert _tree(folder) == files
    tier.put(MODEL, Tick(1, 3), tensors)
    assert len(tier) == 20
    tier.free(MODEL, ATTEMPT, tensors)
    tier.free(MODEL, Tick(1, 3), tensors)
    assert tier.payload_bytes == len(tier) == 0


def test_a_read_only_root_can_be_read(read_only: tuple[Path, Full]) -> None:
    path, forbidden = read_only
    root = Root.create(path / "root", shards=2)
    folder = root.shard(0)
    folder.serve(folder.open(1).records)
    folder.append(["a"])
    folder.write_segment(MODEL, ATTEMPT, {0: np.arange(3)})
    # Linux makes nothing read-only that is open for writing.
    folder.close()
    before = _tree(path)
    with forbidden():
        assert read_shard(root.path, 0) == ("a",)
        assert Root.open(root.path).scopes() == {}
        assert folder.open_segment(MODEL, ATTEMPT).read()[0].tolist() == [0, 1, 2]
        for action in (
            lambda: Root.create(path / "other"),
            lambda: take_lease(root, Holder("s", "a", "j"), lambda holder: None),
            lambda: root.declare_scope("scope", None),
            lambda: root.shard(1).open(1),
            lambda: folder.write_segment(MODEL, Tick(1, 2), {0: np.arange(3)}),
            lambda: SpillingTensors(path / "spill", 0),
            lambda: root.check_sight(root.repository_id),
        ):
            error = _refused(action, path)
            assert error.errno in (errno.EROFS, errno.EACCES)
        assert _tree(path) == before
    folder = root.shard(0)
    folder.serve(folder.open(1).records)
    folder.append(["b"])
    assert read_shard(root.path, 0) == ("a", "b")


def test_a_scratch_folder_deleted_under_a_running_provider(tmp_path: Path) -> None:
    tier = SpillingTensors(tmp_path / "spill", 1000)
    tier.put(MODEL, ATTEMPT, {number: np.full(100, number) for number in range(3)})
    assert tier.memory_bytes == 800
    shutil.rmtree(tmp_path / "spill")
    (kept,) = (key for key in tier if key in tier._buffer.fast)  # type: ignore[attr-defined]
    assert tier[kept][0] == kept[2]
    _refused(lambda: tier.put(MODEL, Tick(1, 2), {0: np.zeros(1000)}), tmp_path / "spill")
    for key in tier:
        if key != kept:
            _refused(lambda key=key: tier[key], tmp_path / "spill", writes=False)  # type: ignore[misc]
    assert len(tier) == 3
    tier.free(MODEL, ATTEMPT, range(3))
    assert len(tier) == 0
    (tmp_path / "spill").mkdir()
    tier.put(MODEL, Tick(1, 2), {0: np.zeros(1000)})
    assert tier[MODEL, Tick(1, 2), 0].size == 1000
