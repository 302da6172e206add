"""From a wheel without extras: what is missing is named before a cluster starts; what is imported is declared."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from daskevo import extras
from daskevo.errors import InvalidInput
from daskevo.extras import EXTRA_OF, keras_backend, need, need_tensorflow, training_packages, versions_of

ROOT = Path(__file__).parents[1]
NAMED = {"dask_cuda": "dask-cuda", "dask_jobqueue": "dask-jobqueue", "keras_tuner": "keras-tuner"}
NAMED |= {"prometheus_client": "prometheus-client", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Modules that have another name than the package that brings them."""

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
import distributed
def starts(*arguments, **options):
    raise SystemExit("a cluster was started")
distributed.SpecCluster.__init__ = starts
from daskevo_workflows.cli import main
main({words!r}, "daskevo")
"""


def run(words: list[str], folder: Path, missing: list[str]) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(words=words, missing=missing)
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ["nas", "digits", "--evaluations", "3"],
        ["tune", "digits-lr"],
        ["check", "digits"],
        ["forecast", "digits", "--evaluations", "30", "--trainers", "2"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_names_the_extra_and_starts_nothing(words: list[str], tmp_path: Path) -> None:
    done = run(words, tmp_path, ["keras", "tensorflow"])
    assert done.returncode == 2, done.stderr
    assert "needs keras and tensorflow, which are not installed here: pip install 'daskevo[tensorflow]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [["nas", "digits"], ["tune", "digits-lr"], ["check", "digits"]], ids=lambda words: words[0]
)
def test_so_does_one_whose_problem_has_no_data(words: list[str], tmp_path: Path) -> None:
    done = run(words, tmp_path, ["sklearn"])
    assert done.returncode == 2, done.stderr
    assert "needs sklearn, which is not installed here: pip install 'daskevo[data]'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_whatever_else_needs_keras_says_so(tmp_path: Path) -> None:
    code = "import sys; sys.modules['keras'] = None\ntry: import daskevo.models\nexcept ValueError as e: print(repr(e))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith('InvalidInput("whatever builds a model needs keras, which is not installed here')


def test_what_is_there_is_not_missed() -> None:
    need("a test", *training_packages())
    with pytest.raises(KeyError):
        need("a test", "no_such_package_of_ours")


def test_all_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {Requirement(text).name.lower() for text in project["dependencies"]}
    extras = {
        extra: {Requirement(text).name.lower() for text in texts}
        for extra, texts in project["optional-dependencies"].items()
    }
    for module in sorted(imported()):
        package = NAMED.get(module, module).lower()
        assert package in core or package in extras[EXTRA_OF[module]], module


def imported() -> set[str]:
    """Top-level modules of others that the three packages import; `daskevo.testing` is for those who test."""
    found: set[str] = set()
    for folder in ("daskevo", "plugins/daskevo_plugins", "workflows/daskevo_workflows"):
        for path in (ROOT / folder).rglob("*.py"):
            if (ROOT / "daskevo/testing") in path.parents:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    found.add((node.module or "").partition(".")[0])
    return {name for name in found if name not in sys.stdlib_module_names and not name.startswith("daskevo")}


def test_the_error_carries_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InvalidInput, match=r"pip install 'daskevo\[optuna\]'") as caught:
        need("a strategy", "optuna")
    assert caught.value.facts["missing"] == ["optuna"]


def test_a_version_is_found_where_the_distribution_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"tensorflow-cpu": "2.18.0", "numpy": "2.1.0"}

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(extras, "version", version)
    extras._version.cache_clear()
    try:
        assert versions_of(("keras", "tensorflow", "numpy")) == {"tensorflow": "2.18.0", "numpy": "2.1.0"}
    finally:
        extras._version.cache_clear()


@pytest.fixture
def unimported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keras as in a process that has not imported it, with a settings folder of its own."""
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    return tmp_path


def test_the_backend_is_known_before_keras_is_imported(unimported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keras_backend() == "tensorflow"
    for broken in ("no JSON", "[]"):
        (unimported / "keras.json").write_text(broken)
        assert keras_backend() == "tensorflow"
    (unimported / "keras.json").write_text('{"backend": "torch"}')
    assert keras_backend() == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert keras_backend() == "jax"
    assert training_packages() == ("keras", "jax")


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_keras_would_choose_the_same(backend: str, unimported: Path) -> None:
    (unimported / "keras.json").write_text(f'{{"backend": "{backend}"}}')
    code = "import daskevo.extras as e; before = e.keras_backend(); import keras; print(before, keras.config.backend())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [backend, backend]


def test_what_is_missing_is_that_of_the_backend(unimported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    for name in ("keras", "jax", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidInput, match=r"a test needs keras and jax, .* pip install 'daskevo\[jax\]'"):
        need("a test", *training_packages())
    with pytest.raises(InvalidInput, match="needs Keras on TensorFlow, and here Keras runs on jax"):
        need_tensorflow("a test")
