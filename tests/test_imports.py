"""What importing says (nothing) and loads: a command's help and a press of TAB load none of the large packages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LARGE = (
    "dask",
    "distributed",
    "numpy",
    "numba",
    "pandas",
    "keras",
    "tensorflow",
    "jax",
    "torch",
    "yaml",
    "optuna",
    "matplotlib",
    "jinja2",
)
"""Each takes from a tenth of a second to several, which --help and a press of TAB must not."""

HELPS = (
    *("", "nas", "tune", "models", "models ls", "models retire", "models export", "models add", "models diff"),
    *("verify", "report", "status", "figures", "frame", "node", "forecast"),
)


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    without = {
        name: value for name, value in os.environ.items() if name not in ("TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env={**without, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    "modules",
    [
        "daskevo",
        "daskevo_plugins",
        "daskevo_workflows",
        "daskevo.repository, daskevo.search, daskevo.space, daskevo.tuning, daskevo.deploy.local, daskevo.testing",
        "daskevo_plugins.coordinator.plugin, daskevo_plugins.provider",
        "daskevo_workflows.nas, daskevo_workflows.tune, daskevo_workflows.problems, daskevo_workflows.cli",
    ],
)
def test_importing_says_nothing(modules: str) -> None:
    done = _python(f"import {modules}")
    assert (done.stdout, done.stderr) == ("", "")


def test_the_packages_load_no_large_one() -> None:
    code = f"import sys, daskevo, daskevo_plugins, daskevo_workflows; print(*{set(LARGE)} & sys.modules.keys())"
    assert _python(code).stdout == "\n"


def test_no_help_loads_a_large_package() -> None:
    code = f"""
import sys
from daskevo_workflows.cli import main
for words in {HELPS!r}:
    main.main([*words.split(), "--help"], "daskevo", standalone_mode=False)
    print("loaded by", words, sorted({set(LARGE)} & sys.modules.keys()))
"""
    shown = _python(code).stdout
    assert shown.count("Usage: daskevo") == len(HELPS)
    for words in HELPS:
        assert f"loaded by {words} []\n" in shown


@pytest.mark.parametrize("line", ["daskevo na", "daskevo nas d", "daskevo nas digits --r", "daskevo models ls ./"])
def test_a_press_of_tab_loads_no_large_package(line: str) -> None:
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('loaded:', *{set(LARGE)} & sys.modules.keys()))\n"
        "from daskevo_workflows.cli import main; main(prog_name='daskevo')"
    )
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    shown = _python(code, _DASKEVO_COMPLETE="bash_complete", **words).stdout
    assert shown.endswith("loaded:\n")
    assert "," in shown  # it did complete something
