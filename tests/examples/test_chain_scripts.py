"""The scripts of chains of jobs, in a real shell, with a batch system that only notes what it is told.

``chain``: of jobs of one node; ``search-chain``: of several.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

BATCH = Path(__file__).parents[2] / "examples" / "batch"

ASKED = "PROBLEM=flights,EVALUATIONS=1000,TRAINERS=1,INTERFACE=lo"
SUBMIT = {
    "chain.slurm": "sbatch --parsable --dependency=afterany:7",
    "chain.pbs": "qsub -W depend=afterany:7",
    "search-chain.slurm": "sbatch --parsable --dependency=afterany:7",
    "search-chain.pbs": f"qsub -W depend=afterany:7 -v RUN={{0}}/run,{ASKED}",
}
WITHDRAW = {"slurm": "scancel 8", "pbs": "qdel 8"}


def withdraw(script: str) -> str:
    return WITHDRAW[script.rpartition(".")[2]]


def run(
    script: str, folder: Path, daskevo: str, *, nodes_come: bool = True, before: str = "", **changed: str
) -> subprocess.Popen[str]:
    """Start a job's script, after these lines of bash; what its commands were called with is in the file `told`."""
    programs = {"sbatch": "echo '8;here'", "qsub": "echo 8", "scancel": "", "qdel": "", "daskevo": daskevo}
    # Beside a search on several nodes there are the scheduler, the nodes, and who waits for them.
    stays = f"echo > {folder}/run.scheduler.7.json; exec sleep 100"  # no process between that could write it later
    programs |= {"dask": stays, "srun": "exec sleep 100", "mpiexec": "exec sleep 100"}
    programs |= {"python": "echo tcp://here:1" if nodes_come else "sleep 0.3; exit 1"}
    (folder / "bin").mkdir()
    (folder / "nodes").write_text("n1\nn1\nn2\n")
    for name, does in programs.items():
        path = folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/told\n{does}\n')
        path.chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(folder), "PBS_JOBID": "7", "PBS_O_WORKDIR": str(folder)}
    variables |= {"RUN": str(folder / "run"), "TRAINERS": "1", "INTERFACE": "lo", "SLURM_JOB_NUM_NODES": "2"}
    variables |= {"SLURM_CPUS_PER_TASK": "2", "PBS_NODEFILE": str(folder / "nodes")}
    (folder / "before").write_text(before)
    variables |= {"BASH_ENV": str(folder / "before"), **changed}
    environment = {**os.environ, **variables, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.Popen(["bash", str(BATCH / script)], env=environment, text=True, start_new_session=True)


def told(folder: Path) -> list[str]:
    """Return the calls of the batch system and of daskevo, without those that run beside the search."""
    path = folder / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if re.match(r"(sbatch|qsub|scancel|qdel|daskevo nas) |ended$", line)]


def is_left_behind(folder: Path) -> bool:
    """Tell whether anything that the script has started goes on, or its scheduler's file is there."""
    deadline = time.monotonic() + 60  # what has been told to end may take a moment, and what stays stays longer
    while (running := _is_running(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return running or (folder / "run.scheduler.7.json").exists()


def _is_running(folder: Path) -> bool:
    inside = {str(folder / "bin")}
    return any(inside & {_first(one.info["environ"])} for one in psutil.process_iter(["environ"]))


def _first(environment: dict[str, str] | None) -> str:
    return (environment or {}).get("PATH", "").partition(":")[0]


@pytest.mark.parametrize("script", SUBMIT)
@pytest.mark.parametrize("code", [0, 1, 2, 75, 130])
def test_the_next_job_is_there_until_it_is_not_needed(script: str, code: int, tmp_path: Path) -> None:
    assert run(script, tmp_path, f"exit {code}").wait(60) == code
    submitted, searched, *withdrawn = told(tmp_path)
    assert submitted == f"{SUBMIT[script].format(tmp_path)} {tmp_path}/{script}"
    assert re.match(r"daskevo nas flights --evaluations [12]000 --run ", searched)
    assert searched.endswith("--scheduler tcp://here:1") is script.startswith("search")
    assert withdrawn == ([] if code == 75 else [withdraw(script)])
    assert not is_left_behind(tmp_path)


@pytest.mark.parametrize("script", SUBMIT)
def test_a_word_to_all_processes_leaves_the_search_its_time(script: str, tmp_path: Path) -> None:
    """Of a search on several nodes the scheduler hears it, too: that is no reason to break off the chain."""
    code = 2 if script.startswith("search") else 75
    ends = f"trap 'sleep 0.5; echo ended >> {tmp_path}/told; exit {code}' TERM"
    # Bash may lose the word in a child that has not begun its program.
    begun = "until read -r word < /proc/$!/comm && [ $word = sleep ]; do :; done"
    waits = f"{ends}\nsleep 100 &\n{begun}\n: > {tmp_path}/on\nwait"
    process = run(script, tmp_path, waits)
    wait_until((tmp_path / "on").exists)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == code
    assert told(tmp_path)[-1] == "ended"
    assert not is_left_behind(tmp_path)


@pytest.mark.parametrize("script", [script for script in SUBMIT if script.startswith("search")])
def test_nodes_that_do_not_come_end_the_chain(script: str, tmp_path: Path) -> None:
    assert run(script, tmp_path, "exit 0", nodes_come=False).wait(60) == 1
    assert told(tmp_path)[1:] == [withdraw(script)]
    assert not is_left_behind(tmp_path)


@pytest.mark.parametrize("script", [script for script in SUBMIT if script.startswith("search")])
def test_a_folder_that_cannot_be_made_submits_nothing(script: str, tmp_path: Path) -> None:
    """Else each job of the chain would fail there, and the next begin."""
    (tmp_path / "file").touch()
    assert run(script, tmp_path, "exit 0", RUN=str(tmp_path / "file" / "runs" / "run")).wait(60) == 1
    assert told(tmp_path) == []


@pytest.mark.parametrize("script", ["search.slurm", "search.pbs", "search-chain.slurm", "search-chain.pbs"])
def test_what_a_script_starts_has_no_part_in_its_end(script: str, tmp_path: Path) -> None:
    """Bash does what a trap says in a child, too, that gets SIGTERM between fork and exec: it withdrew the next job."""
    launcher = "srun" if script.endswith("slurm") else "mpiexec"
    before = "".join(
        f"{name}() {{ trap -p EXIT TERM > {tmp_path}/{name}; touch {tmp_path}/{name}.on; command {name}; }}\n"
        for name in ("dask", launcher)
    )
    waits = f"until [ -e {tmp_path}/dask.on ] && [ -e {tmp_path}/{launcher}.on ]; do sleep 0.02; done; exit 75"
    assert run(script, tmp_path, waits, before=before).wait(60) == 75
    assert (tmp_path / "dask").read_text() == (tmp_path / launcher).read_text() == ""
