"""Segments of a shard: written beside its owner, listed, opened, deleted."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.store.root import Root
from daskevo.store.segment_names import segment_name
from daskevo.types import ModelId, Tick


@pytest.fixture(params=["written", "synced"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Root:
    return Root.create(tmp_path / "root", shards=4, durability=request.param)


def test_segments_are_written_beside_the_owner_listed_and_deleted(root: Root) -> None:
    owner, writer = root.shard(1), root.shard(1)
    owner.serve(owner.open(1).records)
    first, second = (ModelId("attn-1"), Tick(1, 5)), (ModelId("Attn-1"), Tick(1, 5))
    for model in (first, second):
        writer.write_segment(*model, {0: np.arange(4), 2: np.ones(3)}, {"step": 1})
    (owner.segments_path / "somebody's notes").write_text("keep")
    leftover = owner.segments_path / (segment_name(ModelId("attn-1"), Tick(1, 6)) + ".0123abcd.tmp")
    leftover.write_bytes(b"half")
    found = {(file.model_id, file.attempt): file for file in owner.segments()}
    assert found.keys() == {first, second, (ModelId("attn-1"), Tick(1, 6))}
    assert found[ModelId("attn-1"), Tick(1, 6)].temporary
    assert not found[first].temporary
    assert owner.open_segment(*first).read([2])[2].tolist() == [1, 1, 1]
    assert owner.open_segment(*first).meta["extra"] == {"step": 1}
    freed = owner.delete([first, (ModelId("attn-1"), Tick(1, 6))], temporary=True)
    assert freed == found[first].nbytes + 4
    assert {(file.model_id, file.attempt) for file in owner.segments()} == {second}
    assert owner.delete([first]) == 0
    assert owner.delete([]) == 0
    with pytest.raises(CorruptRecord, match="no such file"):
        owner.open_segment(*first)
    os.rename(owner.segment_path(*second), owner.segment_path(*first))
    with pytest.raises(CorruptRecord, match="segment of 'Attn-1'"):
        owner.open_segment(*first)
    assert (owner.segments_path / "somebody's notes").read_text() == "keep"


@pytest.mark.parametrize(
    "model_id", ["", "../x", "a/b", "..", ".", "a\0", "a\n", "x" * 101, "ä", "a~1", "%2e%2e", "C:\\x"]
)
def test_hostile_ids_never_become_paths(root: Root, model_id: str) -> None:
    folder = root.shard(1)
    folder.serve(folder.open(1).records)
    with pytest.raises(InvalidInput):
        folder.segment_path(ModelId(model_id), Tick(1, 1))
    with pytest.raises(InvalidInput):
        folder.write_segment(ModelId(model_id), Tick(1, 1), {0: np.arange(3)})
    assert list(folder.segments()) == []
