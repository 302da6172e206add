"""Each kind of damage is made on purpose, in a root, in memory and in the coordinator; verify finds and names each."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import daskevo
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.records import Dropped, Generation, Record, Referred, Retiring, Staged, record_from_json
from daskevo.provider.served_shard import open_shard
from daskevo.store.root import Root
from daskevo.store.shard_state import read_shard
from daskevo.types import ModelId, TensorSpec, Tick
from daskevo_plugins.coordinator.attempt_settler import Settler
from daskevo_plugins.coordinator.plugin import CoordinatorPlugin
from tests.cluster.helpers import at_rest, chain, evict_all, evo_cluster, make, open_here, plugin_of, reserve

GRAPH, WIDER = chain(8, 6), chain(8, 6, 3)
SHARDS = 4


def id_in(shard: int, stem: str) -> ModelId:
    """Return an id whose home is a shard."""
    return next(ModelId(f"{stem}{n}") for n in range(999) if shard_of(ModelId(f"{stem}{n}"), SHARDS) == shard)


BASE, HEIR, OTHER = id_in(0, "base"), id_in(1, "heir"), id_in(2, "other")
"""`HEIR` inherits from `BASE`, `OTHER` from nobody."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix")

    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, folder / "root", shards=SHARDS)
        await make(repository, GRAPH, BASE, seed=1)
        shutil.copytree(folder / "root" / "shards" / "000", folder / "earlier")
        await make(repository, WIDER, HEIR, score=0.6)
        await make(repository, GRAPH, OTHER, keep=False, seed=2)
        await at_rest(s, a)

    fill()
    assert daskevo.open(folder / "root").verify().clean
    return folder / "root"


def segment_of(root: Path, model: str) -> Path:
    (found,) = root.rglob(f"{model}.*.seg")
    return found


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def journal_of(root: Path, shard: int) -> Path:
    (found,) = (root / "shards" / f"{shard:03d}").glob("journal.*")
    return found


def append(root: Path, shard: int, make_records: Callable[[Any], Sequence[Record]]) -> None:
    """Write records into a shard's journal as a provider does that dies before it carries them out."""
    rows = [record_from_json(row) for row in read_shard(root, shard)]
    generation = max(record.generation for record in rows if isinstance(record, Generation))
    folder = Root.open(root).shard(shard)
    state = open_shard(folder, shard, generation, Tick(0, 0)).state
    folder.append([record.to_json() for record in make_records(state)])
    folder.close()


def flip_a_tensor(root: Path) -> None:
    path = segment_of(root, BASE)
    flip(path, path.stat().st_size - 150)


def flip_the_header(root: Path) -> None:
    flip(segment_of(root, BASE), 60)


def flip_the_trailer(root: Path) -> None:
    flip(segment_of(root, BASE), -3)


def cut(root: Path) -> None:
    os.truncate(segment_of(root, BASE), 200)


def lose_a_file(root: Path) -> None:
    segment_of(root, BASE).unlink()


def swap_in_another_model(root: Path) -> None:
    shutil.copy(segment_of(root, OTHER), segment_of(root, BASE))


def _written_anew(root: Path, change: Callable[[dict[int, Any]], dict[int, Any]]) -> None:
    folder = Root.open(root).shard(0)
    (file,) = [file for file in folder.segments() if file.model_id == BASE]
    tensors = dict(folder.open_segment(BASE, file.attempt).read())
    folder.write_segment(BASE, file.attempt, change(tensors))


def write_other_values(root: Path) -> None:
    _written_anew(root, lambda tensors: {**tensors, 0: np.zeros_like(tensors[0])})


def leave_a_tensor_out(root: Path) -> None:
    _written_anew(root, lambda tensors: {number: array for number, array in tensors.items() if number})


def flip_a_journal(root: Path) -> None:
    flip(journal_of(root, 0), 100)


def lose_a_journal(root: Path) -> None:
    journal_of(root, 0).unlink()


