"""Models that were trained elsewhere become ancestors: from Python, by the command, and what is refused."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import daskevo
from daskevo.errors import CannotFlatten, CannotRebuild, InvalidInput, ModelExists
from daskevo.search import Random
from daskevo_workflows import nas
from daskevo_workflows.cli import main
from daskevo_workflows.exporting import export_model
from daskevo_workflows.exporting.foreign_models import load_model_file

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras, under numpy 2
]


def net(second: int = 6, *, compiled: bool = False) -> Any:
    """Return a model as the tiny problem builds it."""
    import keras

    inputs = keras.Input((8,))
    tensor = keras.layers.Dense(second)(keras.layers.Dense(8, "tanh")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2, "softmax")(tensor))
    if compiled:
        model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    return model


def typed(*command: object) -> Result:
    return CliRunner().invoke(main, ["models", "add", *map(str, command)])


def test_a_trained_model_is_added_as_it_is(repository: Any) -> None:
    model = net(compiled=True)
    model.fit(np.zeros((4, 8)), np.zeros(4), verbose=0)
    name = repository.add(model, metrics={"val_accuracy": 0.9}, step=500, labels=["user:paper"], model_id="mine")
    assert (name, model.compiled) == ("mine", True)
    record = repository.record("mine")
    assert (record.quality, record.step, record.ancestor) == (0.9, 500, None)
    assert all(entry.steps == 500 for entry in record.owner_map.entries)
    with repository.inherit(net(3), freeze="steps:300") as child:
        assert (child.ancestor, child.report.frozen) == ("mine", child.report.matched)
        assert len(child.report.matched) == 1
    with pytest.raises(ModelExists):
        repository.add(net(), model_id="mine")


def test_what_has_no_graph_is_not_added(repository: Any) -> None:
    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Lambda(lambda x: x)])
    with pytest.raises(CannotFlatten, match="Lambda"):
        repository.add(model)
    assert repository.models() == []


@pytest.mark.long
def test_a_search_inherits_from_what_was_added(client: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """The command has a cluster of its own; the search after it finds the model."""
    file, root = tmp_path / "mine.keras", tmp_path / "root"
    net().save(file)
    words = ["--scope", "tiny", "--objective", "max val_accuracy", "--metric", "val_accuracy=0.9", "--step", 500]
    added = typed(root, file, *words, "--name", "mine", "--label", "user:me", "--json")
    assert added.exit_code == 0, added.output
    assert json.loads(added.stdout) == {"model": "mine", "scope": "tiny", "quality": 0.9, "own_bytes": 560}
    repository = daskevo.open(root, "tiny", client=client)
    result = nas.search(
        tiny(FIRST=(8,), ACTIVATION=("tanh",)), Random(), repository=repository, evaluations=2, run=tmp_path / "run"
    )
    assert {report.ancestor for report in result.reports} == {"mine"}
    assert all(report.frozen_share > 0 for report in result.reports)
    facts = result.best(1)[0].card.facts
    assert [entry["model"] for entry in facts["lineage"]][-1] == "mine"
    # The run's own scope; no quality, because the objective's metric isn't among those that were said.
    again = typed(tmp_path / "run", file, "--scheduler", client.scheduler.address, "--metric", "loss=0.5")
    assert again.exit_code == 0, again.output
    assert "scope tiny, max val_accuracy, quality –" in again.stdout
    assert "It has no quality (its objective is 'max val_accuracy')" in again.stderr
    pytest.importorskip("safetensors", reason="safetensors isn't installed: pip install safetensors")
    export_model(daskevo.open(root), "mine", tmp_path / "mine.safetensors")
    loaded = load_model_file(tmp_path / "mine.safetensors")
    assert [w.numpy().tobytes() for w in loaded.weights] == [w.numpy().tobytes() for w in net_of(file).weights]


def test_weights_that_are_no_numbers_are_not_added(repository: Any) -> None:
    model = net()
    model.layers[1].set_weights([np.full((8, 8), np.nan, "float32"), np.zeros(8, "float32")])
    with pytest.raises(InvalidInput, match=r"1 of the model's 6 weights hold values that are no numbers"):
        repository.add(model)
    assert repository.models() == []


def net_of(file: Path) -> Any:
    import keras

    return keras.saving.load_model(file)


def forged(path: Path, config: Any) -> Path:
    """Write a `.keras` file with this configuration."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", config if isinstance(config, (str, bytes)) else json.dumps(config))
    return path


LAMBDA = {
    "module": "keras.layers",
    "class_name": "Lambda",
    "config": {"name": "x", "function": {"class_name": "__lambda__"}},
}
IMPORTS = {"module": "os", "class_name": "system", "config": {"name": "x"}, "registered_name": "system"}
READS = {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"name": "x", "filepath": "/etc"}}


@pytest.mark.parametrize(
    ("layer", "why"),
    [(LAMBDA, "runs code"), (IMPORTS, "neither Keras' own nor registered"), (READS, "loads files")],
    ids=["lambda", "imports", "reads"],
)
def test_code_in_a_file_is_not_run(layer: Any, why: str, tmp_path: Path) -> None:
    config = {"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": [layer]}}
    with pytest.raises(CannotRebuild, match=why):
        load_model_file(forged(tmp_path / "m.keras", config))


@pytest.mark.parametrize("config", ["{", b"\xff", "[" * 100_000])
def test_a_file_that_is_none_is_said(config: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is no \.keras file that Keras 3 wrote"):
        load_model_file(forged(tmp_path / "m.keras", config))


def test_other_files_are_said(tmp_path: Path) -> None:
    (tmp_path / "m.keras").write_text("no zip")
    for name, why in (
        ("m.keras", "is no .keras file"),
        ("nowhere.keras", "can't be read"),
        ("m.weights.h5", "repository.add"),
        ("m.h5", "can run code"),
        ("m.pt", "is no model's file"),
    ):
        with pytest.raises(InvalidInput, match=why):
            load_model_file(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "empty.keras", "w"):
        pass
    with pytest.raises(InvalidInput, match=r"is no \.keras file"):
        load_model_file(tmp_path / "empty.keras")


def test_a_file_that_unpacks_to_far_more_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", bytes(100 << 20))
    with pytest.raises(InvalidInput, match="unpacks to 104,857,602"):
        load_model_file(tmp_path / "m.keras")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.keras")
    with pytest.raises(InvalidInput, match="is no file"):
        load_model_file(tmp_path / "m.keras")


def test_what_the_command_cannot_do_is_said_before_a_cluster_is_started(tmp_path: Path) -> None:
    file = tmp_path / "m.keras"
    net().save(file)
    for words, why in (
        ([], "say whose data and task"),
        (["--scope", "a/b"], "InvalidName"),
        (["--scope", "a", "--metric", "x"], "NAME=VALUE"),
        (["--scope", "a", "--metric", "x=nan"], "finite"),
        (["--scope", "a", "--objective", "most x"], "is no objective"),
        (["--scope", "a", "--label", "me"], "InvalidName"),
        (["--scope", "a", "--name", "../x"], "InvalidName"),
    ):
        said = typed(tmp_path / "root", file, *words)
        assert (said.exit_code, why in said.stderr) == (2, True), said.stderr
    assert not (tmp_path / "root").exists()
