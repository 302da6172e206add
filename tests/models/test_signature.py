"""What a signature tells apart, and what it doesn't."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from daskevo.graph import longest_common_prefix
from daskevo.models import flatten, rebuild
from daskevo.models.custom_code import code_of
from tests.models.zoo import Scale


def ids(build: Callable[[Any], Any], shape: tuple[int | None, ...] = (4,), dtype: str = "float32") -> tuple[bytes, ...]:
    x = keras.Input(shape, dtype=dtype)
    return flatten(keras.Model(x, build(x))).graph.ids


SAME: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "names": (layers.Dense(3, name="a"), layers.Dense(3, name="b")),
    "trainable": (layers.Dense(3), layers.Dense(3, trainable=False)),
    "seeds": (layers.Dropout(0.5, seed=1), layers.Dropout(0.5, seed=2)),
    "initializers": (layers.Dense(3), layers.Dense(3, kernel_initializer=keras.initializers.HeNormal(3))),
    "regularizers": (layers.Dense(3), layers.Dense(3, kernel_regularizer="l2", activity_regularizer="l1")),
    "constraints": (layers.Dense(3), layers.Dense(3, bias_constraint="non_neg")),
    "training for a layer without it": (lambda x: layers.ReLU()(x), lambda x: layers.ReLU()(x, training=True)),
    "default argument written out": (
        lambda x: layers.BatchNormalization()(x),
        lambda x: layers.BatchNormalization()(x, mask=None),
    ),
    "positional or keyword": (lambda x: keras.ops.add(x, 2.0), lambda x: keras.ops.add(x1=x, x2=2.0)),
    "operator or function": (lambda x: x + 2.0, lambda x: keras.ops.add(x, 2.0)),
    "string or function": (layers.Dense(3, activation="relu"), layers.Dense(3, activation=keras.activations.relu)),
    "nested or not": (
        lambda x: layers.Dense(3)(layers.Dense(4)(x)),
        lambda x: keras.Sequential([keras.Input((4,)), layers.Dense(4), layers.Dense(3)])(x),
    ),
    "Add of swapped": (
        lambda x: layers.Add()([layers.Dense(4)(x), layers.ReLU()(x)]),
        lambda x: layers.Add()([layers.ReLU()(x), layers.Dense(4)(x)]),
    ),
    "operator + of swapped": (
        lambda x: layers.Dense(4)(x) + layers.ReLU()(x),
        lambda x: layers.ReLU()(x) + layers.Dense(4)(x),
    ),
    "list or tuple of tensors": (lambda x: layers.Concatenate()([x, x]), lambda x: layers.Concatenate()((x, x))),
}


@pytest.mark.parametrize("one_and_other", SAME.values(), ids=SAME)
def test_the_same(one_and_other: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
    one, other = one_and_other
    assert set(ids(one)) == set(ids(other))


def test_operations_have_the_ids_that_stored_models_have() -> None:
    x = keras.Input((8, 8, 3))
    graph = flatten(keras.Model(x, [ops.mean(x, axis=1), ops.softmax(x), ops.average_pool(x, 2)])).graph
    assert [bytes(vertex_id).hex() for vertex_id in graph.ids] == [
        "435d91750afbb976a2a32c5f33b88bb5",
        "a294d87e540981e402943f80797a5e56",
        "57efc1866d8c65dbbf7843b158f0a2e4",
        "d5b605b547963d21db2439f0b777cc06",
    ]


def adapted(words: list[str]) -> Any:
    layer = layers.StringLookup()
    layer.adapt(np.array(words)[:, None])
    return layer


DIFFERENT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "units": (layers.Dense(3), layers.Dense(4)),
    "activation": (layers.Dense(3, activation="relu"), layers.Dense(3, activation="gelu")),
    "rate": (layers.Dropout(0.1), layers.Dropout(0.2)),
    "class": (lambda x: layers.Add()([x, x]), lambda x: layers.Average()([x, x])),
    "custom argument": (Scale(1.0), Scale(2.0)),
    "dtype policy": (layers.Dense(3), layers.Dense(3, dtype="mixed_float16")),
    "dtype policy of the same dtypes": (layers.Dense(3, dtype="float16"), layers.Dense(3, dtype="mixed_float16")),
    "dtype policy of a layer without weights": (layers.ReLU(dtype="float16"), layers.ReLU(dtype="mixed_float16")),
    "policy inside a wrapper": (
        layers.SpectralNormalization(layers.Dense(3)),
        layers.SpectralNormalization(layers.Dense(3, dtype="mixed_bfloat16")),
    ),
    "layer inside a wrapper": (
        layers.SpectralNormalization(layers.Dense(3, activation="relu")),
        layers.SpectralNormalization(layers.Dense(3, activation="tanh")),
    ),
    "quantised": (layers.Dense(3), layers.Dense(3, dtype="int8_from_float32")),
    "constant": (lambda x: x * 2.0, lambda x: x * 3.0),
    "constant's side": (lambda x: x - 2.0, lambda x: 2.0 - x),
    "array": (lambda x: x + np.arange(4.0), lambda x: x + np.arange(4.0)[::-1]),
    "slice": (lambda x: x[:, :2], lambda x: x[:, 2:]),
    "step": (lambda x: x[:, 0:4], lambda x: x[:, 0:4:2]),
    "infinity": (lambda x: keras.ops.clip(x, 0, 1.0), lambda x: keras.ops.clip(x, 0, float("inf"))),
    "Subtract of swapped": (
        lambda x: layers.Subtract()([layers.Dense(4)(x), x]),
        lambda x: layers.Subtract()([x, layers.Dense(4)(x)]),
    ),
    "Concatenate of swapped": (
        lambda x: layers.Concatenate()([layers.Dense(4)(x), x]),
        lambda x: layers.Concatenate()([x, layers.Dense(4)(x)]),
    ),
    "twins or one layer twice": (
        lambda x: layers.Concatenate()([layers.Dense(4)(x), layers.Dense(4)(x)]),
        lambda x: layers.Concatenate()([(dense := layers.Dense(4))(x), dense(x)]),
    ),
    "residual or not": (lambda x: layers.Add()([x, layers.Dense(4)(x)]), lambda x: layers.Dense(4)(x)),
}


@pytest.mark.parametrize("one_and_other", DIFFERENT.values(), ids=DIFFERENT)
def test_different(one_and_other: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
    one, other = one_and_other
    x = ids(one, dtype="float32")[-1]
    assert x != ids(other)[-1]


def projection(seed: int) -> Any:
    @keras.saving.register_keras_serializable("test_signature", name="Projection")
    class Projection(layers.Layer):
        """What it draws is no weight: its seed is what it computes."""

        def __init__(self, seed: int, kernel_initializer: str = "zeros", **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.seed, self.kernel_initializer = seed, kernel_initializer

        def call(self, x: Any) -> Any:
            return x @ ops.convert_to_tensor(np.random.default_rng(self.seed).normal(size=(4, 4)).astype("float32"))

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "seed": self.seed, "kernel_initializer": self.kernel_initializer}

    return Projection


def ids_of(layer: Any) -> Any:
    x = keras.Input((4,))
    return flatten(keras.Model(x, layer(x))).graph.ids


def test_arguments_of_other_layers_than_keras_own_all_count() -> None:
    kind = projection(1)
    assert ids_of(kind(1)) == ids_of(kind(1))
    assert ids_of(kind(1)) != ids_of(kind(2))
    assert ids_of(kind(1)) != ids_of(kind(1, kernel_initializer="ones"))


def scaled(by: float) -> Any:
    @keras.saving.register_keras_serializable("test_signature", name="Scaled")
    class Scaled(layers.Layer):
        def call(self, x: Any) -> Any:
            return x * by

    return Scaled


def activation(by: float) -> Any:
    @keras.saving.register_keras_serializable("test_signature", name="scaling")
    def scaling(x: Any) -> Any:
        return x * by

    return scaling


def test_what_is_registered_under_one_name_compares_by_its_code() -> None:
    assert ids_of(scaled(2.0)()) == ids_of(scaled(2.0)())
    assert ids_of(scaled(2.0)()) != ids_of(scaled(3.0)())
    for wrap in (lambda f: layers.Dense(2, activation=f), lambda f: layers.Activation(f)):
        assert ids_of(wrap(activation(2.0))) == ids_of(wrap(activation(2.0)))
        assert ids_of(wrap(activation(2.0))) != ids_of(wrap(activation(3.0)))


def test_what_cannot_be_compared_is_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    with Path(__file__).open() as one, Path(__file__).open() as other:
        first, second = scaled(one), scaled(other)
        assert code_of(first(), {}) == code_of(first(), {})
        assert code_of(first(), {}) != code_of(second(), {})
    assert "can't be compared by its code" in caplog.text


def test_vocabularies_of_one_size_are_told_apart() -> None:
    one, other, again = (
        ids(adapted(words), (1,), "string") for words in (["a", "b", "b"], ["a", "c", "c"], ["a", "b", "b"])
    )
    assert one[-1] != other[-1]
    assert one == again

    def vectorised(words: list[str]) -> tuple[bytes, ...]:
        layer = layers.TextVectorization(output_mode="tf_idf")
        layer.adapt(np.array(words))
        return ids(layer, (1,), "string")

    assert vectorised(["a b", "b"])[-1] != vectorised(["a b", "a"])[-1]


def test_shapes_are_told_apart_without_the_batch() -> None:
    def flat(shape: tuple[int | None, ...], batch_size: int | None = None) -> tuple[bytes, ...]:
        x = keras.Input(shape, batch_size=batch_size)
        return flatten(keras.Model(x, layers.GlobalMaxPooling1D()(x))).graph.ids

    assert flat((5, 4)) != flat((6, 4))
    assert flat((5, 4)) != flat((None, 4))
    assert flat((5, 4), 8) == flat((5, 4))


def test_a_layer_that_leaves_out_an_argument_is_told_apart_by_what_it_returns() -> None:
    class Repeat(layers.Layer):
        def __init__(self, times: int) -> None:
            super().__init__()
            self.times = times

        def call(self, x: Any) -> Any:
            return keras.ops.repeat(x, self.times, axis=-1)

        def get_config(self) -> dict[str, Any]:
            return layers.Layer.get_config(layers.Layer())

    assert ids(Repeat(2))[-1] != ids(Repeat(3))[-1]


def test_a_policy_map_goes_by_what_it_says_for_the_layer() -> None:
    def build(name: str) -> keras.Model:
        policies = keras.dtype_policies.DTypePolicyMap(keras.dtype_policies.DTypePolicy("float32"))
        policies[f"model/{name}"] = keras.dtype_policies.DTypePolicy("mixed_bfloat16")
        return keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype=policies, name="there")], name="model")

    plain = keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype="mixed_bfloat16")])
    assert flatten(build("there")).graph.ids == flatten(plain).graph.ids
    assert flatten(build("elsewhere")).graph.ids != flatten(plain).graph.ids
    assert rebuild(flatten(build("there")).graph).layers[1].dtype_policy.name == "mixed_bfloat16"


def test_names_inside_wrapped_models_are_positions() -> None:
    def build(prefix: str, other_way: bool = False) -> tuple[bytes, ...]:
        a = keras.Input((4,), name=f"{prefix}_in")
        one, two = layers.Dense(3, name=f"{prefix}_1")(a), layers.Dense(3, name=f"{prefix}_2")(a)
        pair = [two, one] if other_way else [one, two]
        inner = keras.Model(a, layers.Subtract(name=f"{prefix}_3")(pair), name=prefix)
        return ids(layers.TimeDistributed(inner, name=f"{prefix}_4"), (5, 4))

    assert build("x") == build("dense")


def test_an_input_keeps_its_position() -> None:
    a, b = keras.Input((4,)), keras.Input((4,))
    dense = layers.Dense(3)(b)
    one = flatten(keras.Model([a, b], layers.Concatenate()([a, dense])))
    a, b = keras.Input((4,)), keras.Input((4,))
    dense = layers.Dense(3)(a)
    other = flatten(keras.Model([a, b], layers.Concatenate()([b, dense])))

    prefix = longest_common_prefix(one.graph, other.graph)
    assert [one.graph.vertices[mine].layer for mine, _ in prefix.vertices] == [0, 1]
