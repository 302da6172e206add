"""The cell of NAS-Bench-201, in a skeleton that small machines can train.

Dong and Yang, "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search", ICLR 2020. A cell has
four nodes, each the sum of what comes in over an edge from every earlier node; each of the six edges carries one of
five operations: 5**6 = 15,625 cells. One cell, repeated, fills a fixed skeleton: a convolution, three stages of cells
with residual blocks between them that halve the side and double the channels, and a softmax over averaged features.

Of the 15,625 some let nothing through: wherever edges without operation cut the output from the input, the cell gives
zeros. The paper's table has them, with the accuracy of guessing; here these 341 are rejected, with the reason, and
15,284 are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from daskevo.errors import InvalidInput
from daskevo.space import Choice, Space
from daskevo.types import JSON
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.protocol import Data
from daskevo_workflows.spaces.pictures import data_of, side_of

OPERATIONS = ("none", "skip", "conv1x1", "conv3x3", "avgpool3x3")
NODES = 4
EDGES = tuple((source, target) for target in range(1, NODES) for source in range(target))
"""Source and target of each edge, in graph order."""
CUT = "edges without operation cut the cell's output from its input"


class NasBench201(Classification):
    """Cells of NAS-Bench-201 on digits or Fashion-MNIST.

    Parameters
    ----------
    pictures:
        ``digits``, 8x8, in scikit-learn, or ``fashion-mnist``, 6,000 of 14x14.
    cells:
        Per stage (the paper's N, 5 there).
    channels:
        Of the first stage (the paper's C, 16 there).
    stages:
        3 in the paper.
    operations:
        Options of an edge, some of the five.
    epochs, batch_size, learning_rate:
        Of one evaluation; 200, 256 and 0.1 in the paper, falling along a cosine, with weight decay.
    """

    name = "nas-bench-201"
    objective = "max val_accuracy"

    def __init__(
        self,
        pictures: Literal["digits", "fashion-mnist"] = "digits",
        cells: int = 1,
        channels: int = 8,
        stages: int = 3,
        operations: Sequence[str] = OPERATIONS,
        epochs: int = 1,
        batch_size: int = 64,
        learning_rate: float = 0.03,
    ) -> None:
        side_of(pictures)
        if min(cells, channels) < 1 or not 1 <= stages <= 3:
            raise InvalidInput(
                f"cells={cells}, channels={channels}, stages={stages}: use 1 or more cells and channels, 1 to 3 stages"
            )
        if not set(operations) <= set(OPERATIONS) or set(operations) <= {"none"}:
            raise InvalidInput(f"operations={list(operations)!r:.200}: use some of {', '.join(OPERATIONS)}")
        self.pictures = pictures
        self.cells = cells
        self.channels = channels
        self.stages = stages
        self.operations = tuple(operations)
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate

    def space(self) -> Space:
        choices = (Choice(f"{source}->{target}", self.operations) for source, target in EDGES)
        return Space("nas-bench-201", choices, reject=_cut)

    def data(self) -> Data:
        return data_of(self.pictures)

    def build(self, choices: Mapping[str, Any]) -> Any:
        import keras

        side = side_of(self.pictures)
        inputs = keras.Input((side, side, 1))
        tensor = _normalised(keras.layers.Conv2D(self.channels, 3, padding="same", use_bias=False)(inputs))
        for stage in range(self.stages):
            channels = self.channels * 2**stage
            # The first stage keeps the side of the pictures.
            if stage:
                tensor = _residual(tensor, channels)
            for _ in range(self.cells):
                tensor = _cell(tensor, channels, choices)
        tensor = keras.layers.GlobalAveragePooling2D()(keras.layers.Activation("relu")(_normalised(tensor)))
        return keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(tensor))

    def compile(self, model: Any) -> None:
        import keras

        model.compile(
            optimizer=keras.optimizers.SGD(self.learning_rate, momentum=0.9, nesterov=True),
            loss=keras.losses.SparseCategoricalCrossentropy(),
            metrics=["accuracy"],
        )


def _cut(choices: Mapping[str, JSON]) -> str | None:
    reached = {0}
    for source, target in EDGES:
        if source in reached and choices[f"{source}->{target}"] != "none":
            reached.add(target)
    return None if NODES - 1 in reached else CUT


def _cell(tensor: Any, channels: int, choices: Mapping[str, Any]) -> Any:
    """Return the last node; nodes and edges that don't lead to it are made, and stay out of the model."""
    import keras

    nodes: list[Any] = [tensor]
    for target in range(1, NODES):
        entering = [
            _operation(choices[f"{source}->{target}"], nodes[source], channels)
            for source in range(target)
            if nodes[source] is not None and choices[f"{source}->{target}"] != "none"
        ]
        # What nothing enters is zeros: no layer at all.
        nodes.append((keras.layers.Add()(entering) if len(entering) > 1 else entering[0]) if entering else None)
    return nodes[-1]


def _operation(name: str, tensor: Any, channels: int) -> Any:
    import keras

    if name == "skip":
        return tensor
    if name == "avgpool3x3":
        return keras.layers.AveragePooling2D(3, 1, padding="same")(tensor)
    return _convolution(tensor, channels, 1 if name == "conv1x1" else 3)


def _convolution(tensor: Any, channels: int, kernel: int, strides: int = 1) -> Any:
    import keras

    active = keras.layers.Activation("relu")(tensor)
    return _normalised(keras.layers.Conv2D(channels, kernel, strides=strides, padding="same", use_bias=False)(active))


def _normalised(tensor: Any) -> Any:
    import keras

    # Momentum and epsilon of PyTorch, which the paper used: Keras' own would take thousands of steps to follow.
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(tensor)


def _residual(tensor: Any, channels: int) -> Any:
    import keras

    body = _convolution(_convolution(tensor, channels, 3, strides=2), channels, 3)
    pooled = keras.layers.AveragePooling2D(2, 2, padding="same")(tensor)
    return keras.layers.Add()([keras.layers.Conv2D(channels, 1, use_bias=False)(pooled), body])
