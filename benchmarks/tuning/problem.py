"""Small images of clothes, a convolutional network, and three grids of changing learning rates and batch sizes.

The grids are of the paper's kind (002, table 6.1), for 20 epochs; their merge rates are about those of its grid
searches, 2.05 and 3.14, and 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from daskevo.tuning import Constant, Cosine, Cyclic, Exponential, GridSpace, MultiStep, StepSequence, grid, warmup
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.fashion_mnist import FashionMnist
from daskevo_workflows.problems.protocol import Data

EPOCHS = 20
RATE = 0.05

LONGER = "five-longer"
"""The grid that is trained on three times as many images."""


class Clothes(Classification):
    """Two convolutions and dropout on images of 14x14.

    Parameters
    ----------
    images:
        To train on.
    """

    name = "clothes"
    objective = "min val_loss"
    epochs = EPOCHS
    batch_size = 32

    def __init__(self, images: int = 3_000) -> None:
        self.images = images

    def space(self) -> GridSpace:
        return grids()["two"]

    def build(self, choices: Any) -> Any:
        import keras

        choices.get("alone")  # what keeps a trial apart is asked for, or it would be refused
        inputs = flow = keras.Input((14, 14, 1))
        for filters in (16, 32):
            flow = keras.layers.Conv2D(filters, 3, activation="relu")(flow)
        flow = keras.layers.Dropout(0.2)(keras.layers.Flatten()(keras.layers.MaxPooling2D()(flow)))
        return keras.Model(inputs, keras.layers.Dense(10, "softmax")(flow))

    def compile(self, model: Any) -> None:
        import keras

        model.compile(
            keras.optimizers.SGD(RATE, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"]
        )

    def data(self) -> Data:
        return FashionMnist(images=self.images).data()


def grids() -> dict[str, GridSpace]:
    """Return grids, named by about how many times their steps are of those that differ."""
    two = [
        *_milestones((12, 16), (14,)),
        warmup(0.01, 2, MultiStep(RATE, (12,), 0.1)),
        warmup(0.01, 2, Exponential(RATE, 0.9)),
        warmup(0.01, 2, Cosine(RATE, 0.0, 18)),
        Cyclic(0.01, RATE, 4, 4),
    ]
    three = [
        *_milestones((13, 17), (15, 18), (14,), (16,)),
        warmup(0.01, 2, MultiStep(RATE, (14,), 0.1)),
        warmup(0.01, 2, MultiStep(RATE, (16, 18), 0.1)),
        warmup(0.01, 2, Exponential(RATE, 0.9)),
    ]
    five = _milestones((16, 18), (17,), (15,), (14, 17), (16,), (18,))
    return {
        "two": _grid("two", two, (10, 12, 15)),
        "three": _grid("three", three, (12, 15, 17)),
        "five": _grid("five", five, (15, 17, 18)),
        LONGER: _grid("five", five, (15, 17, 18)),
    }


def _grid(name: str, rates: Iterable[StepSequence], doubled: Iterable[int]) -> GridSpace:
    sizes = [Constant(32), *(MultiStep(32, (at,), 2) for at in doubled)]
    return grid(learning_rate=rates, batch_size=sizes, unit="epoch", name=name)


def _milestones(*several: tuple[int, ...]) -> list[StepSequence]:
    return [MultiStep(RATE, milestones, 0.1) for milestones in several]


problem = Clothes()
