"""A search in a chain of jobs on a real Slurm: the first reaches its walltime, the next one ends the search."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import daskevo
from daskevo.runs import RunView
from tests.slurm.command import finished, write_problem
from tests.slurm.running import KILL_WAIT_S, Slurm
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1200), pytest.mark.long]

EXAMPLES = Path(__file__).parents[2] / "examples" / "batch"
EVALUATIONS = 16


def write_chain(folder: Path, problem: Path) -> Path:
    """Write the example's script for another search, with no more than its own lines changed."""
    path = folder / "chain.slurm"
    text = (EXAMPLES / "chain.slurm").read_text()
    words = f"words=(nas {problem} --evaluations {EVALUATIONS} --workers 1 --run {folder / 'run'})"
    begun = next(line for line in text.splitlines() if line.startswith("words=("))
    path.write_text(text.replace(begun, words).replace("#SBATCH --exclusive\n", ""))
    command = folder / "bin" / "daskevo"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nfrom daskevo_workflows.cli import main\n\n"
        'if __name__ == "__main__":\n    main(prog_name="daskevo")\n'
    )
    command.chmod(0o755)
    return path


def test_the_second_job_of_a_chain_ends_the_search(slurm: Slurm, tmp_path: Path) -> None:
    chain = write_chain(tmp_path, write_problem(tmp_path, 5.0))
    environment = {
        **slurm.environment,
        "PATH": f"{tmp_path / 'bin'}:{slurm.environment['PATH']}",
        "DASK_DASKEVO__BATCH__GRACE": f"{KILL_WAIT_S - 10}s",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        ["sbatch", "--parsable", str(chain)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, run = done.stdout.strip(), tmp_path / "run"
    log = tmp_path / f"daskevo-chain-{first}.log"

    def said() -> str:
        return log.read_text() if log.exists() else ""

    wait_until(lambda: finished(run) >= 3 or slurm.state(first) not in ("PENDING", "CONFIGURING", "RUNNING"), 600)
    assert 3 <= finished(run) < EVALUATIONS, said()
    (second,) = slurm.jobs("PENDING")
    # It is past that already: Slurm looks at limits every half minute.
    slurm.run("scontrol", "update", f"JobId={first}", "TimeLimit=1")
    wait_until(lambda: slurm.state(first) not in ("RUNNING", "COMPLETING"), 600)
    assert slurm.state(first) == "TIMEOUT", said()
    assert f"Slurm job {first} ends in" in said()
    assert "Stopped for its walltime. Every finished evaluation is kept" in said()
    wait_until(lambda: slurm.state(second) in ("COMPLETED", "FAILED", "TIMEOUT"), 600)
    log = tmp_path / f"daskevo-chain-{second}.log"
    assert slurm.state(second) == "COMPLETED", said()
    # The third was withdrawn.
    assert not slurm.jobs("PENDING", "RUNNING")

    with RunView(run) as view:
        sessions, reports, times = view.sessions(), view.reports(), view.report_times()
        cut = [unit for unit in view.units() if unit.kind == "evaluate" and unit.worker and unit.state == "cancelled"]
    assert [session.ended for session in sessions] == ["walltime", "finished"]
    assert Counter(report.status for report in reports)["finished"] == EVALUATIONS
    assert len({report.number for report in reports}) == len(reports)
    assert daskevo.open(run / "repository", "sleeping").verify().clean
    before, after = sessions
    again = min(at for at in times.values() if at > after.opened)
    sys.stdout.write(
        f"from the last report to the end of the first session: "
        f"{before.last - max(at for at in times.values() if at <= before.last):.1f} s; between the sessions "
        f"{after.opened - before.last:.1f} s; to the next report {again - after.opened:.1f} s; "
        f"evaluations that were cut: {len(cut)}\n"
    )
