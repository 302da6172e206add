"""Handwritten digits (scikit-learn, 1,797 images of 8x8): small enough for tests, real enough to search."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import InvalidProblem
from daskevo.space import Choice, Space
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.protocol import Data

if TYPE_CHECKING:
    import keras


class Digits(Classification):
    """Up to `depth` dense layers before a softmax over ten digits.

    Parameters
    ----------
    depth:
        Number of variable layers.
    widths:
        Options of a layer's width, besides leaving it out.
    epochs, batch_size:
        Of one evaluation.
    """

    name = "digits"
    objective = "max val_accuracy"

    def __init__(
        self, depth: int = 4, widths: tuple[int, ...] = (16, 32, 48, 64), epochs: int = 1, batch_size: int = 32
    ) -> None:
        self.depth = depth
        self.widths = tuple(widths)
        self.epochs = epochs
        self.batch_size = batch_size

    def space(self) -> Space:
        options = (None, *([width, activation] for width in self.widths for activation in ("relu", "tanh")))
        return Space("digits", tuple(Choice(f"layer{number}", options) for number in range(self.depth)))

    def build(self, choices: Mapping[str, Any]) -> keras.Model:
        import keras

        inputs = keras.Input((64,))
        tensor = inputs
        for number in range(self.depth):
            layer = choices[f"layer{number}"]
            if layer is not None:
                tensor = keras.layers.Dense(layer[0], activation=layer[1])(tensor)
        return keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(tensor))

    def data(self) -> Data:
        return _digits()


@lru_cache(maxsize=1)
def _digits() -> Data:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InvalidProblem("the digits come with scikit-learn: pip install 'daskevo[data]'") from error
    x, y = load_digits(return_X_y=True)
    # Shuffled: the images come writer by writer, so that the last fifth would be by people not seen in training.
    order = np.random.default_rng(0).permutation(len(x))
    # Pixels count up to 16.
    x = (x[order] / 16).astype(np.float32)
    y = y[order].astype(np.int32)
    # Four fifths of 1,797 to train.
    return Data(train=(x[:1437], y[:1437]), validation=(x[1437:], y[1437:]))