def lose_a_shard(root: Path) -> None:
    shutil.rmtree(root / "shards" / "000")


def swap_in_another_journal(root: Path) -> None:
    shutil.copy(journal_of(root, 1), journal_of(root, 0))


def restore_an_earlier_shard(root: Path) -> None:
    lose_a_shard(root)
    shutil.copytree(root.parent.parent / "earlier", root / "shards" / "000")


def spoil_the_marks(root: Path) -> None:
    (root / "shards" / "000" / "lost.json").write_text("{")


def leave_a_half_written_segment(root: Path) -> None:
    path = segment_of(root, BASE)
    shutil.copy(path, path.with_name(path.name + ".0123abcd.tmp"))


def leave_a_segment(root: Path) -> None:
    folder = Root.open(root).shard(0)
    folder.write_segment(id_in(0, "never-put"), Tick(1, 999), {0: np.zeros(3)})


def leave_a_half_written_epoch(root: Path) -> None:
    (root / "shards" / "000" / "epoch.0123abcd.tmp").write_text("{")


def leave_a_reference(root: Path) -> None:
    append(root, 0, lambda state: [Referred(BASE, id_in(1, "never-put"), Tick(1, 999), frozenset({0}))])


def lose_a_reference(root: Path) -> None:
    append(
        root,
        0,
        lambda state: [
            Dropped(owner, model, attempt, frozenset({0}))
            for owner, (model, attempt), _ in state.references
            if model == HEIR
        ],
    )


def leave_staged(root: Path) -> None:
    model = id_in(0, "never-put")
    record = ModelRecord(
        model, Tick(1, 999), "test", GRAPH.text, OwnerMap((OwnerEntry(model, 0, "0" * 32, 1),)),
        {0: TensorSpec((2,), "float32")}, Tick(1, 999),
    )  # fmt: skip
    append(root, 0, lambda state: [Staged(record, None)])


def leave_a_retirement(root: Path) -> None:
    append(root, 1, lambda state: [Retiring(HEIR, dict(state.models[HEIR].held))])


def spoil_a_record(root: Path) -> None:
    """Journal a record whose checksum is right, and which fits nothing."""
    append(root, 1, lambda state: [Referred(id_in(1, "never-put"), HEIR, Tick(1, 999), frozenset({7}))])


BASE_IS = BASE + r"\."
SHARD = "shard 0"
ON_DISK: dict[Callable[[Path], None], tuple[str, str]] = {
    flip_a_tensor: ("damaged tensor", BASE_IS),
    flip_the_header: ("damaged tensor", BASE_IS),
    flip_the_trailer: ("damaged tensor", BASE_IS),
    cut: ("damaged tensor", BASE_IS),
    swap_in_another_model: ("damaged tensor", f"{BASE_IS}.*segment of '{OTHER}'"),
    write_other_values: ("damaged tensor", f"tensor 0 in .*{BASE_IS}.* not the one that its record names"),
    leave_a_tensor_out: ("damaged tensor", f"{BASE_IS}.* lacks tensor 0"),
    lose_a_file: ("missing file", f"segment of {BASE}"),
    flip_a_journal: ("damaged shard", SHARD),
    lose_a_journal: ("damaged shard", SHARD),
    lose_a_shard: ("damaged shard", SHARD),
    swap_in_another_journal: ("damaged shard", SHARD),
    restore_an_earlier_shard: ("missing reference", f"{HEIR} uses tensors .* of {BASE}"),
    lose_a_reference: ("missing reference", f"{HEIR} uses tensors .* of {BASE}"),
    spoil_the_marks: ("damaged marks", "shards/000/lost.json"),
    leave_a_half_written_segment: ("leftover file", r"0123abcd\.tmp"),
    leave_a_segment: ("leftover file", "never-put"),
    leave_a_half_written_epoch: ("leftover file", r"epoch\.0123abcd\.tmp"),
    leave_a_reference: ("leftover reference", f"never-put.*{BASE}"),
    leave_staged: ("leftover staged", "never-put"),
    leave_a_retirement: ("unfinished retirement", HEIR),
    spoil_a_record: ("unusable record", "never-put|" + HEIR),
}


