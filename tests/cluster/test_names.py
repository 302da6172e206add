"""Hostile names on every way in: each is refused by name or is a name like any other, and nothing lies elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import daskevo
from daskevo.errors import DaskevoError, InvalidName, PutFailed
from daskevo.repository import Repository
from daskevo.runs.folder import new_info
from daskevo.store.root import Root
from daskevo.store.segment_names import parse_segment_name, segment_name
from daskevo.testing import HOSTILE_NAMES
from daskevo.types import ModelId, Tick, check_label, check_name
from daskevo_workflows.cli import main
from tests.cluster.helpers import chain, evo_cluster, make, open_here, put_reserved, reserve

NAMES = list(HOSTILE_NAMES.values())


def is_refused(check: Any, name: str) -> bool:
    try:
        check(name)
    except InvalidName as error:
        said = str(error)
    else:
        return False
    # It can be printed, in one line.
    assert said.isprintable()
    return True


FINE = [name for name in NAMES if not is_refused(check_name, name)]
REFUSED = [name for name in NAMES if name not in FINE]
LABELS = [f"user:{name}" for name in NAMES if not is_refused(check_label, f"user:{name}")]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_is_refused_and_what_is_a_name() -> None:
    """The list itself: whoever makes the rule wider sees what comes in."""
    assert {*FINE} == {"a.", "a...", "NUL", "con.txt", "Model", "model", "mODEL", "0", "a" * 100, "A" * 100} | {
        "model.1-1.seg",
        "model.1-1.seg.01234567.tmp",
        "lost.json",
    }
    assert {label[5:] for label in LABELS} - {*FINE} == {
        *(".", "..", "a ", " a", "-rf", ".a", "a" * 101),
        *("m\u043edel", "\uff41\uff42", "\u00e1", "\u0661", "\u0131", "\u00df", "\U0001d41a"),
    }


def test_files_of_shards_are_told_apart_where_case_does_not_count(tmp_path: Path) -> None:
    made = [segment_name(ModelId(name), Tick(1, 1)) for name in FINE]
    assert len({name.lower() for name in made}) == len(FINE)
    assert all(len(os.fsencode(name)) <= 200 and "/" not in name and not name.startswith(".") for name in made)
    assert [parse_segment_name(name) for name in made] == [(name, Tick(1, 1), False) for name in FINE]
    shard = Root.create(tmp_path / "root", shards=1).shard(0)
    for name in REFUSED:
        with pytest.raises(InvalidName):
            shard.segment_path(ModelId(name), Tick(1, 1))
        # What lies there under such a name is nobody's, or is how another id is written.
        found = parse_segment_name(f"{name}.1-1.seg")
        assert found is None or (found[0] in FINE and segment_name(*found[:2]) == f"{name}.1-1.seg")


def test_runs_are_named_so_that_ids_and_labels_can_be_made(tmp_path: Path) -> None:
    labels = set()
    for name in NAMES:
        info = new_info(tmp_path / name.replace("\0", ""), {}, {})
        check_name(f"{info.label}-00001")
        check_label(f"population:{info.label}")
        labels.add(info.label)
    assert len(labels) == len(NAMES)  # of runs in folders of one name, too


@evo_cluster(trainers=0)
async def test_every_name_end_to_end(c: Any, s: Any, a: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "cwd").mkdir()
    (tmp_path / "beside" / "x").write_text("theirs")
    monkeypatch.chdir(tmp_path / "cwd")
    outside = everything(tmp_path)
    root, graph = tmp_path / "root", chain(8, 3)
    repository = await open_here(c, root)
    await make(repository, graph, "first")

    for name in REFUSED:
        with pytest.raises(InvalidName):
            await open_here(c, root, name, objective=None)
        for call in (
            lambda name=name: repository.reserve(graph, model_id=name),
            lambda name=name: repository.reserve(graph, ancestor=name),
            lambda name=name: repository.load(name),
            lambda name=name: repository.read(name),
            lambda name=name: repository.record(name),
            lambda name=name: repository.status(name),
            lambda name=name: repository.retire(name),
            lambda name=name: repository.lineage(name),
            lambda name=name: repository.hold(name, "user:me"),
            lambda name=name: repository.models(name),
        ):
            with pytest.raises(InvalidName):
                await call()
        # Past the handle, as a mistake would come: the coordinator says no. (No message carries half a letter.)
        if name != HOSTILE_NAMES["half a letter"]:
            with pytest.raises(DaskevoError):
                await reserve(repository, graph, name)
    assert [summary.model_id for summary in await repository.models()] == ["first"]

    for name in FINE:
        transport = repository.connection.session.transport
        assert await transport.coordinator("scope", timeout_s=20, scope=name, objective=None) is None
        other = Repository(repository.settings, name, None, 20, repository.connection)
        await make(other, graph, name, labels=[f"user:{name}"])
    assert sorted(summary.model_id for summary in await repository.models()) == sorted([*FINE, "first"])
    for name in FINE:
        assert (await repository.record(name)).scope == name
        assert len(await repository.read(name)) == 4
        assert [summary.model_id for summary in await repository.models(name)] == [name]

    for label in LABELS:
        assert label in await repository.hold("first", label)
    for name in NAMES:
        if f"user:{name}" not in LABELS:
            with pytest.raises(InvalidName):
                await repository.hold("first", f"user:{name}")
            with pytest.raises(InvalidName):
                await repository.release_label(f"user:{name}")
    # One that looks like another is another.
    await repository.release("first", "user:m\u043edel")
    assert {*(await repository.status("first")).labels} >= {*LABELS} - {"user:m\u043edel"}
    child = await reserve(repository, graph, "child")
    with pytest.raises(PutFailed, match="can't be a label"):
        await put_reserved(repository, graph, child, labels=["user:\n"])

    assert (await repository.verify()).clean
    # Whatever was written lies in the root.
    assert {path for path in everything(tmp_path) if path != "root" and not path.startswith("root/")} == outside
    assert (tmp_path / "beside" / "x").read_text() == "theirs"
    assert not any(path.is_symlink() for path in root.rglob("*"))


def test_exports_by_hostile_ids_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Root.create(tmp_path / "root", shards=1)
    daskevo.open(tmp_path / "root")
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    before = everything(tmp_path)

    def export(*arguments: str) -> str:
        told = CliRunner().invoke(main, ["models", "export", str(tmp_path / "root"), "--", *arguments])
        assert isinstance(told.exception, SystemExit), told.exception
        assert told.exit_code in (1, 2)
        return told.stderr

    for name in NAMES:
        if "\udc80" not in name:
            said = export(name)
            assert ("can't be a model id" in said) == (name in REFUSED)
            assert ("there is no model" in said) == (name in FINE)
            # Named as a file: not by its ending, no folder, or nothing to be exported. (No shell passes a zero byte.)
            assert "\0" in name or export("none", name), name
    assert everything(tmp_path) == before
