"""Which tests run: the quick ones by themselves, each long one in one part, and whatever is named."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = ROOT / "conftest.py"
QUICK = {"tests/test_mixed.py::test_quick", "tests/test_quick.py::test_quick"}
LONG = {
    *(f"tests/test_mixed.py::test_long[{number}]" for number in range(3)),
    *(f"tests/test_long_{number}.py::test_long" for number in range(4)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of nine tests with this project's conftest."""
    made = tmp_path_factory.mktemp("project")
    shutil.copy(CONFTEST, made)
    (made / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nmarkers =\n    long: as in pyproject.toml\n")
    (made / "tests").mkdir()
    long = "import pytest\n\n\n@pytest.mark.long\ndef test_long():\n    pass\n"
    quick = "\n\ndef test_quick():\n    pass\n"
    for number in range(4):
        (made / "tests" / f"test_long_{number}.py").write_text(long)
    (made / "tests" / "test_quick.py").write_text(quick)
    several = long.replace("@", "@pytest.mark.parametrize('number', range(3))\n@").replace("()", "(number)")
    (made / "tests" / "test_mixed.py").write_text(several + quick)
    return made


def ran(folder: Path, *words: str) -> set[str]:
    """Return the tests that these words run, with no other plugins than pytest-xdist."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", "-p", "xdist.plugin", *words],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.removeprefix("PASSED ") for line in done.stdout.splitlines() if line.startswith("PASSED ")}


def test_long_tests_are_left_out_unless_they_are_asked_for(folder: Path) -> None:
    assert ran(folder) == QUICK
    assert ran(folder, "--all") == QUICK | LONG


def test_what_is_named_runs(folder: Path) -> None:
    assert ran(folder, "tests/test_long_0.py", "tests/test_quick.py") == {
        "tests/test_long_0.py::test_long",
        "tests/test_quick.py::test_quick",
    }


def test_each_long_test_is_in_one_part(folder: Path) -> None:
    parts = [ran(folder, "--part", f"{number}/3") for number in (1, 2, 3)]
    assert all(part >= QUICK for part in parts)
    long = [name for part in parts for name in part - QUICK]
    assert len(long) == len(LONG)
    assert set(long) == LONG
    # Those of a file stay together.
    assert {name for name in LONG if "mixed" in name} in [part & {n for n in LONG if "mixed" in n} for part in parts]


def test_processes_that_test_side_by_side_choose_the_same(folder: Path) -> None:
    assert ran(folder, "-n", "2") == QUICK
    assert ran(folder, "-n", "2", "--part", "1/1") == QUICK | LONG


def test_parts_are_about_equal() -> None:
    files = [f"{name}.py" for name, tests in (("a", 1), ("b", 4), ("c", 2), ("d", 1)) for _ in range(tests)]
    assert runpy.run_path(str(CONFTEST))["deal"](files, 2) == {"b.py": 1, "c.py": 2, "a.py": 2, "d.py": 2}


@pytest.mark.parametrize("words", ["0/3", "4/3", "2", "1/2/3", "a/b", "-1/3", ""])
def test_what_is_no_part_is_said(words: str) -> None:
    with pytest.raises(Exception, match="is no part K/N such as 2/5"):
        runpy.run_path(str(CONFTEST))["part"](words)


def test_ci_says_which_part_it_runs_and_how_to_run_it_again() -> None:
    last = (ROOT / ".ci" / "run").read_text().partition("PARTS=")[2].replace("exec python3", "exec echo")
    done = subprocess.run(["bash", "-euc", "PARTS=" + last], capture_output=True, text=True, timeout=60, check=True)
    said, command = done.stdout.splitlines()
    assert said.endswith("again with: python3 " + command)
    words = command.split()
    assert words[:3] == ["start.py", "test", "--part"]
    runpy.run_path(str(CONFTEST))["part"](words[3])
