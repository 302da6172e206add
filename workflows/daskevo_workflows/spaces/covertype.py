"""Forest cover types by DenseSkip networks: ten dense layers that may be skipped, with skip connections.

The space of Egele, Balaprakash, Guyon, Vishwanath, Xia, Stevens and Liu, "AgEBO-Tabular: Joint Neural Architecture and
Hyperparameter Search with Autotuned Data-Parallel Training for Tabular Data", SC 2021, called DenseSkip in DeepHyper:
54 features, 7 classes, ten variable nodes (Identity, or Dense of 16..96 step 16 with one of five activations: 31
options), each followed by skip connections from the last three anchors. It is one block of
:class:`~daskevo_workflows.problems.attn_space.AttnShape` (paper 000, section 5.1) with ten layers: 37 choices,
31**10 * 2**27 = 1.1e23 candidates.

Data: Blackard's Covertype (581,012 samples, UCI), which scikit-learn downloads. A made sample of the same shape stands
in where nothing else is said: its labels come from a few features through a fixed random network.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.space import Space
from daskevo_workflows.problems.attn_space import AttnShape
from daskevo_workflows.problems.cache import Arrays, cached
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.protocol import Data

FEATURES, CLASSES = 54, 7
MEASURED = 10
"""Features that are measured, in front; the others say which area and soil by 0 and 1."""


class Covertype(Classification):
    """Which of seven types of forest grows there?

    Parameters
    ----------
    source:
        ``made``, or ``sklearn``, which downloads the data once (11 MB).
    samples:
        Drawn, four fifths of them to train.
    layers, widths:
        Of the space.
    epochs, batch_size:
        Of one evaluation.
    """

    name = "covertype"
    objective = "max val_accuracy"

    def __init__(
        self,
        source: Literal["made", "sklearn"] = "made",
        samples: int = 10_000,
        layers: int = 10,
        widths: tuple[int, ...] = tuple(range(16, 97, 16)),
        epochs: int = 1,
        batch_size: int = 256,
    ) -> None:
        if source not in ("made", "sklearn"):
            raise InvalidInput(f"source={source!r:.40}: use 'made' or 'sklearn'")
        if not 100 <= samples <= 581_012:
            raise InvalidInput(f"samples={samples}: use 100 to 581012")
        self.source = source
        self.samples = samples
        self.shape = AttnShape({"x": FEATURES}, classes=CLASSES, widths=tuple(widths), blocks=1, trunk=0, layers=layers)
        self.epochs = epochs
        self.batch_size = batch_size

    def space(self) -> Space:
        return self.shape.space("covertype")

    def build(self, choices: Mapping[str, Any]) -> Any:
        return self.shape.build(choices)

    def data(self) -> Data:
        return _data(self.source, self.samples)


@lru_cache(maxsize=1)
def _data(source: str, samples: int) -> Data:
    if source == "made":
        arrays = made_sample(samples)
    else:
        arrays = cached("covertype", {"samples": samples}, lambda: _downloaded(samples))
    x, y = arrays["x"], arrays["y"]
    # Both are in random order, so that a cut is a fair split.
    train = samples * 4 // 5
    return Data(train=(x[:train], y[:train]), validation=(x[train:], y[train:]))


def made_sample(samples: int) -> Arrays:
    """Return a sample of Covertype's shape, the same at each call: ``x`` (n, 54) float32, ``y`` (n,) int32 below 7."""
    rng = np.random.default_rng(FEATURES)
    x = rng.standard_normal((samples, FEATURES), dtype=np.float32)
    # One of four areas and one of forty soils, as in the data.
    x[:, MEASURED:] = 0
    x[np.arange(samples), MEASURED + rng.integers(4, size=samples)] = 1
    x[np.arange(samples), MEASURED + 4 + rng.integers(40, size=samples)] = 1
    hidden = np.tanh(x @ rng.standard_normal((FEATURES, 16), dtype=np.float32) * np.float32(0.6))
    # Two types are far more frequent than the rest, as in the data.
    scores = hidden @ rng.standard_normal((16, CLASSES)) + np.array([1.5, 2.0, 0, -2, -1, 0, 0])
    return {"x": x, "y": scores.argmax(axis=1).astype(np.int32)}


def prepare(x: Any, y: Any, samples: int) -> Arrays:
    """Draw and scale what scikit-learn returns: measured features to mean 0 and deviation 1, classes from 0.

    Parameters
    ----------
    x, y:
        # (n, 54) and (n,), classes from 1
    """
    x, y = np.asarray(x, np.float32), np.asarray(y)
    if x.ndim != 2 or x.shape[1] != FEATURES or len(x) != len(y) or not np.isin(y, range(1, CLASSES + 1)).all():
        raise InvalidProblem(f"expected {FEATURES} features and classes 1 to {CLASSES} of Covertype, found {x.shape}")
    drawn = np.random.default_rng(0).permutation(len(x))[:samples]
    x, y = x[drawn], y[drawn].astype(np.int32) - 1
    measured = x[:, :MEASURED]
    # In a small sample a feature may be the same everywhere: its deviation is 0.
    x[:, :MEASURED] = (measured - measured.mean(axis=0)) / np.maximum(measured.std(axis=0), 1e-6)
    return {"x": x, "y": y}


def _downloaded(samples: int) -> Arrays:
    try:
        from sklearn.datasets import fetch_covtype

        x, y = fetch_covtype(return_X_y=True)
    except (ImportError, OSError) as error:
        raise InvalidProblem(
            f"Covertype comes with scikit-learn and a download ({type(error).__name__}: {error}); "
            "source='made' needs neither"
        ) from error
    return prepare(x, y, samples)
