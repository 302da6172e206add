"""Providers with a short lifetime turn over under a search: every evaluation counts once, and no model is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.progress import Progress


def test_a_search_outlives_its_providers(tiny: Callable[..., Path], tmp_path: Path) -> None:
    import daskevo

    short = {"lifetime": "6s", "lifetime_stagger": "2s", "lifetime_restart": True}
    with daskevo.local_cluster(trainers=1, providers=2, dashboard_address=None) as cluster:
        for name in ("provider-0", "provider-1"):
            spec = cluster.worker_spec.pop(name)
            cluster.worker_spec[f"short-{name}"] = {**spec, "options": {**spec["options"], **short}}
        cluster.sync(cluster._correct_state)
        with cluster.get_client() as client:
            client.wait_for_workers(3, timeout=60)
            root = tmp_path / "root"
            repository = daskevo.open(root, "tiny", client=client, objective="max val_accuracy", shards=8)
            lives: dict[str, set[str]] = {}

            def look(progress: Progress | None = None) -> None:
                for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
                    if worker["name"].startswith("short-"):
                        lives.setdefault(worker["name"], set()).add(address)

            def search(evaluations: int) -> nas.Result:
                """The same run, which goes on where it was."""
                return nas.search(
                    problem,
                    AgedEvolution(4, 2),
                    repository=repository,
                    evaluations=evaluations,
                    run=tmp_path / "run",
                    seed=3,
                    on_progress=look,
                )

            problem = tiny(FIRST=tuple(range(4, 64, 2)), SECOND=tuple(range(3, 60, 3)))
            total = 0
            # At least one turnover of each, with evaluations all the while.
            while len(lives) < 2 or min(map(len, lives.values())) < 2:
                total += 10
                result = search(total)
                assert (result.summary()["evaluations"], result.summary()["failures"]) == (total, 0)
            models: list[Any] = [report.model_id for report in result.reports]
            assert len(set(models)) == total
            verification = repository.verify()
            assert verification.clean, verification.differences
