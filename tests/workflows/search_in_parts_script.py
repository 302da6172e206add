"""A halving search in a process of its own, with its own cluster, to be killed: arguments are those of `main`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import daskevo
from daskevo.search import AsynchronousHalving
from daskevo_workflows import nas
from tests.chaos.ledger import digests


def main(problem: str, folder: str) -> None:
    with daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        repository = daskevo.open(Path(folder) / "root", "tiny", client=client, objective="max val_accuracy", shards=8)
        result = nas.search(
            problem,
            AsynchronousHalving(1, 4, 2),
            repository=repository,
            evaluations=12,
            run=Path(folder) / "run",
            seed=3,
            freeze="prefix",
        )
        found = {
            "reports": [(report.number, report.status, report.step, report.quality) for report in result.reports],
            "weights": {
                name.rpartition("-")[2]: digests(repository.read(name).values()) for name in result.population()
            },
            "states": sorted(each.name.rpartition("-")[0][-5:] for each in repository.snapshots()),
            "clean": repository.verify().clean,
        }
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
