"""The digits with 48 ways to change learning rate and batch size, for `rungs_for_real`: merge rate 2.4 at 16 epochs."""

from __future__ import annotations

from typing import Any

from daskevo.tuning import Constant, Cosine, Exponential, GridSpace, MultiStep, grid, warmup
from daskevo_workflows.problems.digits_lr import DigitsLr


class Rungs(DigitsLr):
    """Asks for one constant more, by which a trial may be told from all others."""

    name = "rungs"
    objective = "min val_loss"

    def space(self) -> GridSpace:
        return grid(
            learning_rate=[
                Constant(0.01),
                MultiStep(0.01, (10,), 0.1),
                MultiStep(0.01, (8,), 0.1),
                MultiStep(0.01, (8, 12), 0.1),
                MultiStep(0.01, (12,), 0.1),
                Exponential(0.01, 0.95),
                warmup(0.001, 2, Exponential(0.01, 0.9)),
                warmup(0.001, 2, Cosine(0.01, 0.0, 14)),
            ],
            batch_size=[
                Constant(32),
                MultiStep(32, (4,), 2),
                MultiStep(32, (8,), 2),
                MultiStep(32, (12,), 2),
                MultiStep(32, (4, 8), 2),
                MultiStep(32, (8, 12), 2),
            ],
            unit="epoch",
            name="rungs",
        )

    def build(self, choices: Any) -> Any:
        choices.get("alone")
        return super().build(choices)


problem = Rungs()
