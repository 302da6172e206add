"""Chains of dense layers trained in numpy, all seeds of one architecture side by side: 15 ms each, where Keras takes a
second to trace its first step.

The formulas are those that Keras has for the problem `digits`: Glorot's uniform weights, cross-entropy, Adam; a test
trains the same weights on the same batches both ways.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Layers = Sequence[tuple[int, str]]
"""Width and activation (``relu`` or ``tanh``) of each layer before the softmax."""
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7


class Chains:
    """Networks of one architecture, one for each generator.

    Parameters
    ----------
    features, classes:
        Of the data.
    layers:
        Before the softmax.
    generators:
        Each draws the weights of one network.
    """

    def __init__(self, features: int, layers: Layers, classes: int, generators: Sequence[np.random.Generator]) -> None:
        widths = [features, *(width for width, _ in layers), classes]
        self.activations = [activation for _, activation in layers]
        self.shapes = list(itertools.pairwise(widths))
        self.parameters = sum(rows * columns + columns for rows, columns in self.shapes)
        # All weights of a network in one row: a step of Adam is a few operations for all layers.
        self.flat: Array = np.zeros((len(generators), self.parameters), np.float32)
        self._gradient: Array = np.zeros_like(self.flat)
        self._moments = np.zeros_like(self.flat), np.zeros_like(self.flat)
        self._steps = 0
        for kernel, _ in self._parts(self.flat):
            # Glorot: 6 / (inputs + outputs).
            limit = math.sqrt(6 / sum(kernel.shape[1:]))
            for network, rng in zip(kernel, generators, strict=True):
                network[...] = rng.uniform(-limit, limit, network.shape)

    def _parts(self, flat: Array) -> Iterator[tuple[Array, Array]]:
        """Yield kernel and bias of each layer, as views."""
        end = 0
        for rows, columns in self.shapes:
            begin, end = end, end + rows * columns
            kernel = flat[:, begin:end].reshape(-1, rows, columns)
            begin, end = end, end + columns
            yield kernel, flat[:, begin:end].reshape(-1, 1, columns)

    def _outputs(self, x: Array) -> list[Array]:
        """Return what enters each layer, and the scores before the softmax."""
        outputs = [x]
        *hidden, last = self._parts(self.flat)
        for (kernel, bias), activation in zip(hidden, self.activations, strict=True):
            outputs.append(_ACTIVE[activation](outputs[-1] @ kernel + bias))
        outputs.append(outputs[-1] @ last[0] + last[1])
        return outputs

    def step(self, x: Array, y: NDArray[np.int32], learning_rate: float) -> None:
        """Take one step of Adam for every network.

        Parameters
        ----------
        x, y:
            A batch for each. # (n_networks, n_samples, n_features), (n_networks, n_samples)
        """
        *entered, scores = self._outputs(x)
        # The largest score is subtracted so that exp() doesn't overflow; the softmax stays the same.
        odds = np.exp(scores - scores.max(axis=2, keepdims=True))
        back: Any = odds / odds.sum(axis=2, keepdims=True)
        networks, samples = y.shape
        # Gradient of the cross-entropy by the scores: probabilities minus the true class, a mean over the batch.
        back[np.arange(networks)[:, None], np.arange(samples), y] -= 1
        back /= samples
        parts = list(zip(self._parts(self.flat), self._parts(self._gradient), entered, strict=True))
        # No kernel changes before all gradients are known.
        for place, ((kernel, _), (kernel_gradient, bias_gradient), x_in) in reversed(list(enumerate(parts))):
            np.matmul(x_in.transpose(0, 2, 1), back, out=kernel_gradient)
            np.sum(back, axis=1, keepdims=True, out=bias_gradient)
            if place:
                back = (back @ kernel.transpose(0, 2, 1)) * _SLOPE[self.activations[place - 1]](x_in)
        self._steps += 1
        first, second = self._moments
        first += (self._gradient - first) * np.float32(1 - BETA_1)
        second += (np.square(self._gradient) - second) * np.float32(1 - BETA_2)
        # Both bias corrections in the rate, and epsilon outside of the root, as Keras has them.
        rate = learning_rate * math.sqrt(1 - BETA_2**self._steps) / (1 - BETA_1**self._steps)
        self.flat -= np.float32(rate) * first / (np.sqrt(second) + np.float32(EPSILON))

    def accuracies(self, x: Array, y: NDArray[np.int32]) -> list[float]:
        """Return the share of samples that each network names right. # (n_samples, n_features), (n_samples,)"""
        named = self._outputs(np.broadcast_to(x, (len(self.flat), *x.shape)))[-1].argmax(axis=2)
        return [float(share) for share in (named == y).mean(axis=1)]


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


_ACTIVE: dict[str, Callable[[Array], Array]] = {"relu": _relu, "tanh": np.tanh}
_SLOPE: dict[str, Callable[[Array], Any]] = {"relu": lambda out: out > 0, "tanh": lambda out: 1 - out * out}
"""Slopes of the activations, by their outputs."""
