"""Writes the corpus of models that the running Keras stores: ``python -m tests.corpus.make_keras FOLDER``.

What is checked in under ``golden/keras-VERSION/`` was made by the oldest and the newest version that is supported, and
is never made again: every version must load it, predict what was predicted then, and match it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from tests.cluster.helpers import at_rest, evo_cluster, open_here

MODELS: dict[str, Callable[[], keras.Model]] = {}


def stored(build: Callable[[], keras.Model]) -> Callable[[], keras.Model]:
    MODELS[build.__name__] = build
    return build


@stored
def convolutions() -> keras.Model:
    x = keras.Input((8, 8, 3))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, activation="relu")(x))
    y = layers.DepthwiseConv2D(3, padding="same")(layers.SeparableConv2D(4, 3, padding="same")(y))
    y = layers.Add()([y, layers.LayerNormalization()(y)])
    y = layers.GlobalAveragePooling2D()(layers.MaxPooling2D()(layers.GroupNormalization(2)(y)))
    return keras.Model(x, layers.Dense(2, activation="softmax")(layers.Dropout(0.2, seed=3)(y)))


@stored
def attention() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    y = layers.Embedding(10, 8, mask_zero=True)(x)
    y = layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True)
    y = layers.GroupQueryAttention(4, 4, 2)(y, y)
    y = layers.Bidirectional(layers.GRU(3, return_sequences=True))(y)
    return keras.Model(x, layers.LSTM(2)(layers.TimeDistributed(layers.BatchNormalization())(y)))


@stored
def words() -> keras.Model:
    x = keras.Input((3,), dtype="string")
    y = layers.StringLookup(vocabulary=["a", "b", "c"], output_mode="multi_hot")(x)
    return keras.Model(x, layers.Dense(2)(y))


@stored
def numbers() -> keras.Model:
    x, mask = keras.Input((4,), name="x"), keras.Input((4,), name="mask")
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, layers.Dense(4, activation="gelu")(layers.UnitNormalization()(inner_input)))
    whole = layers.IntegerLookup(vocabulary=[1, 2, 3], output_mode="count")(ops.cast(ops.abs(x), "int64"))
    y = layers.Concatenate()([inner(x) * mask, layers.EinsumDense("ab,bc->ac", 3)(inner(mask)), whole])
    y = layers.PReLU()(layers.Rescaling(0.5)(layers.GaussianNoise(0.1)(y)))
    return keras.Model([x, mask], {"one": layers.Dense(1, name="one")(y), "two": layers.LeakyReLU(0.2)(y)})


def inputs_of(model: keras.Model) -> list[Any]:
    """Return two samples for each input of a model, the same in every process."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for tensor in model.inputs:
        shape = (2, *tensor.shape[1:])
        if tensor.dtype == "string":
            found.append(ops.convert_to_tensor(rng.choice(["a", "b", "z"], shape).tolist()))
        elif tensor.dtype == "int32":
            found.append(rng.integers(0, 10, shape).astype("int32"))
        else:
            found.append(rng.normal(0, 2, shape).astype("float32"))
    return found


def outputs_of(model: keras.Model) -> list[Any]:
    """Return what a model gives for `inputs_of`, as lists of numbers."""
    given = inputs_of(model)
    found = model(given if len(given) > 1 else given[0], training=False)
    return [np.asarray(value).tolist() for value in keras.tree.flatten(found)]


def make_root(root: Path) -> None:
    """Make a repository with all of `MODELS`, each with what it predicts."""

    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, root, shards=1)
        for name, build in MODELS.items():
            keras.utils.set_random_seed(1)
            model = build()
            await repository.add(model, metrics={"score": 1.0}, model_id=name, extra={"outputs": outputs_of(model)})
        await at_rest(s, a)

    fill()
    for reserve in root.glob("shards/*/reserve"):
        reserve.unlink()  # random bytes, made again by the next opener


if __name__ == "__main__":
    make_root(Path(sys.argv[1]) / f"keras-{keras.__version__}" / "root")
