"""A search whose nodes are jobs of Slurm or PBS: in each, one provider beside four trainers.

python examples/04_batch_system.py slurm|pbs /shared/folder [JOBS]      JOBS = 0 prints the job script and stops

Queue, account and what else your site wants belong in a YAML file, such as examples/batch/slurm.yaml: docs/batch.md.
"""

import sys
from pathlib import Path

import daskevo
from daskevo.deploy.batch.first_workers import wait_for_workers
from daskevo.errors import BatchSystemError
from daskevo.search import AgedEvolution
from daskevo_workflows import nas, problems


def main(kind: str, folder: str, jobs: str = "2") -> None:
    cluster = daskevo.batch_cluster(
        kind, cores=32, memory="128GiB", walltime="02:00:00", trainers_per_job=4, log_directory=Path(folder) / "jobs"
    )
    with cluster:
        if jobs == "0":
            print(cluster.job_script())
            return
        cluster.scale(jobs=int(jobs))
        wait_for_workers(cluster, on_wait=print)
        with cluster.get_client() as client:
            problem = problems.load_problem("flights")
            repository = daskevo.open(f"{folder}/evo", scope="flights", client=client, objective=problem.objective)
            strategy = AgedEvolution(population=50, sample=5)
            result = nas.search(problem, strategy, repository=repository, evaluations=1000, run=f"{folder}/run")
            print("report:", result.report())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BatchSystemError as error:
        sys.exit(str(error))
