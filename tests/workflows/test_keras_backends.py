"""Keras on JAX, and on PyTorch where it is installed: the repository, searches, refining and exporting go the same way.

Each process with another backend is a real one, since Keras chooses its backend when it is imported. It finds a
TensorFlow that can't be imported: what runs here needs none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.deploy import settings, worker_environment
from daskevo.errors import RunMismatch, VersionMismatch
from daskevo.models import flatten
from daskevo.runs.folder import read_info
from daskevo.runs.mismatch import check_identity
from daskevo.search import Random, Request
from daskevo.types import ModelId, Objective
from daskevo_workflows.evaluation.evaluate import evaluate
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution import run_identity
from daskevo_workflows.exporting.foreign_models import load_model_file
from daskevo_workflows.problems import refer
from daskevo_workflows.stage_training import origin
from tests.workflows import keras_backend_problem as problem
from tests.workflows.keras_backend_script import digest, predicted

ROOT = Path(__file__).parents[2]
OTHERS = [
    "jax",
    pytest.param(
        "torch",
        marks=[
            pytest.mark.long,
            pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed here"),
        ],
    ),
]

WITHOUT_CLUSTER = """
import distributed
def starts(*arguments, **options):
    raise SystemExit("a cluster was started")
distributed.SpecCluster.__init__ = starts
from daskevo_workflows.cli import main
main({words!r}, "daskevo")
"""


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python with a backend of Keras, and with no TensorFlow."""
    package = tmp_path / "without" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('raise ImportError("TensorFlow is left out here")\n')

    def run(backend: str, *words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(package.parent), *sys.path])
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": path},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def told(process: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Any]:
    """Calls a function of the script in a process with a backend, and returns what it found."""

    def tell(backend: str, *words: Any) -> Any:
        done = process(backend, "-m", "tests.workflows.keras_backend_script", *map(str, words))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return tell


@pytest.mark.parametrize("backend", OTHERS)
def test_models_in_a_process(backend: str, told: Callable[..., Any]) -> None:
    found = told(backend, "here")
    assert found["backend"] == backend
    assert backend in found["obstacle"]
    assert found["bfloat16"]
    # The architecture says nothing of the backend: models of one are ancestors of the other's.
    assert found["ids"] == [vertex.hex() for vertex in flatten(problem.build({"first": 4, "second": 3})).graph.ids]
    assert found["equal_seeds"]
    # Validation and callbacks are Keras' own: `val_loss` came, and the callback that watches it ended the training.
    assert found["history"] == ["loss", "val_loss"]
    assert found["epochs"] == 2
    # A Dense layer and normalisation were frozen: neither their weights nor the statistics moved.
    assert found["kept"] == [True] * 6 + [False] * 4
    assert not found["has_tensorflow"]
    # JAX would make 32 bits of them, without an error.
    said = {
        "jax": "float64 was asked for, and Keras on jax holds it as float32, which has other values: set "
        "JAX_ENABLE_X64=1",
        "torch": "float64",
    }
    assert said[backend] in found["float64"]


@pytest.mark.long
@pytest.mark.parametrize("backend", OTHERS)
def test_a_search_goes_from_end_to_end(backend: str, told: Callable[..., Any], tmp_path: Path) -> None:
    found = told(backend, "search", tmp_path)

    assert found["backends"] == [backend]
    assert found["summary"]["evaluations"] == 4
    assert found["summary"]["failures"] == 0
    assert found["refined"] == ["finished", None]
    assert found["inherited"]
    assert found["clean"]
    # Here Keras runs on TensorFlow: the stored model and all files are the same one.
    files = [load_model_file(tmp_path / name) for name in ("best.keras", "best.safetensors")]
    for model in (daskevo.open(tmp_path / "root", "any").load(found["best"]), *files):
        assert digest(model) == found["digest"]
        np.testing.assert_allclose(predicted(model), found["predicted"], atol=1e-5)
    assert found["card"]["keras_backend"] == backend
    # The run says which backend it is of, and goes on with no other.
    info = read_info(tmp_path / "run")
    assert info is not None
    assert info.identity["backend"] == backend
    assert info.about["versions"]["keras_backend"] == backend
    assert backend in info.about["versions"]
    on_tensorflow = {name: part for name, part in info.identity.items() if name != "backend"}
    with pytest.raises(RunMismatch, match=f"Keras' backend: {backend} there, tensorflow here") as caught:
        check_identity(tmp_path / "run", info.identity, on_tensorflow)
    assert caught.value.parts == ["backend"]


