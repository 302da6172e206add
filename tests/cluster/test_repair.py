"""What a repair does and says: mended, lost for good, foreign; killed in the middle and begun again; two at once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.errors import CorruptRecord, ModelLost, RepositoryTaken
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Drop
from daskevo.protocol.replies import Ok
from daskevo.provider import scrub
from daskevo.store.losses import Loss, merged, read_losses, write_losses
from daskevo.store.repair_lock import only_repair
from daskevo.store.root import Root
from daskevo.types import ModelId
from tests.cluster.helpers import at_rest, chain, coordinator_of, evict_all, evo_cluster, make, open_here, plugin_of
from tests.corpus.make_golden import SECOND as SECOND_GRAPH

GOLDEN = Path(__file__).parents[1] / "corpus" / "golden" / "v1" / "root"
"""`first` is retired, `Second` inherits from it, `third` from nobody."""
FIRST, SECOND, THIRD = (
    f"shards/{name}.seg" for name in ("000/segments/first.1-1", "001/segments/second~1.1-3", "000/segments/third.1-5")
)
TWO_SHARDS: dict[str, Any] = {"shards": 2}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "root")
    return tmp_path / "root"


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def kinds(found: Any) -> list[str]:
    return sorted(difference.kind for difference in found)


def test_what_is_gone_is_marked_and_named_from_then_on(root: Path) -> None:
    (root / FIRST).rename(root.parent / "kept")
    before = files(root)
    looked = daskevo.open(root).verify()
    assert (looked.clean, looked.lost, looked.mended) == (False, (), ())
    assert kinds(looked.differences) == ["damaged tensor", "missing file"]
    assert files(root) == before

    repository = daskevo.open(root)
    repaired = repository.verify(repair=True)
    (lost,) = repaired.lost
    assert (repaired.clean, repaired.mended, lost.model) == (True, (), "Second")
    assert "those of first" in lost.words
    assert lost.words.endswith("there is no such file")
    assert repaired.to_json()["lost"] == [{"model": "Second", "since": lost.since, "words": lost.words}]
    with pytest.raises(
        ModelLost, match=rf"tensors \[.*\] of 'first' are gone .* at {re.escape(lost.since)}.*retire 'Second'"
    ) as caught:
        repository.read("Second")
    assert (caught.value.since, caught.value.owner) == (lost.since, "first")
    assert len(repository.read("third")) == 2

    again = daskevo.open(root)
    assert again.verify().lost == again.verify(repair=True).lost == (lost,)
    # A copy of the file is found: nothing is lost any more, and the next repair forgets the mark.
    (root.parent / "kept").rename(root / FIRST)
    assert len(daskevo.open(root).read("Second")) == 6
    assert daskevo.open(root).verify().lost == ()
    assert (root / "shards/000/lost.json").exists()
    assert daskevo.open(root).verify(repair=True).lost == ()
    assert not (root / "shards/000/lost.json").exists()


def test_one_tensor_is_lost_and_the_others_of_its_file_are_not(root: Path) -> None:
    data = bytearray((root / FIRST).read_bytes())
    segment = Root.open(root).shard(0).open_segment(ModelId("first"), daskevo.open(root).status("first").record.attempt)
    data[segment.payload + segment.entries[0].offset] ^= 1
    (root / FIRST).write_bytes(data)
    (lost,) = daskevo.open(root).verify(repair=True).lost
    assert "tensors [0] (those of first)" in lost.words
    assert [loss.numbers for loss in read_losses(root / "shards/000")] == [frozenset({0})]
    with pytest.raises(ModelLost):
        daskevo.open(root).read("Second")
    assert daskevo.open(root).read("Second", [2])


def test_what_died_writers_left_goes_and_what_is_foreign_stays(root: Path) -> None:
    left = (
        "scopes.json.01234567.tmp",
        "shards/000/epoch.89abcdef.tmp",
        f"{SECOND}.01234567.tmp",
        "generation.1",
    )
    (root / "generation.2").write_bytes(
        (root / "generation.1").read_bytes().replace(b'"generation":1', b'"generation":2')
    )
    for name in left[:-1]:
        (root / name).write_bytes(b"1234567")
    foreign = ["notes.txt", "shards/000/segments/x.npy", "shards/007", "shards/elsewhere"]
    for name in foreign[:2]:
        (root / name).write_text("mine")
    (root / "shards/007").mkdir()
    (root / "shards/elsewhere").symlink_to(root.parent)
    (root / ".nfs0001").write_text("of the file system")
    # Whoever made generation.2 has not given it back: a writer may be at work, and temporary files may be its own.
    in_use = daskevo.open(root).verify()
    assert [difference.words.split(",")[0] for difference in in_use.differences] == ["generation.1"]
    assert sorted(in_use.foreign) == foreign
    cluster = json.loads((root / "cluster.json").read_text())
    (root / "cluster.json").write_text(json.dumps(cluster | {"generation": 2}))
    looked = daskevo.open(root).verify()
    assert sorted(difference.words.split(",")[0] for difference in looked.differences) == sorted(left)
    repaired = daskevo.open(root).verify(repair=True)
    assert repaired.clean
    assert kinds(repaired.mended) == ["leftover file"] * 4
    assert sorted(repaired.foreign) == foreign
    assert not any((root / name).exists() for name in left)
    assert all((root / name).exists() for name in foreign)


def test_bytes_are_those_on_the_disk(root: Path) -> None:
    found = daskevo.open(root).verify()
    assert found.file_bytes == sum(map(len, files(root).values()))
    assert found.payload_bytes < found.file_bytes


def test_a_second_repair_at_once_is_refused_by_name(root: Path) -> None:
    repository = daskevo.open(root)
    before = files(root)
    with only_repair(Root.open(root)), pytest.raises(RepositoryTaken, match=r"another repair of .* is under way"):
        repository.verify(repair=True)
    assert files(root) == before
    assert repository.verify(repair=True).clean


KILLED = """
import logging, os, shutil, signal, sys
import daskevo
logging.disable()
golden, work = sys.argv[1:]
NAMES = ("replace", "link", "unlink", "write", "mkdir")

