"""A study in a process of its own, with its own cluster, to be killed: arguments are those of `main`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import daskevo
from daskevo.search import Grid
from daskevo_workflows import tune


def main(problem: str, folder: str, quota: str) -> None:
    with daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        root = Path(folder) / "root"
        repository = daskevo.open(root, "looped", client=client, objective="min loss", shards=8, quota=quota)
        with tune.study(problem, repository=repository, run=Path(folder) / "run", seed=3) as study:
            # What needs not be trained any more from here on.
            stored = [snapshot.extra["trajectory"]["key"] for snapshot in repository.snapshots()]
            with (Path(folder) / "stored").open("a") as file:
                file.write(json.dumps(stored) + "\n")
            result = study.run(Grid())
            found = {
                "metrics": {report.number: report.metrics for report in result.reports},
                "figures": [result.figures.total_steps, result.figures.unique_steps, result.figures.trained_steps],
                "clean": repository.verify().clean,
            }
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
