"""A link inside a root leads nowhere: it is refused by name before anything is read or written behind it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import daskevo
from daskevo.errors import CorruptRecord, DaskevoError
from daskevo.store.files import open_inside
from daskevo.store.root import Root
from daskevo.store.segment import Segment
from daskevo.types import ModelId, Tick

GOLDEN = Path(__file__).parents[1] / "corpus" / "golden" / "v1" / "root"
FOLDERS = ("shards", "shards/000", "shards/000/segments")
FILES = ("repository.json", "scopes.json", "cluster.json", "generation.1", "shards/000/epoch", "shards/000/journal.1")
SEGMENT = "shards/000/segments/third.1-5.seg"
NAMED = "is a link, which daskevo neither makes nor follows"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "root")
    return tmp_path / "root"


def lead_outside(path: Path) -> Path:
    """Put a link in the place of a file or folder, to a copy of it elsewhere; return that place."""
    outside = Path(str(path).partition("/root/")[0]) / "outside"
    outside.mkdir()
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)
    return outside


@pytest.mark.parametrize("what", [*FOLDERS, *FILES, SEGMENT])
def test_a_link_is_refused_by_name_and_nothing_behind_it_changes(root: Path, what: str) -> None:
    outside = lead_outside(root / what)
    before = files(outside)
    said = []
    for repair in (False, True):
        try:
            found = daskevo.open(root, "test").verify(repair=repair)
            said += [difference.words for difference in found.differences]
            said += [lost.words for lost in found.lost]
        except DaskevoError as error:
            said.append(str(error))
    # What decides nothing is not read, or replaced by whoever opens the root next: the link goes.
    if what not in ("cluster.json", "generation.1", "shards/000/epoch"):
        assert any(NAMED in words and str(root / what) in words for words in said), said
    assert files(outside) == before


@pytest.mark.parametrize("what", FOLDERS[1:])
def test_nothing_is_written_behind_a_link(root: Path, what: str) -> None:
    shard = Root.open(root).shard(0)
    outside = lead_outside(root / what)
    before = files(outside)
    with pytest.raises(CorruptRecord, match=NAMED):
        shard.open(9)
    with pytest.raises(CorruptRecord, match=NAMED):
        shard.write_segment(ModelId("m"), Tick(1, 1), {0: np.arange(3)})
    assert files(outside) == before


def test_a_temporary_file_of_a_guessed_name_is_not_followed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root.parent / "outside").write_bytes(b"theirs")
    monkeypatch.setattr("daskevo.store.files.secrets.token_hex", lambda n: "0" * 2 * n)
    shard = Root.open(root).shard(0)
    path = shard.segment_path(ModelId("m"), Tick(1, 1))
    path.with_name(f"{path.name}.00000000.tmp").symlink_to(root.parent / "outside")
    with pytest.raises(DaskevoError):
        shard.write_segment(ModelId("m"), Tick(1, 1), {0: np.arange(3)})
    assert (root.parent / "outside").read_bytes() == b"theirs"


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    (root / SEGMENT).unlink()
    os.mkfifo(root / SEGMENT)
    with pytest.raises(CorruptRecord, match="no file but a pipe"):
        Segment.open(root / SEGMENT)
    with pytest.raises(IsADirectoryError):
        open_inside(root / "shards")


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert daskevo.open(root.parent / "link").verify(repair=True).clean
    assert len(daskevo.open(root.parent / "link").read("third")) == 2