def repair_until(root, calls):
    def counted(real):
        def call(*arguments, **options):
            nonlocal calls
            calls -= 1
            if calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)
        return call
    for name in NAMES:
        setattr(os, name, counted(getattr(os, name)))
    daskevo.open(root).verify(repair=True)

died = 0
for calls in range(0, 400, 11):
    root = os.path.join(work, str(calls))
    shutil.copytree(golden, root)
    child = os.fork()
    if child == 0:
        repair_until(root, calls)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    died += 1
print(died)
"""


@pytest.mark.long
def test_a_repair_that_was_killed_is_done_again(root: Path, tmp_path: Path) -> None:
    (root / FIRST).unlink()
    (root / "scopes.json.01234567.tmp").write_bytes(b"1")
    (tmp_path / "work").mkdir()
    told = subprocess.run(
        [sys.executable, "-c", KILLED, root, tmp_path / "work"], capture_output=True, text=True, timeout=200
    )
    assert (told.returncode, told.stderr) == (0, "")
    died = int(told.stdout)
    assert died >= 3
    for calls in range(0, 11 * died, 11):
        repaired = daskevo.open(tmp_path / "work" / str(calls)).verify(repair=True)
        assert repaired.clean, (calls, repaired)
        assert [lost.model for lost in repaired.lost] == ["Second"]
        assert repaired.models == 2


def test_marks_that_cannot_be_read_are_said_and_written_anew(root: Path) -> None:
    (root / THIRD).unlink()
    daskevo.open(root).verify(repair=True)
    (root / "shards/000/lost.json").write_text("{}")
    looked = daskevo.open(root).verify()
    assert sorted(difference.kind for difference in looked.differences)[0] == "damaged marks"
    with pytest.raises(CorruptRecord):
        daskevo.open(root).read("third")
    repaired = daskevo.open(root).verify(repair=True)
    assert (repaired.clean, [lost.model for lost in repaired.lost]) == (True, ["third"])


def test_marks_keep_the_time_they_were_made(tmp_path: Path) -> None:
    owner, numbers = ModelId("m"), frozenset({1, 2})
    old = merged([], [(owner, numbers, "it is cut")], "2026-01-01T00:00:00+00:00")
    write_losses(tmp_path, old)
    assert read_losses(tmp_path) == old == [Loss(owner, numbers, "2026-01-01T00:00:00+00:00", "it is cut")]
    new = merged(old, [(owner, frozenset({2, 3}), "it is gone")], "2027-01-01T00:00:00+00:00")
    assert [(loss.numbers, loss.since[:4], loss.found) for loss in new] == [
        ({2}, "2026", "it is cut"),
        ({3}, "2027", "it is gone"),
    ]
    write_losses(tmp_path, [])
    assert (read_losses(tmp_path), os.listdir(tmp_path)) == ([], [])


@evo_cluster(trainers=0)
async def test_of_two_repairs_at_once_the_first_mark_stays(
    c: Any, s: Any, a: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would read before either writes."""

    async def in_turns(work: Any, *arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        return work(*arguments, **options)

    await open_here(c, tmp_path / "root", **TWO_SHARDS)
    host = plugin_of(a).host
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "to_thread", in_turns)
        marked = [scrub.mark_lost(host, 0, [["first", [0, 1], words]]) for words in ("it is cut", "it is gone")]
        assert await asyncio.gather(*marked) == [True, True]
    ((owner, numbers, _, found),) = read_losses(tmp_path / "root/shards/000")
    assert (owner, numbers, found) == ("first", {0}, "it is cut")


