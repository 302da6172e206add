"""Code shared by classification problems: compiling, predicting, accuracy, loss, area under the ROC curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from daskevo_workflows.problems.protocol import Data

Array = np.ndarray[Any, Any]


class Classification:
    """Compile with Adam and cross-entropy on whole-number labels; score accuracy and loss on the validation data."""

    learning_rate = 1e-3

    def compile(self, model: Any) -> None:
        import keras

        model.compile(
            optimizer=keras.optimizers.Adam(self.learning_rate),
            loss=keras.losses.SparseCategoricalCrossentropy(),
            metrics=["accuracy"],
        )

    def score(self, model: Any, data: Data) -> Mapping[str, float]:
        x, y = data.validation
        probabilities = predict(model, x)
        return {"val_accuracy": accuracy(y, probabilities), "val_loss": log_loss(y, probabilities)}


def predict(model: Any, x: Any, batch_size: int = 4096) -> Array:
    """Return the model's outputs, called eagerly, because for a small model tracing `predict` takes longer.

    Returns
    -------
    Array
        # (n_samples, ...)
    """
    parts = x if isinstance(x, (list, tuple)) else [x]
    outputs = []
    for start in range(0, len(parts[0]), batch_size):
        batch = [part[start : start + batch_size] for part in parts]
        outputs.append(np.asarray(model(batch if isinstance(x, (list, tuple)) else batch[0], training=False)))
    return np.concatenate(outputs)


def accuracy(labels: Array, probabilities: Array) -> float:
    """Return the share of samples whose most likely class is correct; labels ``(n,)``, probabilities ``(n, classes)``.

    >>> accuracy(np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]]))
    0.5
    """
    return float(np.mean(probabilities.argmax(axis=1) == labels))


def log_loss(labels: Array, probabilities: Array) -> float:
    """Return the mean cross-entropy, probabilities kept 1e-7 away from 0 as Keras does.

    >>> round(log_loss(np.array([0]), np.array([[0.5, 0.5]])), 4)
    0.6931
    """
    right = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.mean(np.log(np.clip(right, 1e-7, 1 - 1e-7))))


def roc_auc(labels: Array, scores: Array) -> float:
    """Return the area under the ROC curve: the chance that a positive scores above a negative, ties counting half.

    NaN if there is a single class or a score is NaN, so that it never wins.

    >>> roc_auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
    0.75
    >>> roc_auc(np.array([0, 1]), np.array([0.5, 0.5]))
    0.5
    """
    positive = np.asarray(labels).astype(bool)
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives or np.isnan(scores).any():
        return float("nan")
    # Mann-Whitney: the mean rank of the positives, equal scores sharing their mean rank.
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))
