"""The same search on Slurm or PBS: each job starts one provider beside its trainers.

python examples/04_batch_system.py slurm|pbs /shared/folder [JOBS]      JOBS = 0 prints the job script and stops
"""

import sys
from pathlib import Path

import daskevo
from daskevo.search import AgedEvolution
from daskevo_workflows import nas, problems


def make_cluster(kind: str, folder: Path):
    try:
        from dask_jobqueue import PBSCluster, SLURMCluster
    except ModuleNotFoundError:
        sys.exit(f"this example needs dask-jobqueue: {sys.executable} -m pip install dask-jobqueue")
    folder.mkdir(parents=True, exist_ok=True)
    scheduler_file = folder / "scheduler.json"
    # Workers end, one after the other, before the batch system would kill them: a provider hands its shards over then.
    lifetime = ["--lifetime", "110m", "--lifetime-stagger", "4m"]
    provider = f"dask worker --scheduler-file {scheduler_file} --nthreads 4 --memory-limit 32GiB --resources provider=1"
    provider = " ".join([provider, *lifetime])
    return {"slurm": SLURMCluster, "pbs": PBSCluster}[kind](
        cores=4,  # four trainers, each a process with one thread
        processes=4,
        memory="128GiB",
        walltime="02:00:00",
        worker_extra_args=["--resources", "evaluation=1", *lifetime],
        job_script_prologue=[f"{provider} --name provider-${{SLURM_JOB_ID:-$PBS_JOBID}} &"],
        scheduler_options={"scheduler_file": str(scheduler_file)},
    )


def main(kind: str, folder: str, jobs: str = "2") -> None:
    with make_cluster(kind, Path(folder).absolute()) as cluster:
        if jobs == "0":
            print(cluster.job_script())
            return
        cluster.scale(jobs=int(jobs))
        with cluster.get_client() as client:
            client.wait_for_workers(1 + 4)
            problem = problems.load_problem("flights")
            repository = daskevo.open(f"{folder}/evo", scope="flights", client=client, objective=problem.objective)
            strategy = AgedEvolution(population=50, sample=5)
            result = nas.search(problem, strategy, repository=repository, evaluations=1000, run=f"{folder}/run")
            print("report:", result.report())


if __name__ == "__main__":
    main(*sys.argv[1:])
