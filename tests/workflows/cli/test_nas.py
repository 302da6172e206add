"""`daskevo nas` for real: digits on a local cluster, stopped in the middle, taken up again, reported."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from daskevo.runs import RunView
from daskevo_workflows.cli import main
from daskevo_workflows.cli.json_lines import NAS_KEYS

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

MORE = 4
"""Evaluations of the search that goes on: the one that is interrupted has no end, however late the interrupt comes."""


def command(*words: object) -> list[str]:
    code = "from daskevo_workflows.cli import main; main(prog_name='daskevo')"
    return [sys.executable, "-c", code, "nas", *map(str, words)]


def nas(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=500, check=False)


def finished(folder: Path) -> int:
    try:
        with RunView(folder) as view:
            return sum(report.status == "finished" for report in view.reports())
    except Exception:  # noqa: BLE001 - the record is being made
        return 0


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Start a search, and send the terminal's interrupt to all its processes after the first evaluation."""
    folder = tmp_path_factory.mktemp("runs") / "digits run"
    process = subprocess.Popen(
        command(
            *("digits", "--evaluations", 10_000, "--workers", 1, "--seed", 3, "--run", folder),
            *("--repository", folder.parent / "shared"),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 300
        while not finished(folder) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return folder, (process.returncode, out, err)


@pytest.mark.long
def test_ctrl_c_says_how_to_go_on(stopped: tuple[Path, Any]) -> None:
    folder, (code, out, err) = stopped
    assert code == 130, err
    assert out == ""
    assert "Traceback" not in err, err
    assert err.splitlines()[-2].startswith("Stopped.")
    assert f"--run '{folder}'" in err.splitlines()[-1]
    assert finished(folder) >= 1


@pytest.mark.long
def test_the_same_command_goes_on_to_exactly_the_budget(stopped: tuple[Path, Any]) -> None:
    """Without --repository as well: the run knows which one it belongs to, and so do `verify` and `models`."""
    folder, _ = stopped
    before = finished(folder)
    budget = before + MORE
    done = nas("digits", "--evaluations", budget, "--workers", 1, "--seed", 3, "--run", folder, "--json")
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert tuple(line) == NAS_KEYS
    assert line["evaluations"] == finished(folder) == budget
    assert line["live_models"] == line["population"] == budget
    assert 0 < line["stored_bytes"] <= line["full_copy_bytes"]
    assert 0 < line["repository_s"] < line["evaluation_s"]
    assert len(done.stdout.splitlines()) == 1
    assert f"{budget}/{budget} evaluations" in done.stderr
    assert done.stderr.count("imports Keras and prepares the data before its first evaluation") == 1
    with RunView(folder) as view:
        assert {"load", "cores", "host"} == set(view.events("load")[-1].facts)
    # Said once, in the line of the run's folder.
    assert re.findall(r"dashboard: http://\S+/daskevo/(\w+)\n", done.stderr) == ["search"]
    assert not (folder / "repository").exists()
    page = (folder / "report.html").read_text("utf-8")
    assert line["best_model"] in page
    assert "What was inherited" in page
    assert (folder / "best.keras").stat().st_size > 0

    verified = subprocess.run(
        [sys.executable, "-c", "from daskevo_workflows.cli import main; main()", "verify", str(folder), "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert json.loads(verified.stdout.splitlines()[-1])["differences"] == []
    assert verified.returncode == 0

    again = nas("digits", "--evaluations", budget, "--workers", 1, "--seed", 3, "--run", folder, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == line
    assert f"Nothing left to do: {budget} of {budget} evaluations are finished." in again.stderr
    assert f"--evaluations {2 * budget} --run '{folder}'" in again.stderr
    assert "dashboard" not in again.stderr  # no cluster
    assert (folder / "report.html").read_text("utf-8") == page
    (folder / "best.keras").unlink()
    once_more = nas("digits", "--evaluations", budget - 1, "--run", folder)
    assert f"Nothing left to do: {budget} of {budget - 1}" in once_more.stdout
    assert (folder / "best.keras").stat().st_size > 0

    other = nas("digits", "--evaluations", budget, "--workers", 1, "--seed", 4, "--run", folder)
    assert other.returncode == 2
    assert "RunMismatch" in other.stderr
    assert "seed: 3 there, 4 here" in other.stderr
    assert "dashboard" not in other.stderr
    assert "Traceback" not in other.stderr
    assert finished(folder) == budget


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nonsense"], "UnknownProblem"),
        (["no/such/file.py"], "UnknownProblem"),
        (["digits", "--run", "/proc/run"], "RunFolderUnusable"),
        (["digits", "--strategy", "random", "--population", "5"], "InvalidInput"),
        (["digits", "--population", "5", "--sample", "6"], "InvalidInput"),
        (["digits", "--scheduler", "tcp://127.0.0.1:9", "--workers", "2"], "InvalidInput"),
        (["digits", "--scheduler", "tcp://127.0.0.1:9"], "SchedulerUnreachable"),
        (["digits", "--scheduler", "no address"], "SchedulerUnreachable"),
        (["digits", "--scheduler", "pigeon://roof:1"], "SchedulerUnreachable"),
    ],
)
def test_bad_input_ends_with_code_2_and_what_to_do(words: list[str], error: str, tmp_path: Path) -> None:
    if "--run" not in words:
        words = [*words, "--run", str(tmp_path / "runs" / "run")]
    done = CliRunner().invoke(main, ["nas", *words], prog_name="daskevo")
    assert done.exit_code == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {error}: ")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []  # nothing was run, nothing is left


def test_a_problem_file_without_its_parts_is_said(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("name = 'half'\nobjective = 'max accuracy'\n")
    (tmp_path / "broken.py").write_text("def space(:\n")
    for file, word in (("half.py", "epochs"), ("broken.py", "broken.py")):
        done = CliRunner().invoke(main, ["nas", str(tmp_path / file), "--run", str(tmp_path / "run")])
        assert done.exit_code == 2
        assert done.stderr.startswith("Error: InvalidProblem: ")
        assert word in done.stderr
