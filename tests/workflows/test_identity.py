"""What is the same to a search, and what isn't: trainings, data and problems go by what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from daskevo.search import Grid
from daskevo_workflows import nas

pytestmark = pytest.mark.processes

REGULARISED = """
def space():
    return Space(name, (Choice("l2", (0.0, 0.1, 10.0)), Choice("initializer", ("zeros", "ones", "he_normal")),
                        Choice("idle", (0, 1))))


def build(choices):
    import keras

    inputs = keras.Input((8,))
    layer = keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2(choices["l2"]),
                               kernel_initializer=choices["initializer"])
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(layer(inputs)))
"""


def changed(path: Path, *changes: tuple[str, str], more: str = "") -> Path:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text + more)
    return path


def test_settings_that_no_id_has_make_other_trainings(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """All of them may share weights, so their ids are equal; choices without any effect are found all the same."""
    problem = changed(tiny(), more=REGULARISED)
    result = nas.search(problem, Grid(), repository=repository, evaluations=18, run=tmp_path / "run", transfer=False)
    finished = [report for report in result.reports if report.status == "finished"]
    assert result.stop[0] == "exhausted"
    requests = {request.number: request for request in result.requests}
    options = [tuple(result.choices(requests[report.number]).values())[:2] for report in finished]
    assert sorted(options) == sorted(product((0.0, 0.1, 10.0), ("zeros", "ones", "he_normal")))
    assert [report.status for report in result.reports].count("duplicate") == 9
