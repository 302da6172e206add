"""Property: whatever two models share, each inherited tensor is a copy of its source vertex' tensor, never of another.

Models are drawn with twins, shared layers, several inputs, merges and nested models; the source of each tensor is
worked out again here, straight from the definition, by comparing recorded calls of the two Keras models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keras import layers

from daskevo.graph import longest_common_prefix
from daskevo.models import FlatModel, flatten, freeze, read_tensors, rebuild_flat, write_tensors

WIDTH = 3

# (kind, sources, layer): layers and sources are picked modulo what is there, so every list of steps is a model.
Step = tuple[str, int, int, int]
KINDS = ["dense", "relu dense", "again", "twin", "add", "concat", "nested", "scale", "dropout"]
steps = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 7), st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=7
)


@st.composite
def pairs(draw: Callable[..., Any]) -> tuple[int, list[Step], int, list[Step]]:
    """Two programs, one often a mutation of the other, as in evolution."""
    first = draw(steps)
    inputs = draw(st.integers(1, 2))
    if draw(st.booleans()):
        second = list(first)
        second[draw(st.integers(0, len(first) - 1))] = draw(steps)[0]
        return inputs, first, inputs, second
    return inputs, first, draw(st.integers(1, 2)), draw(steps)


def build(inputs: int, program: list[Step]) -> keras.Model:
    tensors = [keras.Input((WIDTH,)) for _ in range(inputs)]
    starts = list(tensors)
    made: list[Any] = []
    for kind, one, other, which in program:
        x, y = tensors[one % len(tensors)], tensors[other % len(tensors)]
        if kind == "again" and made:
            z = made[which % len(made)](x)
        elif kind == "add":
            z = layers.Add()([x, y])
        elif kind == "concat":
            z = layers.Dense(WIDTH)(layers.Concatenate()([x, y]))
        elif kind == "nested":
            inner_input = keras.Input((WIDTH,))
            z = keras.Model(inner_input, layers.Dense(WIDTH)(inner_input))(x)
        elif kind == "scale":
            z = x * float(which)
        elif kind == "dropout":
            z = layers.Dropout(0.1)(x)
        else:
            activation = "relu" if kind == "relu dense" else None
            made.append(layers.Dense(WIDTH, activation=activation))
            z = made[-1](x)
            if kind == "twin":
                made.append(layers.Dense(WIDTH))
                z = layers.Subtract()([z, made[-1](x)])
        tensors.append(z)
    ends = [tensor for tensor in tensors if not tensor._keras_history.operation._outbound_nodes]
    return keras.Model(starts, ends or [tensors[-1]])


def activations(flat: FlatModel, values: list[np.ndarray]) -> list[np.ndarray]:
    """What each vertex of the flat graph returns, computed from the model rebuilt with all vertices as outputs."""
    rebuilt = rebuild_flat(flat.graph)
    write_tensors(rebuilt.flat, dict(enumerate(read_tensors(flat))))
    tensors = [rebuilt.flat.layers[vertex.layer] for vertex in rebuilt.flat.graph.vertices]
    seen: dict[int, int] = {}
    outputs = []
    for vertex, layer in zip(rebuilt.flat.graph.vertices, tensors, strict=True):
        call = seen.get(vertex.layer, 0)
        seen[vertex.layer] = call + 1
        outputs.append(layer._inbound_nodes[call].outputs[0])
    every = keras.Model(rebuilt.model.inputs, outputs)
    return [np.asarray(part) for part in every(values, training=False)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(pairs())
def test_inherited_tensors_equal_their_sources(pair: tuple[int, list[Step], int, list[Step]]) -> None:
    parent, child = flatten(build(*pair[:2])), flatten(build(*pair[2:]))
    # Every tensor of the parent gets values of its own, so that no wrong copy can look right.
    write_tensors(
        parent,
        {
            number: np.random.default_rng(number).normal(size=key.spec.shape).astype(key.spec.dtype)
            for number, key in enumerate(parent.graph.tensors)
        },
    )
    prefix = longest_common_prefix(child.graph, parent.graph)
    before, source = read_tensors(child), read_tensors(parent)
    inherited = dict(prefix.tensors(child.graph, parent.graph))
    write_tensors(child, {mine: source[theirs] for mine, theirs in inherited.items()})

    # 1. Each inherited tensor is that of the partner vertex' layer, at the same index; no other tensor has changed.
    partners = dict(prefix.vertices)
    for number, key in enumerate(child.graph.tensors):
        first = child.graph.calls[key.layer][0]
        value = child.layers[key.layer].weights[key.index].numpy()
        if first in partners:
            layer = parent.layers[parent.graph.vertices[partners[first]].layer]
            np.testing.assert_array_equal(value, layer.weights[key.index].numpy())
            assert number in inherited
        else:
            np.testing.assert_array_equal(value, before[number])
            assert number not in inherited

    # 2. Every vertex of the prefix computes what its partner does: nothing upstream of it is wrong either.
    if pair[0] == pair[2] and inherited:
        rng = np.random.default_rng(99)
        values = [rng.normal(size=(2, WIDTH)).astype("float32") for _ in range(pair[0])]
        mine, theirs = activations(child, values), activations(parent, values)
        for vertex, partner in partners.items():
            np.testing.assert_allclose(mine[vertex], theirs[partner], rtol=1e-5, atol=1e-6)

    # 3. What is frozen was inherited.
    freezing = freeze(child, prefix.freezable(child.graph))
    assert set(freezing.tensors) <= set(inherited)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 2), steps)
def test_a_rebuilt_model_is_the_same_model(inputs: int, program: list[Step]) -> None:
    model = build(inputs, program)
    flat = flatten(model)
    again = rebuild_flat(flat.graph)  # compares all ids
    write_tensors(again.flat, dict(enumerate(read_tensors(flat))))
    values = [np.random.default_rng(index).normal(size=(2, WIDTH)).astype("float32") for index in range(inputs)]
    for one, other in zip(
        keras.tree.flatten(model(values, training=False)),
        keras.tree.flatten(again.model(values, training=False)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
