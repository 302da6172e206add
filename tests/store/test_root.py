"""The root folder: making, opening, refusing, scopes."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, DurabilityMismatch, InvalidInput, InvalidName, RootUnusable, ScopeMismatch
from daskevo.store.root import Root
from daskevo.store.shard_state import read_shard


def test_made_once_opened_after(tmp_path: Path) -> None:
    made = Root.create(tmp_path / "a" / "b", shards=7, durability="synced")
    assert made.shards == 7
    assert Root.create(tmp_path / "a" / "b", shards=64) == Root.open(tmp_path / "a" / "b")
    assert Root.open(tmp_path / "a" / "b") == made
    assert json.loads((made.path / "repository.json").read_text()) == {
        "format": 1,
        "repository_id": made.repository_id,
        "shards": 7,
        "created": made.created,
        "durability": "synced",
    }
    assert Root.create(tmp_path / "c").repository_id != made.repository_id
    assert sorted(path.name for path in made.path.iterdir()) == ["repository.json", "shards"]


def test_a_root_keeps_the_durability_it_was_made_with(tmp_path: Path) -> None:
    for durability in ("volatile", "written", "synced"):
        made = Root.create(tmp_path / durability, durability=durability)
        assert Root.open(made.path).durability == Root.create(made.path).durability == durability
        for other in {"volatile", "written", "synced"} - {durability}:
            with pytest.raises(DurabilityMismatch, match=f"'{other}' was asked for") as no:
                Root.create(made.path, durability=other)  # type: ignore[arg-type]
            assert (no.value.asked, no.value.found, no.value.root) == (other, durability, str(made.path))
    assert Root.create(tmp_path / "default").durability == "written"


def test_a_root_that_does_not_say_its_durability_is_written(tmp_path: Path) -> None:
    made = Root.create(tmp_path / "root", durability="synced")
    file = made.path / "repository.json"
    description = json.loads(file.read_text())
    del description["durability"]
    file.write_text(json.dumps(description))
    assert Root.open(made.path).durability == "written"
    file.write_text(json.dumps({**description, "durability": "eternal"}))
    with pytest.raises(CorruptRecord, match="eternal"):
        Root.open(made.path)


def test_several_makers_make_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        roots = list(pool.map(lambda n: Root.create(tmp_path / "root", shards=n), range(1, 9)))
    assert len(set(roots)) == 1


@pytest.mark.parametrize("shards", [0, -1, 4097, 1.0, "4", True, None])
def test_numbers_of_shards_that_can_not_be(tmp_path: Path, shards: Any) -> None:
    with pytest.raises(InvalidInput):
        Root.create(tmp_path / "root", shards=shards)
    assert not (tmp_path / "root").exists()


def test_nothing_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(RootUnusable) as caught:
            Root.open(path)
        assert caught.value.folder == str(path)
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "root"):
        with pytest.raises(RootUnusable):
            Root.create(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'"x"',
        b"\xff",
        b'{"format":1}',
        b'{"format":1,"repository_id":"x","shards":0,"created":"x"}',
        b'{"format":1,"repository_id":"x","shards":true,"created":"x"}',
        b'{"format":1,"repository_id":"x","shards":99999999999,"created":"x"}',
        b'{"format":1,"repository_id":7,"shards":4,"created":"x"}',
        b" " * (2 << 20),
        b"[" * 100_000,
    ],
)
def test_a_damaged_description_is_named_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "repository.json").write_bytes(content)
    for opening in (Root.open, Root.create):
        with pytest.raises(CorruptRecord) as caught:
            opening(tmp_path)
        assert caught.value.path == str(tmp_path / "repository.json")
    assert (tmp_path / "repository.json").read_bytes() == content


def test_a_later_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "repository.json").write_text('{"format":2}')
    with pytest.raises(CorruptRecord, match="format version 2"):
        Root.open(tmp_path)


def test_shards_without_a_description_are_not_taken_for_a_new_repository(tmp_path: Path) -> None:
    root = Root.create(tmp_path / "root", shards=4)
    folder = root.shard(2)
    folder.serve(folder.open(1).records)
    (root.path / "repository.json").unlink()
    with pytest.raises(CorruptRecord, match=r"repository\.json is gone"):
        Root.create(root.path)


def test_a_host_that_sees_another_root(tmp_path: Path) -> None:
    here, there = Root.create(tmp_path / "here"), Root.create(tmp_path / "there")
    here.check_sight(here.repository_id)
    with pytest.raises(RootUnusable, match="that every host sees"):
        here.check_sight(there.repository_id)
    (here.path / "shards").rename(here.path / "moved")
    with pytest.raises(RootUnusable):
        here.check_sight(here.repository_id)


def test_scopes_keep_their_objective(tmp_path: Path) -> None:
    root = Root.create(tmp_path / "root")
    assert root.scopes() == {}
    assert root.declare_scope("attn", None) is None
    assert root.declare_scope("attn", "max  val_auc") == "max val_auc"
    assert root.declare_scope("attn", None) == "max val_auc"
    assert root.declare_scope("Attn", "min loss") == "min loss"
    assert Root.open(root.path).scopes() == {"attn": "max val_auc", "Attn": "min loss"}
    with pytest.raises(ScopeMismatch, match="min val_auc") as caught:
        root.declare_scope("attn", "min val_auc")
    assert caught.value.objective == "max val_auc"
    with pytest.raises(InvalidName):
        root.declare_scope("../x", None)
    with pytest.raises(InvalidInput):
        root.declare_scope("attn", "best val_auc")
    assert root.scopes() == {"attn": "max val_auc", "Attn": "min loss"}


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":1,"scopes":{"a":1}}', b'{"format":2,"scopes":{}}'])
def test_damaged_scopes(tmp_path: Path, content: bytes) -> None:
    root = Root.create(tmp_path / "root")
    (root.path / "scopes.json").write_bytes(content)
    with pytest.raises(CorruptRecord) as caught:
        root.declare_scope("attn", None)
    assert caught.value.path == str(root.path / "scopes.json")
    assert (root.path / "scopes.json").read_bytes() == content


@pytest.mark.parametrize("what", ["folder", "content", "all"])
def test_a_shard_that_is_gone_after_all_were_served_is_lost_not_new(tmp_path: Path, what: str) -> None:
    root = Root.create(tmp_path / "root", shards=3)
    for number in range(3):
        shard = root.shard(number)
        shard.open(1)
        shard.serve([])
        shard.close()
    root.mark_served()
    folder = root.path / "shards" / "001"
    shutil.rmtree(folder.parent if what == "all" else folder)
    if what == "content":
        folder.mkdir()
    for look in (lambda: root.shard(1).open(2), lambda: read_shard(root.path, 1)):
        with pytest.raises(CorruptRecord, match=f"Restore the folder {re.escape(str(folder))} from a copy"):
            look()
    assert folder.exists() == (what == "content")


@pytest.mark.parametrize("marked", [True, False])
def test_another_number_of_shards_than_there_are_is_refused(tmp_path: Path, marked: bool) -> None:
    root = Root.create(tmp_path / "root", shards=64)
    (root.path / "shards" / "063").mkdir()
    if marked:
        root.mark_served()
    file = root.path / "repository.json"
    file.write_text(file.read_text().replace('"shards":64', '"shards":32'))
    for opening in (Root.open, Root.create):
        with pytest.raises(CorruptRecord, match="it names 32 shards, but the repository has 64"):
            opening(root.path)
