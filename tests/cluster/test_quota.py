"""A repository's quota: a put beyond it is refused before anything is written, and works after a retirement."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daskevo.client.put import make_record, put
from daskevo.client.put_payload import prepare
from daskevo.client.put_sender import folder_of_home
from daskevo.deploy.settings import quota_bytes
from daskevo.errors import InvalidInput, QuotaReached
from daskevo.provider.quota import Quota
from daskevo.types import ModelId
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of, reserve, values

GRAPH = chain(200, 200)
MODEL_BYTES = sum(array.nbytes for array in values(GRAPH, 0).values())
HEADER_BYTES = 2_000


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.parent.name == "segments"]


def _spy(transport: Any) -> list[str]:
    """Return a list that will hold what is sent to providers."""
    sent: list[str] = []
    provider = transport.provider

    async def spied(address: str, method: str, **arguments: Any) -> Any:
        sent.append(method)
        return await provider(address, method, **arguments)

    transport.provider = spied
    return sent


async def _make(repository: Any, name: str) -> Any:
    return await make(repository, GRAPH, name, seed=ord(name), keep=False, score=ord(name))


@pytest.mark.parametrize("way", ["files", "messages", "memory"])
def test_beyond_the_quota_nothing_is_written_until_something_is_retired(way: str, tmp_path: Path) -> None:
    root = None if way == "memory" else tmp_path / "root"

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        quota = 2 * (MODEL_BYTES + HEADER_BYTES)
        repository = await open_here(c, root, quota=f"{quota} B")
        repository.connection.session.directory.local_peers.through_messages = way == "messages"
        assert (await repository.stats())["quota_bytes"] == quota
        for name in "ab":
            await _make(repository, name)
        files = _files(tmp_path)
        sent = _spy(repository.connection.session.transport)
        for _ in range(2):
            with pytest.raises(QuotaReached) as caught:
                await _make(repository, "c")
            error = caught.value
            assert error.needed_bytes == MODEL_BYTES
            assert 0 <= error.free_bytes < MODEL_BYTES
            assert error.quota_bytes == quota
            assert error.folder == ("memory" if root is None else str(root / "shards" / f"{error.shard:03d}"))
            assert error.folder in str(error)
            assert _files(tmp_path) == files
        # A writer beside the provider knows before it sends anything.
        assert ("put" in sent) == (way != "files")
        assert (await repository.status("c")).state != "published"
        await repository.retire("a")
        await at_rest(s, a)
        await _make(repository, "c")
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert verification.models == 2
        with pytest.raises(InvalidInput, match="open on this cluster with"):
            await open_here(c, root, quota=1)
        await open_here(c, root)

    run()


@evo_cluster()
async def test_of_writers_who_asked_at_once_one_gets_the_room(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root", quota=MODEL_BYTES + HEADER_BYTES)
    session = repository.connection.session
    written = []
    for name in "ab":
        reservation = await reserve(repository, GRAPH, name)
        folder = await folder_of_home(session, ModelId(name))
        payload = await asyncio.to_thread(prepare, reservation, values(GRAPH, ord(name)), 1, folder)
        record = make_record(
            reservation, payload, GRAPH, await session.tick(), scope=repository.scope, objective=repository.objective,
            metrics={"score": 1.0}, step=1, parent=None, extra=None,
        )  # fmt: skip
        written.append((reservation, record, payload))
    assert len(_files(tmp_path)) == 2
    await put(session, *written[0], ())
    with pytest.raises(QuotaReached):
        await put(session, *written[1], ())
    await at_rest(s, a)
    assert len(_files(tmp_path)) == 1
    assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_the_shares_of_providers_are_the_quota(c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Path) -> None:
    await open_here(c, tmp_path / "root", quota="1 MB")
    shares = [plugin_of(worker).host.quota.remaining() for worker in (a, b)]
    assert shares == [[500_000, 500_000]] * 2


def test_what_is_being_stored_counts_for_others() -> None:
    quota = Quota(100, 4, lambda: 2, lambda: 10)
    with quota.claimed(0, "folder", ModelId("a"), 30):
        assert quota.remaining() == [10, 50]
        with pytest.raises(QuotaReached):
            quota.check(0, "folder", ModelId("b"), 11)
    quota.check(0, "folder", ModelId("b"), 40)
    Quota(None, 4, lambda: 2, lambda: 10).check(0, "folder", ModelId("b"), 1 << 60)


@pytest.mark.parametrize(
    ("quota", "found"), [(None, None), (7, 7), ("500 GB", 500 * 10**9), ("1.5 TiB", 3 << 39), (2.0, 2)]
)
def test_quotas_as_they_are_written(quota: Any, found: int | None) -> None:
    assert quota_bytes(quota) == found


@pytest.mark.parametrize("quota", [0, -1, True, "much", "", "-5 GB", [], float("nan"), float("inf"), b"1 GB"])
def test_quotas_that_can_not_be(quota: Any) -> None:
    with pytest.raises(InvalidInput, match="500 GB"):
        quota_bytes(quota)
