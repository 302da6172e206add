"""Two searches that share a repository: the second inherits from the first's models, with its first candidate.

python examples/09_share_repository.py [FOLDER]
"""

import sys

import daskevo
from daskevo.search import AgedEvolution
from daskevo_workflows import nas, problems


def main(folder: str = "runs/shared") -> None:
    problem = problems.load_problem("digits")
    with daskevo.local_cluster(trainers=1) as cluster, cluster.get_client() as client:
        # One scope is one data set and one task: only such models may inherit from each other.
        repository = daskevo.open(f"{folder}/repository", "digits", client=client, objective=problem.objective)
        evolution = AgedEvolution(population=4, sample=2)
        first = nas.search(problem, evolution, repository=repository, evaluations=5, run=f"{folder}/first")
        second = nas.search(problem, "random", repository=repository, evaluations=3, run=f"{folder}/second", seed=1)
        print("the second run's first candidate inherited from", second.reports[0].ancestor)
        # What a run keeps is under its labels; no run can take away what another one holds, or inherits from.
        for label in ("population", "best"):
            repository.release_label(f"{label}:{first.info.label}")
        best = second.best(1)[0]
        print(f"{best.quality:.3f}, still whole after the first run was let go: {best.model.count_params()} parameters")
        print("verified:", repository.verify().clean)


if __name__ == "__main__":  # worker processes import this file
    main(*sys.argv[1:])