@pytest.mark.long
def test_a_model_of_tensorflow_is_loaded(told: Callable[..., Any], repository: Any) -> None:
    model = problem.build({"first": 8, "second": 5})
    with repository.inherit(model) as child:
        problem.compile(child.model)
        child.model.fit(*problem.data().train, verbose=0)
        name = child.put(metrics={"val_accuracy": 0.5}, step=2)
        found = told("jax", "read", repository.root, name)
        assert found["digest"] == digest(child.model)
        np.testing.assert_allclose(found["predicted"], predicted(child.model), atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("backend", OTHERS)
def test_equal_seeds_give_equal_runs(backend: str, told: Callable[..., Any], tmp_path: Path) -> None:
    assert told(backend, "twice", tmp_path) == {"equal": True, "models": 4}


@pytest.mark.parametrize(
    "words", [["tune", "digits-lr"], ["nas", "digits", "--strategy", "asha"]], ids=lambda words: words[0]
)
def test_training_in_stages_is_refused_and_nothing_starts(
    words: list[str], process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = process("jax", "-c", WITHOUT_CLUSTER.format(words=[*words, "--run", str(run)]))
    assert done.returncode == 2, done.stderr
    assert "needs Keras on TensorFlow, and here Keras runs on jax: set KERAS_BACKEND=tensorflow" in done.stderr
    assert "Traceback" not in done.stderr
    assert not run.exists()


def identity() -> dict[str, Any]:
    return run_identity.identity_of(
        refer("digits"),
        Objective.parse("max val_accuracy"),
        Random(),
        seed=0,
        transfer=Transfer(),
        control_share=0.0,
        epochs=None,
    )


def test_records_of_tensorflow_are_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = identity()
    assert "backend" not in before
    assert "keras_backend" not in {**origin.versions(), **settings.versions()}

    monkeypatch.setattr(run_identity, "keras_backend", lambda: "jax")
    with pytest.raises(RunMismatch, match="Keras' backend: tensorflow there, jax here"):
        check_identity(tmp_path, before, identity())
    check_identity(tmp_path, identity(), identity())


def test_a_snapshot_of_another_backend_has_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"versions": origin.versions()}
    assert not origin.changed_versions(kept)
    monkeypatch.setattr("daskevo.extras.keras_backend", lambda: "jax")
    assert origin.changed_versions(kept)["keras_backend"] == (None, "jax")
    assert not origin.changed_versions({"versions": origin.versions()})


def test_trainers_on_another_backend_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    client = settings.versions()
    monkeypatch.setattr(settings, "keras_backend", lambda: "jax")
    with pytest.raises(VersionMismatch, match="client's Keras runs on tensorflow, but that of worker 't' on jax"):
        settings.check_versions(client, "worker 't'", trains=True)
    # Neither a provider builds models, nor a client without Keras.
    settings.check_versions(client, "worker 'p'")
    without = {name: number for name, number in client.items() if name in settings.COMPARED}
    settings.check_versions(without, "worker 't'", trains=True)


def test_other_backends_compare_their_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    client = {**settings.versions(), "keras_backend": "jax", "jax": "1.0", "tensorflow": "1.0"}
    here = {**client, "tensorflow": "2.0"}
    monkeypatch.setattr(settings, "keras_backend", lambda: "jax")
    monkeypatch.setattr(settings, "versions", lambda: here)
    settings.check_versions(client, "worker 't'", trains=True)
    here["jax"] = "2.0"
    with pytest.raises(VersionMismatch, match=r"jax 1\.0.* but worker 't' runs .*jax 2\.0"):
        settings.check_versions(client, "worker 't'", trains=True)


def test_a_trainer_that_came_later_does_not_train_on_another_backend() -> None:
    client = {**settings.versions(), "keras_backend": "jax"}
    request = Request(0, ModelId("m-0"), problem.space().candidate({"first": 4, "second": 3}))
    handle = SimpleNamespace(settings=SimpleNamespace(versions=client))
    assignment: Any = SimpleNamespace(key="m", topic="t", request=request, repository=handle)
    with pytest.raises(VersionMismatch, match="client's Keras runs on jax, but that of worker None on tensorflow"):
        evaluate(assignment)


def test_the_threads_of_a_trainer_are_those_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NPROC" not in worker_environment.trainer_environment(3, None)
    monkeypatch.setattr(worker_environment, "keras_backend", lambda: "jax")
    assert worker_environment.trainer_environment(3, None)["NPROC"] == "3"


@pytest.mark.long
def test_tensorflow_beside_another_backend_is_imported_without_a_word() -> None:
    code = (
        "from daskevo_workflows.evaluation.quiet_import import import_keras; import_keras()\n"
        "import keras, sys; keras.saving.serialize_keras_object(keras.layers.Dense(2))\n"
        "print(keras.config.backend(), 'tensorflow' in sys.modules)"
    )
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("jax True\n", "")
