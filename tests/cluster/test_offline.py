"""A root without a cluster: the same handle, read-only; repair under a lease of its own."""

from __future__ import annotations

import asyncio
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.errors import (
    CorruptRecord,
    InvalidInput,
    ModelRetired,
    NotDeployed,
    PutUnknown,
    RepositoryTaken,
    RootUnusable,
    UnknownModel,
)
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Refer
from daskevo.protocol.replies import Reserved
from daskevo.types import ModelId
from tests.cluster.helpers import chain, evo_cluster, make, open_here, reserve, values
from tests.cluster.roots import GRAPH, WIDER, root_of_two


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with first (retired), second (inherits from it), and bits that nobody gave back; closed."""

    async def not_given_back(repository: Any) -> None:
        connection = repository.connection
        attempt = await connection.session.begin(connection.caller(), ModelId("child"))
        refer = Refer(ModelId("second"), ModelId("child"), attempt, frozenset({4, 5}))
        assert isinstance(await connection.session.send(refer, Reserved), Reserved)
        await connection.session.end(attempt, settled=True)

    return root_of_two(tmp_path / "root", not_given_back)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_look_reads_everything_and_changes_nothing(root: Path) -> None:
    before = files(root)
    repository = daskevo.open(root, "test")
    assert str(repository.objective) == "max score"
    assert [(model.model_id, model.quality) for model in repository.models()] == [("second", 0.9)]
    assert repository.best_match([WIDER, chain(3)])[0].model_id == "second"
    np.testing.assert_array_equal(repository.read("second", [1])[1, 0], values(GRAPH, 1)[0])
    assert [record.model_id for record in repository.lineage("second")] == ["second", "first"]
    assert repository.common_ancestor("second", "first") == "first"
    assert repository.status("first").state == "retired"
    assert [share.owner for share in repository.contributors("second")] == ["first", "second"]
    assert repository.stats()["models"] == 1
    assert [difference.kind for difference in repository.verify().differences] == ["leftover reference"]
    with pytest.raises(UnknownModel):
        repository.record("third")
    with pytest.raises(ModelRetired):
        repository.read("first")
    for call in (
        lambda: repository.hold("second", "user:me"),
        lambda: repository.release("second", "user:kept"),
        lambda: repository.retire("second"),
        lambda: repository.release_label("user:kept"),
    ):
        with pytest.raises(NotDeployed, match="client="):
            call()
    with pytest.raises(InvalidInput):
        pickle.dumps(repository)
    assert files(root) == before


def test_repair_takes_a_generation_of_its_own(root: Path) -> None:
    repository = daskevo.open(root, "test")
    verification = repository.verify(repair=True)
    assert verification.clean, verification.differences
    assert [model.model_id for model in repository.models()] == ["second"]
    assert {path.name for path in root.glob("generation.*")} == {"generation.2"}
    # The next cluster goes on.
    read = {}

    @evo_cluster()
    async def reopen(c: Any, s: Any, a: Any, t: Any) -> None:
        again = await open_here(c, root)
        read.update(await again.read("second"))
        child = await reserve(again, WIDER, "child")
        assert child.ancestor is not None
        assert (await again.verify()).clean

    reopen()
    np.testing.assert_array_equal(read[3, 1], values(WIDER, 2)[5])


def test_a_root_that_is_open_can_be_looked_at_but_not_repaired(tmp_path: Path) -> None:
    # The event loop of looks stays, in a thread.
    @evo_cluster(clean_kwargs={"threads": False})
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, "first", seed=1)
        await reserve(repository, WIDER, "child")

        def look() -> None:
            offline = daskevo.open(tmp_path / "root", "test")
            assert offline.verify().clean  # what is live gets no verdict
            assert len(offline.read("first")) == 6
            with pytest.raises(RepositoryTaken):
                offline.verify(repair=True)

        await asyncio.to_thread(look)

    run()


@pytest.mark.parametrize("what", ["missing", "empty", "file"])
def test_no_repository_there(what: str, tmp_path: Path) -> None:
    path = tmp_path / "root"
    if what == "empty":
        path.mkdir()
    if what == "file":
        path.write_text("")
    with pytest.raises(RootUnusable):
        daskevo.open(path)


def test_a_damaged_shard_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        for number in range(4):
            await make(repository, chain(3 + number), f"m{number}")

    fill()
    home = shard_of(ModelId("m0"), 8)
    (journal,) = (tmp_path / "root" / "shards" / f"{home:03d}").glob("journal.*")
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    served = [f"m{number}" for number in range(4) if shard_of(ModelId(f"m{number}"), 8) != home]
    advice = f"shard {home}.*Restore the folder .*{home:03d} from a copy"
    repository = daskevo.open(tmp_path / "root", "test")
    assert [model.model_id for model in repository.models()] == served
    (difference,) = repository.verify().differences
    assert difference.kind == "damaged shard"
    assert re.search(advice, difference.words)
    with pytest.raises(CorruptRecord, match=advice):
        repository.read("m0")

    @evo_cluster()
    async def online(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        assert [model.model_id for model in await repository.models()] == served
        assert [difference.kind for difference in (await repository.verify()).differences] == ["damaged shard"]
        with pytest.raises(CorruptRecord, match=advice):
            await repository.read("m0")
        reservation = await reserve(repository, chain(3), "m9")
        assert f"shard {home}" in reservation.silent

    online()


@evo_cluster()
async def test_a_root_that_went_is_named(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root", timeout_s=3)
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    folder = re.escape(str(tmp_path / "root"))
    with pytest.raises(PutUnknown, match=folder):
        await make(repository, GRAPH, "first")
    with pytest.raises(RootUnusable, match=folder):
        await repository.status("first")
