"""A training that is cut into stages ends with the bits of one piece."""

from __future__ import annotations

import pytest

from daskevo.tuning import Linear, MultiStep
from daskevo_workflows.stage_training import check_exact
from tests.workflows.stage_training.problems import data, problem, trajectory


@pytest.mark.parametrize("unit", ["optimizer step", "epoch"])
def test_cut_anywhere(unit: str) -> None:
    """Everything changes on the way, momentum from zero, batches in the middle of an epoch."""
    whole = trajectory(
        unit=unit,
        learning_rate=Linear(0.1, 0.01, 9),
        momentum=Linear(0.0, 0.9, 7),
        weight_decay=Linear(0.1, 0.0, 5),
        batch_size=MultiStep(8, (2, 4), 2),
    )
    end = check_exact(problem(), whole, data(), until=8, cuts=[1, 3], seed=5)
    assert end.extra["step"] == 8
