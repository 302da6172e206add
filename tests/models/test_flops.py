"""Operations of one prediction, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import keras
import pytest
from keras import layers

from daskevo.graph.depth import depth
from daskevo.models import flatten, shape_only
from daskevo.models.flops import flops


def graph(shape: tuple[int, ...], *stack: Any) -> Any:
    with shape_only():
        tensor = inputs = keras.Input(shape)
        for layer in stack:
            tensor = layer(tensor)
        return flatten(keras.Model(inputs, tensor)).graph


@pytest.mark.parametrize(
    ("shape", "layer", "by_hand"),
    [
        ((10,), lambda: layers.Dense(4), 10 * 4 * 2 + 4),
        ((10,), lambda: layers.Dense(4, "relu", use_bias=False), 10 * 4 * 2 + 4),
        ((7, 10), lambda: layers.Dense(4), 7 * (10 * 4 * 2 + 4)),
        ((8, 8, 3), lambda: layers.Conv2D(16, 3, padding="same"), 64 * (9 * 3 * 16 * 2 + 16)),
        ((8, 8, 3), lambda: layers.Conv2D(16, 3, strides=2, activation="relu"), 9 * (9 * 3 * 16 * 2 + 32)),
        ((8, 8, 4), lambda: layers.Conv2D(6, 3, groups=2, use_bias=False), 36 * 9 * 2 * 6 * 2),
        ((3, 8, 8), lambda: layers.Conv2D(16, 3, data_format="channels_first"), 36 * (9 * 3 * 16 * 2 + 16)),
        ((20, 5), lambda: layers.Conv1D(7, 4), 17 * (4 * 5 * 7 * 2 + 7)),
        ((8, 8, 5), lambda: layers.DepthwiseConv2D(3, depth_multiplier=2), 36 * (9 * 5 * 2 * 2 + 10)),
        ((8, 8, 5), lambda: layers.SeparableConv2D(6, 3), 36 * (9 * 5 * 2 + 5 * 6 * 2 + 6)),
        ((4, 4, 3), lambda: layers.Conv2DTranspose(5, 2, strides=2), 16 * 4 * 3 * 5 * 2 + 8 * 8 * 5),
        ((8, 8, 3), lambda: layers.MaxPooling2D(2), 4 * 4 * 3 * 4),
        ((9, 3), lambda: layers.AveragePooling1D(3), 3 * 3 * 3),
        ((8, 8, 3), lambda: layers.GlobalAveragePooling2D(), 8 * 8 * 3),
        ((8, 8, 3), lambda: layers.BatchNormalization(), 8 * 8 * 3 * 2),
        ((6,), lambda: layers.LayerNormalization(), 6 * 7),
        ((6,), lambda: layers.ReLU(), 6),
        ((8, 8, 3), lambda: layers.Flatten(), 0),
    ],
)
def test_one_layer(shape: tuple[int, ...], layer: Any, by_hand: int) -> None:
    assert flops(graph(shape, layer())) == (by_hand, ())


def test_lenet_as_it_is_worked_out_in_text_books() -> None:
    """LeNet-5 with ReLU: 416,520 multiplications by their usual count, twice, and one per bias, activation, maximum."""
    net = graph(
        (32, 32, 1),
        layers.Conv2D(6, 5, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 5, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(120, "relu"),
        layers.Dense(84, "relu"),
        layers.Dense(10, "softmax"),
    )
    multiplications = 28 * 28 * 25 * 6 + 10 * 10 * 25 * 6 * 16 + 400 * 120 + 120 * 84 + 84 * 10
    assert multiplications == 416_520
    values = 28 * 28 * 6 + 10 * 10 * 16 + 120 + 84 + 10
    assert flops(net).total == 2 * multiplications + 2 * values + (14 * 14 * 6 + 5 * 5 * 16) * 4
    assert depth(net) == 5


def test_what_is_not_known_is_named_and_shared_layers_count_each_time() -> None:
    with shape_only():
        inputs = keras.Input((4, 6))
        shared = layers.Dense(6)
        tensor = layers.Add()([shared(inputs), shared(shared(inputs))])
        model = keras.Model(inputs, layers.LSTM(3)(tensor + 1.0))
    found = flops(flatten(model).graph)
    assert found.total == 3 * 4 * (6 * 6 * 2 + 6) + 4 * 6
    assert found.unknown == ("keras.layers.LSTM", "keras.src.ops.numpy:Add")
    assert depth(flatten(model).graph) == 3


def test_a_dimension_that_is_not_fixed_counts_once() -> None:
    assert flops(graph((None, 5), layers.Conv1D(2, 3, padding="same"))).total == 3 * 5 * 2 * 2 + 2
