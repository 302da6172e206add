"""One damaged shard: what only it could tell is "not known", what needs it is one named error, all else goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import daskevo
from daskevo.errors import ShardDamaged
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Refer
from daskevo.protocol.replies import Reserved
from daskevo.types import ModelId
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of, put_reserved, reserve

GRAPH = chain(8, 6)


def id_in(shard: int, stem: str) -> ModelId:
    """Return an id whose home is a shard."""
    return next(ModelId(f"{stem}{n}") for n in range(999) if shard_of(ModelId(f"{stem}{n}"), 8) == shard)


DAMAGED, WHOLE = 3, 5
OLD, HEIR, COUSIN = id_in(DAMAGED, "old"), id_in(WHOLE, "heir"), id_in(DAMAGED, "cousin")
BASE = id_in(WHOLE, "base")


def flip(journal: Path) -> None:
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)


def hide(journal: Path) -> None:
    """The journal can't be read, though its name is there (as root, permissions hide nothing)."""
    journal.unlink()
    journal.mkdir()


@pytest.fixture(params=[flip, hide])
def root(request: Any, tmp_path: Path) -> Path:
    """A root whose shard 3 is damaged.

    heir (shard 5) inherits from old (3); cousin (3) inherits from base (5), which keeps bits of an attempt that is
    over, to make a model of shard 5.
    """

    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await make(repository, GRAPH, OLD, seed=1, labels=["population:run"])
        await make(repository, GRAPH, HEIR, score=0.1, labels=["population:run"])
        await make(repository, chain(3), BASE, seed=2, labels=["population:run"])
        await make(repository, chain(3), COUSIN, score=0.1)
        connection = repository.connection
        attempt = await connection.session.begin(connection.caller(), id_in(WHOLE, "child"))
        refer = Refer(BASE, id_in(WHOLE, "child"), attempt, frozenset({0}))
        assert isinstance(await connection.session.send(refer, Reserved), Reserved)
        await connection.session.end(attempt, settled=True)
        await at_rest(s, a)

    fill()
    (journal,) = (tmp_path / "root" / "shards" / f"{DAMAGED:03d}").glob("journal.*")
    damage: Callable[[Path], None] = request.param
    damage(journal)
    return tmp_path / "root"


def lines(verification: Any) -> list[str]:
    return sorted(verification.to_json()["differences"])


UNKNOWN = [
    f"not known: whether the tensors are there that {HEIR} inherited from it, because shard {DAMAGED} can't be read",
    f"not known: whether what {COUSIN} refer to is still used, because shard {DAMAGED} can't be read",
]


def test_verify_says_what_is_not_known_and_repair_mends_the_rest(root: Path) -> None:
    before = {path: path.read_bytes() for path in (root / "shards" / f"{DAMAGED:03d}").rglob("*.seg")}
    assert before
    repository = daskevo.open(root, "test")
    damaged, left, *unknown = lines(repository.verify())
    assert damaged.startswith(f"damaged shard: shard {DAMAGED}: ")
    assert left.startswith("leftover reference: ")
    assert unknown == UNKNOWN
    damaged, *unknown = lines(repository.verify(repair=True))
    assert damaged.startswith(f"damaged shard: shard {DAMAGED}: ")
    assert unknown == UNKNOWN
    # What only the damaged shard could give a verdict on is still there for the day it is restored.
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(ShardDamaged, match=f"shard {DAMAGED}"):
        repository.read(HEIR)


def test_operations_that_need_it_say_which_folder(root: Path) -> None:
    folder = re.escape(str(root / "shards" / f"{DAMAGED:03d}"))

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, root)
        for call in (
            lambda: repository.record(OLD),
            lambda: repository.status(OLD),
            lambda: repository.read(OLD),
            lambda: repository.read(HEIR),
            lambda: repository.hold(OLD, "user:me"),
            lambda: repository.release(OLD, "population:run"),
            lambda: repository.retire(OLD),
            lambda: repository.lineage(OLD),
        ):
            with pytest.raises(ShardDamaged, match=f"shard {DAMAGED} .*{folder} from a copy") as caught:
                await call()
            assert caught.value.shard == DAMAGED
        # The label goes everywhere else.
        with pytest.raises(ShardDamaged, match=f"'population:run' was released on 7 of 8 .*{folder}"):
            await repository.release_label("population:run")
        assert [(await repository.status(model)).state for model in (HEIR, BASE)] == ["retiring", "retired"]

    run()


@evo_cluster()
async def test_a_put_whose_home_was_damaged_meanwhile(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, HEIR)
    reservation = await reserve(repository, GRAPH, COUSIN)
    (journal,) = (tmp_path / "root" / "shards" / f"{DAMAGED:03d}").glob("journal.*")
    epoch = plugin_of(a).host.shards[DAMAGED].epoch
    data = bytearray(journal.read_bytes())
    data[20] ^= 1
    journal.write_bytes(data)
    # It is opened again, as when its provider changes.
    await plugin_of(a).host.close_shards([DAMAGED])
    await plugin_of(a).host._tell_fenced(DAMAGED, epoch, ShardDamaged("for a test"))
    with pytest.raises(ShardDamaged, match=f"shard {DAMAGED}"):
        await put_reserved(repository, GRAPH, reservation)
    assert (await repository.stats())["references"] == 1
    assert (await repository.stats())["live_attempts"] == 0
    assert [difference.kind for difference in (await repository.verify()).differences] == ["damaged shard"]
    assert os.path.isfile(journal)
    await make(repository, GRAPH, id_in(WHOLE, "other"))


def test_a_model_whose_segment_is_damaged_can_be_retired(tmp_path: Path) -> None:
    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        await make(await open_here(c, tmp_path / "root"), GRAPH, OLD, seed=1)

    fill()
    (segment,) = (tmp_path / "root").rglob("*.seg")
    segment.write_bytes(segment.read_bytes()[:100])
    assert [difference.kind for difference in daskevo.open(tmp_path / "root").verify().differences] == [
        "damaged tensor"
    ]

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await repository.retire(OLD)
        await at_rest(s, a)
        assert not segment.exists()
        assert (await repository.verify()).clean

    run()
