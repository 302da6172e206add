"""Why a prefix is no longer: real pairs of models by hand, and random pairs of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
from hypothesis import given
from keras import layers

from daskevo.graph import ArchitectureGraph, longest_common_prefix
from daskevo.models import flatten
from daskevo.repository.prefix_boundary import boundary_of
from daskevo.testing.graphs import related_graphs


def chain(*parts: Any, width: int = 4) -> Any:
    return keras.Sequential([keras.Input((width,)), *parts, layers.Dense(2, name="head")])


def merged(merge: str, order: str) -> Any:
    inputs = keras.Input((4,))
    branches = {"a": layers.Dense(8, name="a")(inputs), "b": layers.Dense(8, "relu", name="b")(inputs)}
    return keras.Model(inputs, getattr(layers, merge)(name="merge")([branches[name] for name in order]))


def twice(*, shared: bool) -> Any:
    inputs = keras.Input((4,))
    first, second = layers.Dense(4, name="first"), layers.Dense(4, name="second")
    return keras.Model(inputs, (first if shared else second)(first(inputs)))


def branching() -> Any:
    inputs = keras.Input((4,))
    return keras.Model(inputs, [layers.Dropout(0.1)(inputs), layers.Dense(8)(inputs)])


def merged_twice() -> Any:
    inputs = keras.Input((4,))
    a, b = layers.Dense(8)(inputs), layers.Dense(8, "relu")(inputs)
    return keras.Model(inputs, [layers.Concatenate(axis=1)([b, a]), layers.Concatenate()([b, a])])


def coded(times: int) -> Any:
    """Return a layer of one name whose code is one or the other."""

    class Coded(layers.Layer):  # type: ignore[misc]
        if times == 2:

            def call(self, x: Any) -> Any:
                return 2 * x
        else:

            def call(self, x: Any) -> Any:
                return 3 * x

    return Coded(name="coded")


def sliced(part: slice) -> Any:
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(2, name="head")(inputs[:, part]))


def two_inputs() -> Any:
    one, other = keras.Input((4,), name="one"), keras.Input((4,), name="other")
    return keras.Model([one, other], layers.Add()([one, other]))


@pytest.mark.parametrize(
    ("mine", "ancestor", "reason", "words"),
    [
        (lambda: chain(), lambda: chain(), "whole model", "all layers are shared"),
        (
            lambda: chain(layers.Dense(6, name="mid")),
            lambda: chain(layers.Dense(8, name="other")),
            "other settings",
            "mid: units 6, the ancestor's 8",
        ),
        (
            lambda: chain(layers.Dense(6, "relu", name="mid")),
            lambda: chain(layers.Dense(8, "tanh", use_bias=False)),
            "other settings",
            "mid: activation relu, the ancestor's tanh; units 6, the ancestor's 8; use_bias true, the ancestor's false",
        ),
        (
            lambda: chain(layers.Dropout(0.1, name="mid")),
            lambda: chain(layers.Dense(8)),
            "another layer",
            "mid: Dropout, the ancestor's is Dense",
        ),
        (lambda: chain(width=3), lambda: chain(width=4), "other settings", "outputs"),
        (
            lambda: chain(layers.Dense(8, name="mid")),
            lambda: keras.Sequential([keras.Input((4,)), layers.Dense(8)]),
            "other connections",
            "head: nothing more in the ancestor takes what mid gives",
        ),
        (two_inputs, lambda: chain(), "other connections", "other: the ancestor has no further input"),
        (lambda: chain(coded(2)), lambda: chain(coded(3)), "other settings", "coded: its own code"),
        (
            lambda: sliced(slice(0, 2)),
            lambda: sliced(slice(1, 2)),
            "other settings",
            """: call key 1 {"$": "slice", "items": [0, 2, null]}, the ancestor's {"$": "slice", "items": [1""",
        ),
        (
            lambda: chain(layers.Rescaling(1.0, name="mid", offset=[0.125] * 30 + [0.5])),
            lambda: chain(layers.Rescaling(1.0, offset=[0.125] * 30 + [0.25])),
            "other settings",
            "mid: offset 30 0.5, the ancestor's 0.25",
        ),
        (
            lambda: merged("Concatenate", "ab"),
            lambda: merged("Concatenate", "ba"),
            "other connections",
            "merge: inputs in another order",
        ),
        # Of several in its place, the one that is most alike.
        (lambda: chain(layers.Dense(6, name="mid")), branching, "other settings", "mid: units 6, the ancestor's 8"),
        (lambda: merged("Concatenate", "ab"), merged_twice, "other connections", "merge: inputs in another order"),
        (
            lambda: merged("Add", "ab"),
            lambda: merged("Maximum", "ab"),
            "another layer",
            "merge: Add, the ancestor's is Maximum",
        ),
        (
            lambda: twice(shared=True),
            lambda: twice(shared=False),
            "other connections",
            "weights shared with another layer",
        ),
    ],
)
def test_the_first_layer_that_is_not_shared_is_said(
    mine: Callable[[], Any], ancestor: Callable[[], Any], reason: str, words: str
) -> None:
    graph, other = flatten(mine()).graph, flatten(ancestor()).graph
    found = boundary_of(graph, other, longest_common_prefix(graph, other))
    assert (found.reason, words in found.words) == (reason, True), found


def test_long_names_and_values_are_shortened() -> None:
    graph, other = (
        flatten(chain(layers.Reshape(shape, name="x" * 500), layers.Flatten())).graph
        for shape in ((1,) * 200 + (4,), (4,) + (1,) * 200)
    )
    found = boundary_of(graph, other, longest_common_prefix(graph, other))
    assert found.reason == "other settings"
    assert len(found.words) < 250


class Rated(layers.Layer):  # type: ignore[misc]
    def __init__(self, rates: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self.rates = rates

    def call(self, x: Any) -> Any:
        return x

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rates": self.rates}


def test_a_long_setting_that_only_one_has_as_none_is_said() -> None:
    rates = {f"rate of layer {number}": 0.5 for number in range(9)}
    graph, other = (flatten(chain(Rated(chosen, name="mid"))).graph for chosen in ({**rates, "last": None}, rates))
    found = boundary_of(graph, other, longest_common_prefix(graph, other))
    assert (found.reason, found.words.startswith("mid: rates ")) == ("other settings", True), found


@given(related_graphs())
def test_any_pair_has_a_reason(pair: tuple[ArchitectureGraph, ArchitectureGraph]) -> None:
    graph, other = pair
    prefix = longest_common_prefix(graph, other)
    found = boundary_of(graph, other, prefix)
    assert (found.reason == "whole model") == (len(prefix) == len(graph.vertices))
    assert 0 < len(found.words) < 600
