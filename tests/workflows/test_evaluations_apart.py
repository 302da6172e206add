"""What one evaluation leaves in its trainer's process is nothing that the next one sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import daskevo
from daskevo.search import Random
from daskevo_workflows import nas
from daskevo_workflows.evaluation.transfer import Transfer

pytestmark = pytest.mark.processes

PROBLEM = """
import keras
import numpy as np
from daskevo.space import Choice, Space
from daskevo_workflows.problems import Data

name, objective, epochs, batch_size = "heads", "max auc", 1, 16
scaling = keras.layers.Rescaling(2.0)

def space():
    return Space("heads", (Choice("units", (2, 3, 4, 5)), Choice("precision", ("float32", "mixed_bfloat16"))))

def build(choices):
    if keras.config.dtype_policy().name != "float32" or keras.config.epsilon() != 1e-7:
        raise ValueError("the candidate before has left its settings")
    keras.config.set_epsilon(1e-3)
    keras.config.set_dtype_policy(choices["precision"])
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(choices["units"], "relu")(keras.layers.Rescaling(0.5)(scaling(inputs)))
    return keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(hidden))

def data():
    x = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
    y = (x[:, :1] > 0).astype("float32")
    return Data((x[:32], y[:32]), (x[32:], y[32:]))

def compile(model):
    model.compile("sgd", "binary_crossentropy", metrics=[keras.metrics.AUC()], run_eagerly=True)

def score(model, data):
    return {}
"""


def test_every_evaluation_begins_as_the_first(client: Any, tmp_path: Path) -> None:
    """A metric without a name is called alike in each, and settings of Keras hold for the candidate that made them."""
    (tmp_path / "heads.py").write_text(PROBLEM)
    repository = daskevo.open(tmp_path / "root", "heads", client=client, objective="max auc", shards=2)
    result = nas.search(
        tmp_path / "heads.py",
        Random(),
        repository=repository,
        evaluations=3,
        run=tmp_path / "run",
        transfer=Transfer(unfreeze_epochs=1, freeze="prefix"),
    )
    assert [report.failure for report in result.reports if report.status == "failed"] == []
    assert all("auc" in report.metrics for report in result.reports if report.status == "finished")
