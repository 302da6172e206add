"""A Keras model and a table of one's own: the model stays as it is, and what may happen to it is said apart.

daskevo nas examples/07_own_data.py --evaluations 10 --run runs/own
"""

import csv
from importlib import resources

import keras
import numpy as np

from daskevo.models import Mutated
from daskevo.space import InsertingMutator, OperatorMutator, layer, named
from daskevo_workflows.problems import Data

TABLE = resources.files("sklearn.datasets.data") / "breast_cancer.csv"  # the path of your own table
name = "own"
objective = "max val_accuracy"
epochs, batch_size = 4, 32


def model():
    return keras.Sequential(
        [
            keras.Input((30,)),
            keras.layers.Dense(16, "relu", name="hidden"),
            keras.layers.Dense(1, "sigmoid", name="out"),
        ]
    )


def space():
    widths = [layer("Dense", units=units, activation="relu") for units in (16, 32, 64)]
    more = {
        "nothing": None,
        "dropout": layer("Dropout", rate=0.2),
        "dense": layer("Dense", units=16, activation="tanh"),
    }
    return Mutated(name, model, [OperatorMutator(named("hidden"), widths), InsertingMutator(named("hidden"), more)])


def data():
    with TABLE.open() as file:
        rows = np.array(list(csv.reader(file))[1:], "float32")
    order = np.random.default_rng(0).permutation(len(rows))  # the same split each time
    x, y = rows[order, :-1], rows[order, -1].astype("int32")
    x = (x - x[:400].mean(0)) / x[:400].std(0)
    return Data(train=(x[:400], y[:400]), validation=(x[400:500], y[400:500]))  # the rest is a test set, kept back


def compile(model):
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])


def score(model, data):
    loss, accuracy = model.evaluate(*data.validation, verbose=0)
    return {"val_accuracy": accuracy, "val_loss": loss}
