"""A problem of one's own is one file: two interleaved half moons, told apart by a small network.

daskevo nas examples/03_my_problem.py --evaluations 10 --run runs/moons
"""

import keras
import numpy as np

from daskevo_workflows.problems import Data

name = "moons"
objective = "max val_accuracy"
epochs, batch_size = 3, 32


def build(choose):
    tensor = inputs = keras.Input((2,))
    activation = choose("activation", ("relu", "tanh", "swish"))
    for number in range(choose("layers", (1, 2, 3))):
        tensor = keras.layers.Dense(choose(f"width {number}", (4, 8, 16, 32)), activation)(tensor)
    if choose("skip", (False, True)):
        tensor = keras.layers.Concatenate()([tensor, inputs])
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(tensor))


def data():
    rng = np.random.default_rng(0)
    moon = rng.integers(0, 2, 2_000)
    angle = rng.uniform(0, np.pi, moon.size)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.where(moon, -1, 1)[:, None] + moon[:, None] * [1.0, 0.5]
    x = (x + rng.normal(0, 0.15, x.shape)).astype("float32")
    return Data(train=(x[:1_500], moon[:1_500]), validation=(x[1_500:], moon[1_500:]))


def compile(model):
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])


def score(model, data):
    loss, accuracy = model.evaluate(*data.validation, verbose=0)
    return {"val_accuracy": accuracy, "val_loss": loss}