@pytest.mark.parametrize("damage", ON_DISK, ids=lambda damage: damage.__name__)
def test_on_the_disk(damage: Callable[[Path], None], filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled.parent / "earlier", tmp_path / "earlier")
    root = tmp_path / "here" / "root"
    shutil.copytree(filled, root)
    damage(root)
    kind, words = ON_DISK[damage]
    verification = daskevo.open(root).verify()
    found = [difference.words for difference in verification.differences if difference.kind == kind]
    assert any(re.search(words, said) for said in found), verification.differences


def not_taken_in(host: Any, key: Any) -> None:
    """As if a late opening had let go of what the present one serves."""
    host.tensors.free(*key[:2], [key[2]])


def spoilt_in_the_cache(host: Any, key: Any) -> None:
    host.tensors.read([key])
    host.tensors._cache.d[key] = np.zeros_like(host.tensors[key])


IN_MEMORY = {not_taken_in: "does not know of them", spoilt_in_the_cache: "in its provider's memory"}


@pytest.mark.parametrize("damage", IN_MEMORY, ids=lambda damage: damage.__name__)
def test_in_the_memory_before_a_root(damage: Callable[[Any, Any], None], tmp_path: Path) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root", shards=SHARDS)
        await make(repository, GRAPH, BASE, seed=1)
        host = plugin_of(a).host
        damage(host, next(iter(host.tensors)))
        (found,) = (await repository.verify()).differences
        assert (found.kind, found.model) == ("damaged tensor", BASE)
        assert IN_MEMORY[damage] in found.words
        # Nothing is lost: what is on the disk is whole.
        repaired = await repository.verify(repair=True)
        assert (repaired.clean, repaired.lost) == (True, ())
        assert found in repaired.mended
        assert len(await repository.read(BASE)) == 4
        assert (await repository.verify()).clean

    run()


def written_to(host: Any, key: Any) -> None:
    host.tensors._buffer.fast.d[key] = np.zeros_like(host.tensors[key])


def spoilt_where_it_was_spilled(host: Any, key: Any) -> None:
    evict_all(host.tensors)
    flip(host.tensors.spilled._segments[key].path, -60)


def gone(host: Any, key: Any) -> None:
    del host.tensors[key]


@pytest.mark.usefixtures("looks_again_at_once")
@pytest.mark.parametrize("damage", [written_to, spoilt_where_it_was_spilled, gone], ids=lambda damage: damage.__name__)
def test_without_a_root(damage: Callable[[Any, Any], None]) -> None:
    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, None, shards=SHARDS)
        await make(repository, GRAPH, BASE, seed=1)
        host = plugin_of(a).host
        key = next(iter(host.tensors))
        damage(host, key)
        (found,) = (await repository.verify()).differences
        assert (found.kind, found.model, found.numbers) == ("damaged tensor", BASE, frozenset({key[2]}))

    run()


@pytest.mark.usefixtures("looks_again_at_once")
@evo_cluster()
async def test_what_an_end_that_nobody_heard_leaves(c: Any, s: Any, a: Any, t: Any, monkeypatch: Any) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("a hook that fails")

    async def late(self: Settler, settle: Any) -> None:
        self.core.postpone(settle)

    repository = await open_here(c, None, shards=SHARDS)
    await make(repository, GRAPH, BASE, seed=1)
    monkeypatch.setattr(CoordinatorPlugin, "remove_client", broken)
    monkeypatch.setattr(Settler, "_settle", late)
    async with Client(s.address, asynchronous=True) as other:
        await reserve(await open_here(other, None), WIDER, HEIR)
        assert (await repository.verify()).clean
    found = (await repository.verify()).differences
    assert {(difference.kind, difference.model) for difference in found} == {("leftover reference", HEIR)}
    assert (await repository.verify(repair=True)).clean