@pytest.mark.usefixtures("looks_again_at_once")
@evo_cluster()
async def test_in_use(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    """References that an older copy of a shard doesn't know come back; what is lost is named, retired, forgotten."""
    repository = await open_here(c, tmp_path / "root", **TWO_SHARDS)
    await make(repository, chain(8, 6, 3), "base", seed=1)
    heir = await make(repository, chain(8, 6, 5), "heir", seed=2)
    session = repository.connection.session
    await session.outbox.sent()
    assert isinstance(await session.send(Drop(ModelId("base"), ModelId("heir"), heir.record.attempt), Ok), Ok)
    assert kinds((await repository.verify()).differences) == ["missing reference"]
    repaired = await repository.verify(repair=True)
    assert (repaired.clean, kinds(repaired.mended)) == (True, ["missing reference"])
    await repository.retire("base")
    await at_rest(s, a)
    assert len(await repository.read("heir")) == 6

    (segment,) = (tmp_path / "root").rglob("heir.*.seg")
    segment.write_bytes(segment.read_bytes()[:100])
    (lost,) = (await repository.verify(repair=True)).lost
    assert lost.model == "heir"
    with pytest.raises(ModelLost, match=re.escape(lost.since)):
        await repository.read("heir")
    await repository.retire("heir")
    await at_rest(s, a)
    after = await repository.verify(repair=True)
    assert (after.clean, after.lost, after.tensors) == (True, (), 0)
    assert not list((tmp_path / "root").rglob("lost.json"))


def test_a_look_matches_no_model_that_is_marked(root: Path) -> None:
    assert daskevo.open(root, "test").best_match([SECOND_GRAPH])[0].model_id == "Second"
    kept = (root / FIRST).rename(root.parent / "kept")
    assert daskevo.open(root, "test").verify(repair=True).lost
    found = daskevo.open(root, "test").best_match([SECOND_GRAPH])
    assert (found[0].model_id, found.partial) == ("third", {})
    kept.rename(root / FIRST)
    assert daskevo.open(root, "test").verify(repair=True).lost == ()
    assert daskevo.open(root, "test").best_match([SECOND_GRAPH])[0].model_id == "Second"


@evo_cluster(providers=2, trainers=0)
async def test_marked_models_leave_every_index_and_come_back(c: Any, s: Any, a: Any, b: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root")
    hosts = [plugin_of(worker).host for worker in (a, b)]
    graph, other = chain(8, 6, 3), chain(8, 5)
    await make(repository, graph, "base", seed=1)
    heirs = [f"heir-{number}" for number in range(8)]
    for number, name in enumerate(heirs):
        await make(repository, graph, name, tensors={4: np.full((6, 3), number, np.float32)})
    await make(repository, other, "sound", seed=99, keep=False)
    assert len({shard_of(ModelId(name), 8) for name in heirs}) > 1
    (segment,) = (tmp_path / "root").rglob("base.*.seg")
    kept = segment.read_bytes()
    segment.write_bytes(kept[:100])
    for host in hosts:
        evict_all(host.tensors)

    def matched() -> set[str]:
        return {name for name in ["base", *heirs, "sound"] for host in hosts if name in host.models.index}

    assert matched() == {"base", *heirs, "sound"}
    assert {lost.model for lost in (await repository.verify(repair=True)).lost} == {"base", *heirs}
    assert matched() == {"sound"}
    assert (await repository.best_match([graph]))[0].model_id == "sound"
    # A shard that moves is indexed anew, by somebody who may not have the marks.
    home = shard_of(ModelId("heir-0"), 8)
    (server,) = (host for host in hosts if home in host.shards)
    await server.close_shards([home])
    coordinator_of(s)._core.not_served(home, server.name)
    await coordinator_of(s)._registry.assigner.assign()
    while coordinator_of(s)._untold or coordinator_of(s)._telling.locked() or len(matched()) != 1:
        await asyncio.sleep(0.01)
    await repository.retire("heir-7")
    segment.write_bytes(kept)
    assert (await repository.verify(repair=True)).lost == ()
    assert matched() == {"base", *heirs[:-1], "sound"}


@evo_cluster(providers=2, trainers=0)
async def test_the_next_job_matches_no_model_that_is_marked(c: Any, s: Any, a: Any, b: Any, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "root")
    (tmp_path / "root" / FIRST).unlink()
    assert (await asyncio.to_thread(lambda: daskevo.open(tmp_path / "root").verify(repair=True))).lost
    repository = await open_here(c, tmp_path / "root", objective=None, shards=2)
    assert (await repository.best_match([SECOND_GRAPH]))[0].model_id == "third"
    assert [ModelId("Second") in plugin_of(worker).host.models.index for worker in (a, b)] == [False, False]
