"""Settings and scripts in examples/batch: dask-jobqueue and daskevo take the ones, the others search."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BATCH = Path(__file__).parents[2] / "examples" / "batch"


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_settings_are_those_that_are_read(kind: str) -> None:
    """Each of them is a key of dask-jobqueue's own file, or of daskevo's."""
    import daskevo
    from daskevo.deploy.batch.jobqueue_import import jobqueue

    theirs = yaml.safe_load((Path(jobqueue().__file__).parent / "jobqueue.yaml").read_text())
    ours = yaml.safe_load((Path(daskevo.__file__).parent / "daskevo.yaml").read_text())
    found = yaml.safe_load((BATCH / f"{kind}.yaml").read_text())
    assert found["jobqueue"][kind].keys() <= theirs["jobqueue"][kind].keys()
    assert found["daskevo"]["batch"].keys() <= ours["daskevo"]["batch"].keys()


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("slurm", ["#SBATCH -p gpu", "#SBATCH -A MY-ACCOUNT", "#SBATCH -t 04:00:00", "#SBATCH --gpus-per-node=4"]),
        ("pbs", ["#PBS -q preemptable", "#PBS -l select=1:system=polaris", "#PBS -l filesystems=home:eagle"]),
    ],
)
def test_job_script_of_the_settings(kind: str, lines: list[str], tmp_path: Path) -> None:
    """With the file in Dask's folder, and lo for a network that no machine but that one has, this is what is run."""
    text = re.sub(r"interface: \w+", "interface: lo", (BATCH / f"{kind}.yaml").read_text())
    (tmp_path / "batch.yaml").write_text(text)
    code = f"import daskevo\nwith daskevo.batch_cluster({kind!r}) as cluster: print(cluster.job_script())"
    environment = {**os.environ, "DASK_CONFIG": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    script = done.stdout.splitlines()
    assert set(lines) <= set(script)
    (started,) = (line for line in script if " node tcp://" in line)
    assert "--trainers 4 --providers 1 --gpus-per-trainer 1" in started
    assert "--lifetime 14100s --lifetime-stagger 300s" in started
    assert "--interface lo" in started


def lines_of(script: str) -> list[str]:
    lines = (line.partition("  #")[0] for line in (BATCH / script).read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("script", ["search", "search-chain"])
def test_scripts_of_jobs_of_several_nodes_are_alike(script: str) -> None:
    """What runs on Slurm in a test is what runs under PBS, but for the words of the batch system and the site."""
    own = r"^(cd|variables=|next=|export DASK_) ?"
    slurm, pbs = (
        [line for line in lines_of(f"{script}.{kind}") if not re.match(own, line)] for kind in ("slurm", "pbs")
    )
    assert len(slurm) == len(pbs)
    words = r"INTERFACE:=|_ID\.json|_JOBID\.json|^nodes=|^srun |^mpiexec |scancel|qdel"
    for one, other in zip(slurm, pbs, strict=True):
        assert one == other or (re.search(words, one) and re.search(words, other))


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_a_chain_of_jobs_of_several_nodes_does_what_one_such_job_does(kind: str) -> None:
    """The chain runs on a real Slurm: so each line of the other does."""
    chain = lines_of(f"search-chain.{kind}")
    single = [line for line in lines_of(f"search.{kind}") if not line.startswith("trap ")]
    assert single
    assert [line for line in single if line not in chain] == []


@pytest.mark.parametrize("path", sorted(BATCH.glob("*.*")), ids=lambda path: path.name)
def test_they_name_no_account_but_a_placeholder(path: Path) -> None:
    found = re.findall(r"(?:--account=|-A |account: )(\S+)", path.read_text())
    assert all(name.startswith("MY-") for name in found)
