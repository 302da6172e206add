"""Problem files for studies: what they need, and what they need not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskevo.errors import InvalidProblem
from daskevo_workflows.evaluation.training import Stopwatch, train
from daskevo_workflows.problems import load_problem
from tests.workflows.stage_training.problems import build, data

TUNED = """
import numpy as np
name, objective, epochs, batch_size = "tuned", "max val_accuracy", 2, 8
def build(choices): ...
def data(): ...
def compile(model, hyperparameters): ...
def score(model, data): ...
"""
LOOP = """
name, objective, epochs = "loop", "min loss", 2
def data(): ...
def training_loop(constants, data, seed): ...
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "problem.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [TUNED, LOOP])
def test_files_for_studies(tmp_path: Path, text: str) -> None:
    assert load_problem(written(tmp_path, text)).epochs == 2


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (TUNED.replace("compile(model, hyperparameters)", "compile(model, a, b)"), r"compile\(\) taking 1 argument"),
        (TUNED.replace("(model, hyperparameters)", "(model)"), r"space\(\)"),
        (LOOP.replace("def data(): ...", ""), r"data\(\)"),
        (LOOP.replace("training_loop", "loop"), r"batch_size.*build\(\).*compile\(\).*score\(\)"),
    ],
)
def test_what_is_missing(tmp_path: Path, text: str, missing: str) -> None:
    with pytest.raises(InvalidProblem, match=missing):
        load_problem(written(tmp_path, text))


def test_a_search_has_no_hyperparameters(tmp_path: Path) -> None:
    problem = load_problem(written(tmp_path, TUNED))
    with pytest.raises(InvalidProblem, match="needs hyper-parameters, which a study has"):
        train(problem, build({}), data(), Stopwatch())
