"""A small search that is over, in a repository that other models were added to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import daskevo
from daskevo.search import AgedEvolution
from daskevo_workflows import nas

TINY = Path(__file__).parents[1] / "tiny.py"


def half_model() -> Any:
    """Return a model of half-precision weights, bfloat16 and float16, beside float32."""
    import keras

    keras.utils.set_random_seed(1)
    inputs = keras.Input((8,))
    tensor = keras.layers.Dense(5, dtype="bfloat16")(inputs)
    tensor = keras.layers.Dense(4, dtype="float16")(tensor)
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.BatchNormalization()(tensor)))


@pytest.fixture(scope="module")
def run(client: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a run of 7 evaluations that inherit and freeze, its root, and its result.

    All share their first layer: whoever begins when another has ended inherits it, and lives at the end or not.
    """
    folder = tmp_path_factory.mktemp("exports") / "run"
    root = folder / "repository"
    problem = folder.parent / "tiny.py"
    text = TINY.read_text()
    for old, new in (("(4, 8)", "(4,)"), ('("relu", "tanh")', '("relu",)'), ("(3, 6)", "tuple(range(3, 15))")):
        assert text.count(f"...] = {old}\n") == 1
        text = text.replace(f"...] = {old}\n", f"...] = {new}\n")
    problem.write_text(text)
    repository = daskevo.open(root, "tiny", client=client, objective="max val_accuracy", shards=4)
    result = nas.search(
        problem, AgedEvolution(3, 2), repository=repository, evaluations=7, run=folder, freeze="prefix", keep_best=2
    )
    other = daskevo.open(root, "halves", client=client, objective="max val_accuracy")
    other.add(half_model(), metrics={"val_accuracy": 0.25}, step=7, model_id="half", labels=["user:paper"])
    return SimpleNamespace(folder=folder, root=root, result=result, problem=problem)
