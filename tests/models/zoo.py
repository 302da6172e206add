"""Small models, one for each way in which Keras models can be built."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers

ZOO: dict[str, Callable[[], keras.Model]] = {}


def zoo(build: Callable[[], keras.Model]) -> Callable[[], keras.Model]:
    ZOO[build.__name__] = build
    return build


def batch(model: keras.Model, rows: int = 3, seed: int = 0) -> Any:
    """Random inputs for a model, nested as its own inputs are."""
    rng = np.random.default_rng(seed)

    def values(tensor: Any) -> Any:
        shape = (rows, *(size or 4 for size in tensor.shape[1:]))
        if tensor.dtype == "string":
            return keras.ops.convert_to_tensor(rng.choice(["a", "b", "c"], shape))
        if "int" in tensor.dtype:
            return keras.ops.convert_to_tensor(rng.integers(0, 4, shape), dtype=tensor.dtype)
        return keras.ops.convert_to_tensor(rng.normal(size=shape), dtype=tensor.dtype)

    structure = model.input if hasattr(model, "_inputs_struct") else model.inputs[0]
    return keras.tree.map_structure(values, structure)


@keras.saving.register_keras_serializable("daskevo-tests")
class Scale(keras.layers.Layer):
    """A custom layer with a weight and state that isn't trained."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="random_normal", name="scale")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, inputs: Any) -> Any:
        return inputs * self.scale * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


