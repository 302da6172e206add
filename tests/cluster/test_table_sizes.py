"""Models that come and go leave no entry in any table of scheduler, provider or client, but their tombstones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.table_sizes import sizes
from benchmarks.ten_thousand import Churn
from tests.cluster.helpers import at_rest, coordinator_of, evo_cluster, open_here, plugin_of

STEPS = 60
TOMBSTONES = ("ShardState.tombstones", "Tombstone.metrics")


def test_models_that_come_and_go_leave_only_tombstones(tmp_path: Path) -> None:
    @evo_cluster(providers=1, trainers=0)
    async def come_and_go(client: Any, scheduler: Any, provider: Any) -> None:
        repository = await open_here(client, tmp_path / "root", shards=2)
        session, churn = repository.connection.session, Churn(repository, None, keep=5)

        async def entries() -> Counter[str]:
            """Take steps, retire all, and count."""
            await churn.run(STEPS, at_once=4)
            await churn.retire_all()
            await session.outbox.sent()
            await at_rest(scheduler, provider)
            found: Counter[str] = Counter()
            for root in (coordinator_of(scheduler), plugin_of(provider), session):
                found.update(sizes(root))
            return found

        before = await entries()
        after = await entries()
        assert churn.outcomes == {"stored": 2 * STEPS}
        assert [after[path] for path in TOMBSTONES] == [2 * STEPS, 2 * STEPS]
        for path in (*TOMBSTONES, "ShardHost.shards"):
            assert before[path] > 0, path  # they are looked into
        grown = {path: (before[path], size) for path, size in after.items() if size > before[path] + STEPS // 10}
        assert grown.keys() == set(TOMBSTONES), grown

    come_and_go()


def test_a_table_that_grows_is_found_however_deep_it_lies() -> None:
    from daskevo.client.deferred_messages import Outbox
    from daskevo.client.directory import Directory

    directory = Directory(transport=None)  # type: ignore[arg-type]
    outbox = Outbox(directory)
    directory.suspects.missed("tcp://there", 2.0)
    assert sizes([outbox])["SuspectProviders._until"] == 1
    directory.suspects.missed("tcp://elsewhere", 2.0)
    assert sizes([outbox])["SuspectProviders._until"] == 2
