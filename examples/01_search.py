"""A search in fifteen lines: handwritten digits on a cluster on this machine, the best trained model at the end.

python examples/01_search.py [RUN_FOLDER]
"""

import sys

import daskevo
from daskevo.search import AgedEvolution
from daskevo_workflows import nas, problems


def main(run: str = "runs/example") -> None:
    problem = problems.load_problem("digits")
    with daskevo.local_cluster(trainers=2) as cluster, cluster.get_client() as client:
        repository = daskevo.open(f"{run}/repository", scope=problem.name, client=client, objective=problem.objective)
        result = nas.search(
            problem, AgedEvolution(population=6, sample=3), repository=repository, evaluations=12, run=run, seed=0
        )
        best = result.best(1)[0]
        lineage = " <- ".join(model.model_id for model in best.lineage)
        print(f"{best.model_id} reaches {problem.objective[4:]} {best.quality:.3f}; lineage: {lineage}")
        best.model.summary()  # a trained Keras model
        print("report:", result.report())


if __name__ == "__main__":  # worker processes import this file
    main(*sys.argv[1:])
