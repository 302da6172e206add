"""A search in a process of its own, with its own cluster, to be killed: arguments are those of `main`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import daskevo
from daskevo.search import AgedEvolution
from daskevo_workflows import nas


def main(problem: str, folder: str, evaluations: int, providers: int) -> None:
    with (
        daskevo.local_cluster(trainers=1, providers=providers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        root = Path(folder) / "root"
        repository = daskevo.open(root, "tiny", client=client, objective="max val_accuracy", shards=8)
        result = nas.search(
            problem,
            AgedEvolution(4, 2),
            repository=repository,
            evaluations=evaluations,
            run=Path(folder) / "run",
            seed=3,
            freeze="prefix",
        )
        found = {
            "summary": result.summary(),
            "clean": repository.verify().clean,
            "labels": {model.model_id: sorted(model.labels) for model in repository.models()},
            "population": result.population(),
            "best": [found.model_id for found in result.best(5)],
        }
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
