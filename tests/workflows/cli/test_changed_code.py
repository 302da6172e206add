"""Commands that load models say that a layer of the user's own has other code than when they were stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import daskevo
from daskevo_workflows.cli import main
from daskevo_workflows.exporting import read_card
from daskevo_workflows.problems import load_problem

GATE = """

@keras.saving.register_keras_serializable("changed_code")
class Gate(keras.layers.Layer):
    def call(self, x):
        return x * keras.ops.sigmoid(x)
"""


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, under numpy 2
@pytest.mark.filterwarnings("default::daskevo.errors.LayerCodeChanged")
def test_verify_and_export_say_that_code_changed(client: Any, tmp_path: Path) -> None:
    import keras

    file = tmp_path / "gated.py"
    text = (Path(__file__).parents[1] / "tiny.py").read_text()
    text = text.replace("import numpy as np", "import keras\nimport numpy as np", 1) + GATE
    file.write_text(text)
    load_problem(str(file))
    root = tmp_path / "root"
    repository = daskevo.open(root, "gated", client=client, objective="max score")
    x = keras.Input((4,))
    hidden = keras.saving.get_registered_object("changed_code>Gate")(name="gate")(keras.layers.Dense(3)(x))
    repository.add(keras.Model(x, keras.layers.Dense(2)(hidden)), model_id="mine", metrics={"score": 0.5})
    repository.add(keras.Sequential([x, keras.layers.Dense(2)]), model_id="plain", metrics={"score": 0.4})

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, [*words, "--problem", str(file)])

    same = run("verify", str(root), "--rebuild")
    assert (same.exit_code, same.stderr) == (0, "")
    assert run("models", "export", str(root), "mine", str(tmp_path / "one.keras")).stderr == ""
    assert read_card(tmp_path / "one.keras")["file"]["changed_code"] == []

    file.write_text(text.replace("keras.ops.sigmoid(x)", "keras.ops.tanh(x)"))
    found = run("verify", str(root), "--rebuild")
    assert found.exit_code == 1
    mine, verdict = found.stdout.splitlines()
    assert mine.startswith("changed code: mine: the code of layer 'gate', or a value that it reads, is another")
    assert verdict.startswith("1 difference: 2 models, ")
    exported = run("models", "export", str(root), "mine", str(tmp_path / "two.keras"))
    assert exported.exit_code == 0
    assert exported.stderr.startswith("Warning: mine: the code of layer 'gate'")
    assert read_card(tmp_path / "two.keras")["file"]["changed_code"] == ["gate"]
    card = (tmp_path / "two.keras.card.md").read_text()
    assert "The code of its layers gate, or a value that it reads, was another" in card
