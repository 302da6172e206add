"""Spaces shaped like CANDLE ATTN's in DeepHyper: blocks of dense layers with optional skip connections.

A block has three layers, if nothing else is said. Each is a variable node (Identity, or Dense of some width and
activation) followed by a merge: every one of the last three anchors enters it through a choice of its own. What enters
is projected to the node's width where widths differ, added, and passed through ReLU. Each input has its blocks; their
ends are concatenated and pass through the trunk's blocks to a softmax. Paper 000, section 5.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daskevo.errors import InvalidInput
from daskevo.space import Choice, Space

if TYPE_CHECKING:
    import keras

LAYERS = 3
ANCHORS = 3


@dataclass(frozen=True)
class AttnShape:
    """The shape of a space and of its models.

    Parameters
    ----------
    inputs:
        Name -> number of features, in the order of the model's inputs.
    classes:
        Width of the softmax.
    widths, activations:
        Options of a variable node, besides Identity.
    blocks:
        Blocks per input.
    trunk:
        Blocks after the inputs have been joined.
    layers:
        Layers of a block.

    Examples
    --------
    The space of DeepHyper's released code, one input and two blocks, and the paper's, five inputs and a trunk:

    >>> widths = tuple(range(50, 1976, 25))
    >>> print(AttnShape({"x": 6212}, widths=widths).space("attn").size)
    1.5e19
    >>> five = {f"x{number}": 1000 for number in range(5)}
    >>> AttnShape(five, widths=widths).space("attn").size.count == 391**18 * 2**36
    True
    """

    inputs: Mapping[str, int]
    classes: int = 2
    widths: tuple[int, ...] = tuple(range(16, 97, 16))
    activations: tuple[str | None, ...] = (None, "swish", "relu", "tanh", "sigmoid")
    blocks: int = 1
    trunk: int = 1
    layers: int = LAYERS

    def __post_init__(self) -> None:
        if not self.inputs or min(self.inputs.values()) < 1 or self.classes < 2:
            raise InvalidInput("an ATTN-shaped space needs inputs with features, and two classes or more")
        if (
            self.blocks < 0
            or self.trunk < 0
            or self.blocks + self.trunk == 0
            or self.layers < 1
            or not self.widths
            or min(self.widths) < 1
        ):
            raise InvalidInput("an ATTN-shaped space needs at least one block, with layers, and widths from 1")

    def _blocks(self) -> Sequence[str]:
        names = [f"{name}.{number}" for name in self.inputs for number in range(self.blocks)]
        return [*names, *(f"trunk.{number}" for number in range(self.trunk))]

    def space(self, name: str) -> Space:
        """Return the choices in graph order: the nodes of each block, each followed by its skip connections."""
        node = (None, *([width, activation] for width in self.widths for activation in self.activations))
        choices: list[Choice] = []
        for block in self._blocks():
            for layer in range(self.layers):
                choices.append(Choice(f"{block}.{layer}", node))
                choices += [
                    Choice(f"{block}.{layer}.skip{anchor}", (False, True)) for anchor in range(min(layer + 1, ANCHORS))
                ]
        return Space(name, tuple(choices))

    def build(self, choices: Mapping[str, Any]) -> keras.Model:
        """Return the uncompiled keras.Model of one candidate."""
        import keras

        inputs = [keras.Input((features,), name=name) for name, features in self.inputs.items()]
        ends = []
        for name, tensor in zip(self.inputs, inputs, strict=True):
            for number in range(self.blocks):
                tensor = self._block(f"{name}.{number}", tensor, choices)
            ends.append(tensor)
        tensor = keras.layers.Concatenate()(ends) if len(ends) > 1 else ends[0]
        for number in range(self.trunk):
            tensor = self._block(f"trunk.{number}", tensor, choices)
        outputs = keras.layers.Dense(self.classes, activation="softmax")(tensor)
        return keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs)

    def _block(self, name: str, tensor: Any, choices: Mapping[str, Any]) -> Any:
        import keras

        # The oldest anchor falls out by itself; `skip0` is the oldest of those that are left.
        anchors: deque[Any] = deque([tensor], maxlen=ANCHORS)
        for layer in range(self.layers):
            node = choices[f"{name}.{layer}"]
            if node is not None:
                tensor = keras.layers.Dense(node[0], activation=node[1])(tensor)
            # An anchor that is the node itself would only double it.
            joined = [
                anchor
                for number, anchor in enumerate(anchors)
                if choices[f"{name}.{layer}.skip{number}"] and anchor is not tensor
            ]
            if joined:
                width = tensor.shape[-1]
                projected = [
                    anchor if anchor.shape[-1] == width else keras.layers.Dense(width)(anchor) for anchor in joined
                ]
                tensor = keras.layers.Add()([tensor, *projected])
            if node is not None or joined:
                tensor = keras.layers.Activation("relu")(tensor)
            anchors.append(tensor)
        return tensor