@keras.saving.register_keras_serializable("daskevo-tests")
class Block(keras.layers.Layer):
    """A custom layer with layers inside."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units)
        self.normalise = layers.BatchNormalization()

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.normalise.build((*shape[:-1], self.units))

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.normalise(self.dense(inputs), training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("daskevo-tests")
def double(x: Any) -> Any:
    return 2 * x


@zoo
def sequential() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), layers.Dense(5, activation="relu"), layers.Dense(2)])


@zoo
def deferred_sequential() -> keras.Model:
    model = keras.Sequential([layers.Dense(5), layers.Dense(2)])
    model.build((None, 4))
    return model


@zoo
def nested() -> keras.Model:
    inner_input = keras.Input((5,))
    inner = keras.Model(inner_input, layers.Dense(5)(layers.Dense(6)(inner_input)))
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2)(inner(keras.Sequential([keras.Input((4,)), layers.Dense(5)])(x))))


@zoo
def nested_twice() -> keras.Model:
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, layers.Dense(4)(inner_input))
    x = keras.Input((4,))
    return keras.Model(x, inner(inner(x)))


@zoo
def deeply_nested() -> keras.Model:
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(4)(x))
    for _ in range(4):
        x = keras.Input((4,))
        model = keras.Model(x, layers.Dense(4)(model(x)))
    return model


@zoo
def nested_on_another_shape() -> keras.Model:
    inner_input = keras.Input((None, None, 3))
    inner = keras.Model(inner_input, layers.Conv2D(4, 3, padding="same")(inner_input))
    x = keras.Input((8, 6, 3))
    return keras.Model(x, layers.Flatten()(layers.MaxPooling2D()(inner(x))))


@zoo
def nested_with_two_outputs() -> keras.Model:
    a, b = keras.Input((4,)), keras.Input((3,))
    inner = keras.Model([a, b], [layers.Dense(2)(a), layers.Concatenate()([a, b])])
    x, y = keras.Input((4,)), keras.Input((3,))
    first, second = inner([x, y])
    return keras.Model([x, y], layers.Concatenate()([second, first]))


@zoo
def nested_integers() -> keras.Model:
    inner_input = keras.Input((4,), dtype="int32")
    inner = keras.Model(inner_input, layers.Embedding(50, 3)(inner_input))
    x = keras.Input((4,))
    return keras.Model(x, layers.Flatten()(inner(keras.ops.abs(x))))


@zoo
def shared() -> keras.Model:
    a, b = keras.Input((4,)), keras.Input((4,))
    dense = layers.Dense(3)
    return keras.Model([a, b], layers.Subtract()([dense(a), dense(b)]))


@zoo
def shared_in_a_chain() -> keras.Model:
    x = keras.Input((4,))
    dense = layers.Dense(4, activation="tanh")
    return keras.Model(x, dense(layers.Dropout(0.1)(dense(x))))


@zoo
def shared_across_levels() -> keras.Model:
    dense = layers.Dense(4)
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, layers.Activation("tanh")(dense(inner_input)))
    x = keras.Input((4,))
    return keras.Model(x, layers.Add()([dense(x), inner(x)]))


@zoo
def dict_inputs() -> keras.Model:
    a, b = keras.Input((4,), name="zz"), keras.Input((4,), name="aa")
    return keras.Model({"zz": a, "aa": b}, layers.Subtract()([layers.Dense(3)(a), layers.Dense(3)(b)]))


@zoo
def nested_structures() -> keras.Model:
    a, b, c = (keras.Input((4,), name=name) for name in "abc")
    merged = layers.Concatenate()([a, b, c])
    return keras.Model([a, (b, c)], {"one": layers.Dense(1)(merged), "two": [layers.Dense(2)(merged), merged]})


@zoo
def unused_input() -> keras.Model:
    a, b = keras.Input((4,), name="used"), keras.Input((3,), name="unused")
    return keras.Model([b, a], layers.Dense(2)(a))


@zoo
def twins() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, layers.Concatenate()([layers.Dense(3)(x), layers.Dense(3)(x)]))


@zoo
def wrappers() -> keras.Model:
    x = keras.Input((5, 4))
    inner_input = keras.Input((6,))
    inner = keras.Model(inner_input, layers.Dense(2)(layers.Dense(3)(inner_input)))
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    return keras.Model(x, layers.TimeDistributed(inner)(y))


@zoo
def spectral_normalization() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, layers.SpectralNormalization(layers.Dense(3))(x))


@zoo
def recurrent() -> keras.Model:
    x = keras.Input((5, 4))
    cells = layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], return_sequences=True)
    y, h, c = layers.LSTM(3, return_sequences=True, return_state=True)(cells(x))
    return keras.Model(x, layers.LSTM(3)(y, initial_state=[h, c]))


@zoo
def attention() -> keras.Model:
    x, y = keras.Input((5, 4)), keras.Input((6, 4))
    z = layers.MultiHeadAttention(2, 3)(x, y, use_causal_mask=False)
    return keras.Model([x, y], layers.Attention()([layers.LayerNormalization()(z), y]))


@zoo
def causal_attention() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True))


@zoo
def implicit_masks() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    y = layers.Embedding(10, 4, mask_zero=True)(x)
    y = layers.LSTM(4, return_sequences=True)(y)
    return keras.Model(x, layers.GRU(2)(layers.MultiHeadAttention(2, 2)(y, y)))


@zoo
def masks_into_nested() -> keras.Model:
    inner_input = keras.Input((5, 4))
    inner = keras.Model(inner_input, layers.LSTM(3)(inner_input))
    x = keras.Input((5,), dtype="int32")
    return keras.Model(x, inner(layers.Embedding(10, 4, mask_zero=True)(x)))


@zoo
def keyword_masks() -> keras.Model:
    x, mask = keras.Input((5, 4)), keras.Input((5,), dtype="bool")
    y = layers.LSTM(3, return_sequences=True)(x, mask=mask)
    return keras.Model([x, mask], layers.GlobalAveragePooling1D()(y, mask=mask))


@zoo
def operations() -> keras.Model:
    x = keras.Input((4, 3))
    y = keras.ops.einsum("bij,bkj->bik", x, x) + np.arange(4, dtype="float32")
    y = keras.ops.concatenate([y[:, 1:3], y[:, None, 0] * 2.5], axis=1)
    return keras.Model(x, keras.ops.mean(keras.ops.where(y > 0, y, -y / 3.0), axis=[1]))


@zoo
def mixed_precision() -> keras.Model:
    inner_input = keras.Input((5,))
    inner = keras.Model(inner_input, layers.Dense(5, dtype="mixed_float16")(inner_input))
    x = keras.Input((4,))
    y = layers.Dense(5, dtype="mixed_float16")(x)
    return keras.Model(x, layers.Dense(2, dtype="bfloat16")(inner(y)))


@zoo
def quantised() -> keras.Model:
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2)(layers.Dense(3)(x)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns that an InputLayer can't be quantised
        model.quantize("int8")
    return model


@zoo
def born_quantised() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype="int8_from_float32")])


@zoo
def low_rank() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    model.layers[0].enable_lora(2)
    return model


@zoo
def custom() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2, activation=double)(Block(3)(Scale(0.5)(x))))


@zoo
def lookups() -> keras.Model:
    words, numbers, text = (
        keras.Input((3,), dtype="string"),
        keras.Input((3,), dtype="int64"),
        keras.Input((1,), dtype="string"),
    )
    adapted = layers.StringLookup(mask_token="", output_mode="count")
    adapted.adapt(np.array([["a", "b", "b"]]))
    vectors = layers.TextVectorization(output_mode="tf_idf")
    vectors.adapt(np.array(["a b c", "a b", "c"]))
    known = layers.IntegerLookup(vocabulary=[3, 1, 2], output_mode="multi_hot")
    found = [adapted(words), known(numbers), layers.Flatten()(vectors(text))]
    return keras.Model([words, numbers, text], [keras.ops.cast(part, "float32") for part in found])


@zoo
def preprocessing() -> keras.Model:
    x = keras.Input((3,))
    normalise, bins = layers.Normalization(), layers.Discretization(num_bins=3)
    data = np.random.default_rng(0).normal(3, 2, (50, 3)).astype("float32")
    normalise.adapt(data)
    bins.adapt(data)
    found = [normalise(x), keras.ops.cast(bins(x), "float32"), layers.Rescaling(1 / 255, offset=np.ones(3))(x)]
    return keras.Model(x, layers.Concatenate()(found))


@zoo
def subclassed_inside() -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, Subclassed(3)(x))


@zoo
def from_the_middle() -> keras.Model:
    x = keras.Input((4,))
    middle = layers.Dense(5)(x)
    end = layers.Dense(2)(layers.Dense(3)(middle))
    return keras.Model(middle, end)


@keras.saving.register_keras_serializable("daskevo-tests")
class Subclassed(keras.Model):
    """A model without a graph; a leaf where it stands inside another model."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}
