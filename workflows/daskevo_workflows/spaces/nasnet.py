"""NASNet's cells, which AmoebaNet evolved, in a skeleton that small machines can train.

Zoph, Vasudevan, Shlens and Le, "Learning Transferable Architectures for Scalable Image Recognition", CVPR 2018; Real,
Aggarwal, Huang and Le, "Regularized Evolution for Image Classifier Architecture Search", AAAI 2019. There are two
cells, a normal one and one that halves the side. A cell has five blocks; each takes two of the cell's two inputs and
the earlier blocks, an operation on each, and adds them. What no other block takes is the cell's output, side by side.

Operations are the eight of Liu et al., "Progressive Neural Architecture Search", ECCV 2018, section 3.1, who count
(2 * 3 * 4 * 5 * 6)**2 * 8**10 = 5.6e14 cells; NASNet had 13, and chose between adding and concatenating, too. Two cells
make 3.1e29 candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.space import Choice, Space
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.protocol import Data
from daskevo_workflows.spaces.pictures import data_of, side_of

OPERATIONS = ("identity", "sep3x3", "sep5x5", "sep7x7", "avgpool3x3", "maxpool3x3", "dilated3x3", "conv1x7-7x1")
CELLS = ("normal", "reduction")


class NasNet(Classification):
    """Two cells of NASNet on digits or Fashion-MNIST.

    Parameters
    ----------
    pictures:
        ``digits``, 8x8, in scikit-learn, or ``fashion-mnist``, 6,000 of 14x14.
    cells:
        Normal cells before, between and after the two reductions (the papers' N, up to 6 there).
    channels:
        Of the first cells; doubled by each reduction (the papers' F, 24 and more there).
    blocks:
        Of a cell, 5 in the papers.
    operations:
        Some of the eight.
    epochs, batch_size, learning_rate:
        Of one evaluation.
    """

    name = "nasnet"
    objective = "max val_accuracy"

    def __init__(
        self,
        pictures: str = "digits",
        cells: int = 1,
        channels: int = 8,
        blocks: int = 5,
        operations: Sequence[str] = OPERATIONS,
        epochs: int = 1,
        batch_size: int = 64,
        learning_rate: float = 0.03,
    ) -> None:
        side_of(pictures)
        if min(cells, channels, blocks) < 1:
            raise InvalidInput(f"cells={cells}, channels={channels}, blocks={blocks}: use 1 or more of each")
        if not operations or not set(operations) <= set(OPERATIONS):
            raise InvalidInput(f"operations={list(operations)!r:.200}: use some of {', '.join(OPERATIONS)}")
        self.pictures = pictures
        self.cells = cells
        self.channels = channels
        self.blocks = blocks
        self.operations = tuple(operations)
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate

    def space(self) -> Space:
        return Space("nasnet", [choice for cell in CELLS for choice in self._choices(cell)])

    def _choices(self, cell: str) -> list[Choice]:
        choices = []
        for block in range(self.blocks):
            # 0 and 1 are the cell's inputs, the last cell's output and the one before; then come the blocks.
            sources = tuple(range(2 + block))
            for side in ("left", "right"):
                choices.append(Choice(f"{cell}.{block}.{side}.input", sources))
                choices.append(Choice(f"{cell}.{block}.{side}.operation", self.operations))
        return choices

    def data(self) -> Data:
        return data_of(self.pictures)

    def build(self, choices: Mapping[str, Any]) -> Any:
        import keras

        side = side_of(self.pictures)
        inputs = keras.Input((side, side, 1))
        last = before = _normalised(keras.layers.Conv2D(self.channels, 3, padding="same", use_bias=False)(inputs))
        for stage in range(3):
            channels = self.channels * 2**stage
            # A tuple on both sides, so that the cell that was last is the one before from now on.
            if stage:
                last, before = self._cell("reduction", last, before, channels, choices), last
            for _ in range(self.cells):
                last, before = self._cell("normal", last, before, channels, choices), last
        tensor = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(last))
        return keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(tensor))

    def _cell(self, cell: str, last: Any, before: Any, channels: int, choices: Mapping[str, Any]) -> Any:
        import keras

        strides = 2 if cell == "reduction" else 1
        # After a reduction the earlier input is twice as large.
        halved = keras.layers.AveragePooling2D(1, 2)(before) if before.shape[1] != last.shape[1] else before
        states = [_projected(tensor, channels) for tensor in (last, halved)]
        taken: set[int] = set()
        for block in range(self.blocks):
            parts = []
            for side in ("left", "right"):
                source = choices[f"{cell}.{block}.{side}.input"]
                # What a block takes is no end of the cell.
                taken.add(source)
                operation = choices[f"{cell}.{block}.{side}.operation"]
                parts.append(_operation(operation, states[source], channels, strides if source < 2 else 1))
            states.append(keras.layers.Add()(parts))
        ends = [state for number, state in enumerate(states) if number >= 2 and number not in taken]
        return keras.layers.Concatenate()(ends) if len(ends) > 1 else ends[0]

    def compile(self, model: Any) -> None:
        import keras

        model.compile(
            optimizer=keras.optimizers.SGD(self.learning_rate, momentum=0.9, nesterov=True),
            loss=keras.losses.SparseCategoricalCrossentropy(),
            metrics=["accuracy"],
        )


def _operation(name: str, tensor: Any, channels: int, strides: int) -> Any:
    import keras

    layers = keras.layers
    if name == "identity":
        # What isn't halved goes through as it is; else a convolution of size 1 halves it.
        return tensor if strides == 1 else _convolution(tensor, layers.Conv2D, channels, 1, strides=strides)
    if name == "avgpool3x3":
        return layers.AveragePooling2D(3, strides, padding="same")(tensor)
    if name == "maxpool3x3":
        return layers.MaxPooling2D(3, strides, padding="same")(tensor)
    if name == "conv1x7-7x1":
        tensor = _convolution(tensor, layers.Conv2D, channels, (1, 7), strides=(1, strides))
        return _convolution(tensor, layers.Conv2D, channels, (7, 1), strides=(strides, 1))
    if name == "dilated3x3":
        # Keras strides or dilates, not both.
        halved = layers.AveragePooling2D(1, strides)(tensor) if strides > 1 else tensor
        return _convolution(halved, layers.SeparableConv2D, channels, 3, dilation_rate=2)
    # Separable convolutions are applied twice.
    kernel = int(name[3])
    tensor = _convolution(tensor, layers.SeparableConv2D, channels, kernel, strides=strides)
    return _convolution(tensor, layers.SeparableConv2D, channels, kernel)


def _projected(tensor: Any, channels: int) -> Any:
    import keras

    return _convolution(tensor, keras.layers.Conv2D, channels, 1)


def _convolution(tensor: Any, kind: Any, channels: int, kernel: Any, **options: Any) -> Any:
    import keras

    active = keras.layers.ReLU()(tensor)
    return _normalised(kind(channels, kernel, padding="same", use_bias=False, **options)(active))


def _normalised(tensor: Any) -> Any:
    import keras

    # Keras' own momentum takes thousands of steps to follow; an evaluation here has tens.
    return keras.layers.BatchNormalization(momentum=0.9)(tensor)
