"""`daskevo check`: what is looked at is said, and what a search can't rely on, with an exit code for each."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from daskevo_workflows.cli import hang_notice, main
from daskevo_workflows.cli.json_lines import CHECK_KEYS
from daskevo_workflows.cli.stdio_guard import lent_streams
from daskevo_workflows.problems import refer
from tests.workflows import tiny

GOOD = Path(tiny.__file__).read_text()


def check(*words: str) -> Result:
    return CliRunner().invoke(main, ["check", *words])


def test_a_sound_problem(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    result = check(str(tmp_path / "mine.py"), "--candidates", "2")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "problem 'tiny': all parts are there, max val_accuracy after 1 epoch"
    assert lines[1].startswith("space: ")
    assert lines[2] == "data: 64 samples to train with, 32 to score with"
    assert lines[3].startswith("candidate 1 of 2, {'first': ")
    assert "built twice alike, stored and made again, " in lines[4]
    assert "; val_accuracy 0." in lines[4]
    assert lines[5].startswith("Sound:")
    assert lines[6].strip() == f"evo nas {tmp_path / 'mine.py'} --evaluations 20"


def test_one_of_several_in_a_file(tmp_path: Path) -> None:
    """A search takes it, too, and tells it from the others."""
    source = GOOD + "\nimport sys\nfrom types import SimpleNamespace\nparts = dict(vars(sys.modules[__name__]))\n"
    source += 'wide = SimpleNamespace(**{**parts, "name": "wide"})\nnothing = 1\n'
    (tmp_path / "mine.py").write_text(source)
    place = str(tmp_path / "mine.py")
    assert "problem 'wide'" in check(f"{place}:wide", "--candidates", "1", "--batches", "1").stdout
    assert refer(f"{place}:wide").load().name == "wide"
    assert refer(f"{place}:wide").content != refer(place).content
    missing = check(f"{place}:other")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "there is no 'other' in the problem file" in missing.stderr
    assert check(f"{place}:nothing").exit_code == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (GOOD.replace('return {"val_accuracy"', 'return {"accuracy"'), "score() must return 'val_accuracy'"),
        ("import nowhere_at_all", "can't be run: it raised ModuleNotFoundError"),
        ("name = 'mine'", "missing or wrong"),
        (GOOD.replace("def space() -> Space:", "def space() -> Space:\n    1 / 0"), "space() raised ZeroDivisionError"),
        (GOOD + "\ndef space():\n    raise SystemExit(0)\n", "space() raised SystemExit"),
        (GOOD + "\ndef data():\n    raise SystemExit(0)\n", "data() raised SystemExit"),
        (GOOD + "\ndef build(choices):\n    raise GeneratorExit\n", "build() raised GeneratorExit"),
        (GOOD + "\ndel space\ndef build(choose):\n    raise Unheard\n", "build() raised Unheard"),
        (GOOD + "\ndef compile(model):\n    raise SystemExit(0)\n", "score() raised SystemExit"),
        (GOOD + "\ndef score(model, data):\n    raise SystemExit(0)\n", "score() raised SystemExit"),
        ("raise GeneratorExit", "can't be run: it raised GeneratorExit"),
        ("def __getattr__(name):\n    raise RuntimeError(name)\n", "can't be looked at: it raised RuntimeError"),
        ("import sys\nsys.stdout = sys.stderr = None\n", "missing or wrong"),
    ],
    ids=[
        *(
            "score",
            "import",
            "parts",
            "space",
            "exit in space",
            "exit in data",
            "base in build",
            "base without a space",
        ),
        *("exit in compile", "exit in score", "base in file", "getattr", "no streams"),
    ],
)
def test_what_is_not_sound_is_named(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(source)
    result = check(str(tmp_path / "mine.py"), "--candidates", "1", "--json")
    assert result.exit_code == 1, result.output
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert tuple(found) == CHECK_KEYS
    assert found["sound"] is False
    assert said in found["found"]
    assert f"Not sound: {found['found']}" in result.stderr


def test_a_build_that_does_not_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = tmp_path / "noted"

    def watched(say: Callable[[str], None]) -> AbstractContextManager[None]:
        def say_and_note(words: str) -> None:
            say(words)
            if "in build" in words:
                noted.touch()

        return hang_notice.watched(say_and_note)

    monkeypatch.setattr(hang_notice, "PATIENCE_S", 0.2)
    monkeypatch.setattr(sys.modules["daskevo_workflows.cli.check"], "watched", watched)
    source = f"{GOOD}\ndef build(choices):\n    while not Path({str(noted)!r}).exists():\n        time.sleep(0.01)\n"
    (tmp_path / "mine.py").write_text(source + "    raise KeyboardInterrupt\n")
    result = check(str(tmp_path / "mine.py"))
    assert result.exit_code == 130
    assert re.search(r"have gone by: it is at mine\.py, line \d+, in build now; Ctrl-C ends it", result.stderr)


def test_streams_that_a_problem_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    with lent_streams() as put_back:
        sys.stdout.close()
        sys.stdout = None  # type: ignore[assignment]
        put_back()
        click.echo("a verdict")
        sys.stdout.close()
    assert sys.stdout is out
    assert out.getvalue() == "a verdict\n"


@pytest.mark.parametrize(
    ("problem", "said"), [("nowhere.py", "no problem file"), ("nothing", "there is no problem"), ("digits-lr", "tune")]
)
def test_what_can_not_be_looked_at(problem: str, said: str) -> None:
    result = check(problem)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
