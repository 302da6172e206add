"""Providers reach the end of their lifetime under a search: every evaluation counts once, and no model is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.deploy.worker_list import workers_of
from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.execution import running_tasks
from daskevo_workflows.execution.progress import Progress

pytestmark = [pytest.mark.processes, pytest.mark.long]

PROVIDERS = ("provider-0", "provider-1")
TURNOVERS = 4  # each of them twice


def end_of_life(dask_worker: Any) -> None:
    """Do what Dask does when `--lifetime` with `--lifetime-restart` is over.

    Without a heartbeat that the scheduler gets after it has let the worker go: Dask's worker ends for good then.
    """
    dask_worker.periodic_callbacks["heartbeat"].stop()
    dask_worker.loop.add_callback(dask_worker.close_gracefully, restart=True, reason="worker-lifetime-reached")


def test_a_search_outlives_its_providers(
    tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import daskevo

    monkeypatch.setattr(running_tasks, "MATCH_S", 3.0)  # how long a query is waited for whose provider left with it

    with (
        daskevo.local_cluster(trainers=1, providers=2, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(3, timeout=180)
        root = tmp_path / "root"
        repository = daskevo.open(root, "tiny", client=client, objective="max val_accuracy", shards=8)
        old: set[str] = set()
        ended_at = [0]

        def turn(progress: Progress) -> None:
            """Once both are there and an evaluation or two went well with them, it is the next one's turn."""
            workers = workers_of(client)
            here = {str(worker["name"]): address for address, worker in workers.items() if address not in old}
            due = progress.finished >= ended_at[-1] + 2 and here.keys() >= set(PROVIDERS)
            if due and len(old) < TURNOVERS:
                leaving = here[PROVIDERS[len(old) % 2]]
                client.run(end_of_life, workers=[leaving])
                old.add(leaving)
                ended_at.append(progress.finished)

        problem = tiny(FIRST=tuple(range(4, 64, 2)), SECOND=tuple(range(3, 60, 3)))
        total = 0
        while len(old) < TURNOVERS or total < ended_at[-1] + 2:
            total += 6
            # The same run, which goes on where it was.
            result = nas.search(
                problem,
                AgedEvolution(4, 2),
                repository=repository,
                freeze="prefix",
                evaluations=total,
                run=tmp_path / "run",
                seed=3,
                on_progress=turn,
            )
            assert (result.summary()["evaluations"], result.summary()["failures"]) == (total, 0)
        # The last to leave comes back before all is closed, and may be listed for a while beside its successor.
        until = time.monotonic() + 180
        while len(there := workers_of(client).keys()) != 3 or old & there:
            assert time.monotonic() < until, (old, there)
            time.sleep(0.1)
        models: list[Any] = [report.model_id for report in result.reports]
        assert len(set(models)) == total
        verification = repository.verify()
        assert verification.clean, verification.differences
