"""Handwritten digits again, one small network: how its learning rate and batch size should change while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daskevo.tuning import Constant, Exponential, GridSpace, MultiStep, grid, warmup
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.digits import Digits
from daskevo_workflows.problems.protocol import Data

if TYPE_CHECKING:
    import keras


class DigitsLr(Classification):
    """Two dense layers with dropout, and a grid of 20 trials, many of which begin alike.

    Parameters
    ----------
    epochs, batch_size:
        Of a whole training, and of a batch where no sequence says it.
    """

    name = "digits-lr"
    objective = "max val_accuracy"

    def __init__(self, epochs: int = 16, batch_size: int = 32) -> None:
        self.epochs = epochs
        self.batch_size = batch_size

    def space(self) -> GridSpace:
        return grid(
            learning_rate=[
                Constant(0.01),
                MultiStep(0.01, (8,), 0.1),
                MultiStep(0.01, (8, 12), 0.1),
                MultiStep(0.01, (12,), 0.1),
                warmup(0.001, 4, Exponential(0.01, 0.9)),
            ],
            batch_size=[
                Constant(32),
                MultiStep(32, (4,), 2),
                MultiStep(32, (8,), 2),
                MultiStep(32, (8, 12), 2),
            ],
            unit="epoch",
            name=self.name,
        )

    def build(self, choices: Any) -> keras.Model:
        import keras

        tensor = inputs = keras.Input((64,))
        for width in (64, 32):
            tensor = keras.layers.Dense(width, "relu")(tensor)
            tensor = keras.layers.Dropout(0.1)(tensor)
        return keras.Model(inputs, keras.layers.Dense(10, "softmax")(tensor))

    def data(self) -> Data:
        return Digits().data()
