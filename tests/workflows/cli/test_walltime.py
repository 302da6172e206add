"""Commands whose time is limited: by a batch system's word, by its limit, by an option."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from daskevo.batch_formats import JOBS
from daskevo.runs import RunView
from daskevo_workflows.cli import main, walltime
from daskevo_workflows.cli.interrupts import Interrupts, heard
from daskevo_workflows.cli.walltime import ASK_EVERY_S, Walltime
from daskevo_workflows.execution.batch_job_deadline import BatchJob, Limit

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


def terminate() -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(0.01)


def test_the_first_word_leaves_some_seconds_and_the_second_none() -> None:
    with heard(signal.SIGTERM) as interrupts:
        with interrupts.gently(20.0):
            before = time.time()
            terminate()
            assert interrupts.ends is not None
            assert before + 20 <= interrupts.ends <= time.time() + 20
            interrupts.check()
            with pytest.raises(KeyboardInterrupt):
                terminate()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_outside_of_a_job_the_first_word_ends_it() -> None:
    with heard(signal.SIGTERM) as interrupts, interrupts.gently(None), pytest.raises(KeyboardInterrupt):
        terminate()


@pytest.mark.parametrize(("job", "number", "code"), [("7", 15, 75), ("", 15, 130), ("7", 2, 130)])
def test_only_a_batch_systems_word_has_a_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, number: int, code: int
) -> None:
    def interrupted(*arguments: object) -> str:
        found = next(argument for argument in arguments if isinstance(argument, Interrupts))
        found.number = number
        raise KeyboardInterrupt

    for command, inner in (("nas", "_search"), ("tune", "_study")):
        monkeypatch.setattr(sys.modules[f"daskevo_workflows.cli.{command}"], inner, interrupted)
        (tmp_path / "run.json").write_text("{}")
        env = {**dict.fromkeys(JOBS, ""), "SLURM_JOB_ID": job}
        result = CliRunner(env=env).invoke(main, [command, "wnie.py", "--run", str(tmp_path), "--walltime", "none"])
        assert result.exit_code == code, result.output
        assert f"evo {command} wnie.py --run {tmp_path} --walltime none" in result.stderr


@pytest.mark.parametrize("words", ["soon", "0", "-1", "1:2:3:4"])
def test_what_is_no_walltime_is_refused(words: str) -> None:
    result = CliRunner().invoke(main, ["nas", "digits", f"--walltime={words}"])
    assert result.exit_code == 2
    assert "neither auto, none, nor a time such as 12:00:00" in result.stderr


def test_whose_word_holds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[BatchJob] = []
    now = time.time()

    def answer(job: BatchJob) -> Limit:
        asked.append(job)
        return Limit(now + 600 * len(asked), "squeue")

    monkeypatch.setattr("daskevo_workflows.execution.batch_job_deadline.limit_of", answer)
    monkeypatch.setattr(walltime, "time", SimpleNamespace(time=lambda: now, monotonic=lambda: now))
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    interrupts = Interrupts()
    automatic, stated, endless = (Walltime(asked, interrupts) for asked in ("auto", 60.0, "none"))
    for one in (automatic, stated, endless):
        one.say()
    assert capsys.readouterr().err == "Slurm job 12 ends in 600.00 s (squeue)\n"
    assert len(asked) == 1
    first = automatic.deadline()
    assert first == automatic.deadline()
    assert stated.deadline() is not None
    assert endless.deadline() is None
    # A limit that was changed meanwhile.
    now += ASK_EVERY_S + 1
    assert automatic.deadline() == now + 1200
    interrupts.ends = 5.0
    assert [one.deadline() for one in (automatic, stated, endless)] == [5.0] * 3


# Real searches


def start(problem: Path, folder: Path, *words: str, job: str = "") -> subprocess.Popen[str]:
    code = "from daskevo_workflows.cli import main; main(prog_name='daskevo')"
    shown = ["nas", str(problem), "--run", str(folder), "--workers", "1", "--evaluations", "6", "--json", *words]
    return subprocess.Popen(
        [sys.executable, "-c", code, *shown],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **dict.fromkeys(JOBS, ""), "SLURM_JOB_ID": job, "DASK_DASKEVO__BATCH__GRACE": "10s"},
    )


def finished(folder: Path) -> int:
    try:
        with RunView(folder) as view:
            return sum(report.status == "finished" for report in view.reports())
    except Exception:  # noqa: BLE001 - the record is being made
        return 0


@pytest.mark.long
def test_a_job_that_is_ended_says_its_word_to_all_processes(tiny: Callable[..., Path], tmp_path: Path) -> None:
    # More than would be done before the word comes, however late that is.
    problem, folder = tiny(IDLE=tuple(range(100)), SECOND=(3,), FAULTS={3: "slow"}), tmp_path / "run"
    process = start(problem, folder, "--walltime", "none", "--evaluations", "300", job="7")
    try:
        until = time.monotonic() + 300
        while not finished(folder) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGTERM)
        out, told = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 75, told
    assert "Traceback" not in told
    assert "Stopped for its walltime. Every finished evaluation is kept" in told
    assert f"nas {problem} --run {folder}" in told
    assert '"evaluations": ' in out
    with RunView(folder) as view:
        assert view.sessions()[-1].ended == "walltime"

    wanted = finished(folder) + 2
    process = start(problem, folder, "--evaluations", str(wanted))
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert finished(folder) == wanted
    assert (folder / "best.keras").exists()


@pytest.mark.long
def test_a_walltime_that_is_too_short_for_anything(tiny: Callable[..., Path], tmp_path: Path) -> None:
    process = start(tiny(), tmp_path / "run", "--walltime", "00:00:01")
    _, told = process.communicate(timeout=300)
    assert process.returncode == 2, told
    assert "Nothing was finished within this walltime" in told
    assert "longer walltime" in told
