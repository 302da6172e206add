"""`daskevo tune`: what is refused without a cluster; a study that is interrupted and goes on, its line of JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskevo.runs import RunView
from daskevo_workflows.cli import main
from daskevo_workflows.cli.json_lines import TUNE_KEYS
from daskevo_workflows.cli.tune import STRATEGY_WORDS
from daskevo_workflows.studies.strategies import WORDS, strategy_of
from daskevo_workflows.tune import space_to_tune
from tests.workflows import tuned


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["digits-lr", "--strategy", "halving", "--steps", "10"], "are at 4 and 16 and not at most=10"),
        (["digits-lr", "--strategy", "grid", "--population", "5"], "population is for pbt"),
        (["digits-lr", "--strategy", "pbt", "--candidates", "5"], "candidates is for halving, asha, median"),
        (["digits-lr", "--strategy", "median", "--first", "3"], "every=3, most=16"),
        (["digits-lr", "--objective", "most val_accuracy"], "max METRIC"),
        (["nowhere.py"], "no problem file"),
    ],
)
def test_what_can_t_be_is_refused_without_a_cluster(words: list[str], told: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, ["tune", *words, "--run", str(tmp_path / "run")])
    assert answer.exit_code == 2
    assert told in answer.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def space(:\n", "SyntaxError"),
        ("import sys\nsys.exit(4)\n", "SystemExit: 4"),
        ("name = 'mine'\n", "mine.py"),
    ],
)
def test_a_file_that_is_no_problem_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    answer = CliRunner().invoke(main, ["tune", str(tmp_path / "mine.py"), "--run", str(tmp_path / "run")])
    assert answer.exit_code == 2
    assert told in answer.stderr
    assert not (tmp_path / "run").exists()


def test_every_word_makes_a_strategy() -> None:
    assert STRATEGY_WORDS == WORDS
    space = space_to_tune(tuned)  # type: ignore[arg-type]
    names = [strategy_of(word, space, steps=16).name for word in WORDS]
    assert len(set(names)) == len(names)
    clones = strategy_of("pbt", space, steps=16, population=5)
    assert clones.settings["only"] == ["batch_size", "learning_rate"]
    assert clones.settings["population"] == 5
    assert strategy_of("asha", space, steps=27, eta=3, candidates=9).settings["candidates"] == 9


def answers(folder: Path) -> int:
    try:
        with RunView(folder) as view:
            return len(view.reports())
    except Exception:  # noqa: BLE001 - the record is being made
        return 0


HELD = """
import time
from pathlib import Path

from daskevo_workflows.problems.digits_lr import DigitsLr


class Held(DigitsLr):
    name = "held"

    def score(self, model, data):
        try:
            (Path({folder!r}) / "scored").touch(exist_ok=False)
        except FileExistsError:
            while not (Path({folder!r}) / "go on").exists():
                time.sleep(0.05)
        return super().score(model, data)


held = Held()
"""
"""One state is scored, and no other until it may be: the study is interrupted in the middle, however late."""


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1500)
def test_a_study_that_is_interrupted_goes_on_with_the_same_command(tmp_path: Path) -> None:
    folder, problem = tmp_path / "run", tmp_path / "held.py"
    problem.write_text(HELD.format(folder=str(tmp_path)))
    code = "from daskevo_workflows.cli import main; main(prog_name='daskevo')"
    words = [f"{problem}:held", "--strategy", "grid", "--steps", "8", "--workers", "1", "--run", str(folder), "--json"]
    command = [sys.executable, "-c", code, "tune", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until = time.monotonic() + 500
        while not answers(folder) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "Every answer and every snapshot is kept; to go on:" in err
    assert 1 <= answers(folder) < 20
    (tmp_path / "go on").touch()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=700, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "best model:" in ended.stderr
    assert re.search(r"dashboard: http://\S+/daskevo/studies\n", ended.stderr)
    line = json.loads(ended.stdout.splitlines()[-1])
    assert tuple(line) == TUNE_KEYS
    assert (line["trials"], line["total_steps"]) == (20, 160)
    assert line["unique_steps"] <= line["trained_steps"] < 160
    assert line["best"]["quality"] > 0.9
    assert set(line["best"]["hyperparameters"]) == {"learning_rate", "batch_size"}
    assert (folder / "best.keras").exists()
    again = subprocess.run(command, capture_output=True, text=True, timeout=700, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stderr.startswith("Nothing left to do: 20 evaluations finished.\n")
    assert "dashboard" not in again.stderr
    told = json.loads(again.stdout.splitlines()[-1])
    assert {**told, "runtime_s": None} == {**line, "runtime_s": None}
    other = subprocess.run([*command, "--seed", "1"], capture_output=True, text=True, timeout=700, check=False)
    assert other.returncode == 2
    assert "dashboard" not in other.stderr
    assert "RunMismatch" in other.stderr
