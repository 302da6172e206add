"""CANDLE ATTN itself: drug response from 6,212 features of tumour cell lines and drugs. Paper 000's problem.

The data (4 GB) are ``top_21_1fold_001.h5`` of the CANDLE benchmarks, Pilot1/Attn; reading them takes the package
``tables``. Tables ``x_train_0`` and ``x_train_1`` (features side by side), ``y_train`` with a column ``AUC`` of 0 and
1, and the same for ``val``. Without a file, a made sample of the same shape stands in: its labels come from a few
features through a fixed random network, so that there is something to learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.space import Space
from daskevo_workflows.problems.attn_space import AttnShape
from daskevo_workflows.problems.classification import Classification, log_loss, predict, roc_auc
from daskevo_workflows.problems.protocol import Data

if TYPE_CHECKING:
    import keras

FEATURES = 6212


class Attn(Classification):
    """Response or not, two classes, 3.6 % positive.

    Parameters
    ----------
    path:
        The HDF5 file; None = the made sample.
    samples:
        Size of the made sample, four fifths of it to train.
    widths, blocks, trunk:
        Of the space; the defaults are those of DeepHyper's released code, 1.5e19 candidates.
    epochs, batch_size:
        Of one evaluation; as in paper 000.
    """

    name = "attn"
    objective = "max val_auc"

    def __init__(
        self,
        path: str | None = None,
        samples: int = 4_000,
        features: int = FEATURES,
        widths: tuple[int, ...] = tuple(range(50, 1976, 25)),
        blocks: int = 1,
        trunk: int = 1,
        epochs: int = 1,
        batch_size: int = 32,
    ) -> None:
        if samples < 100 or features < 20:
            raise InvalidInput(f"samples={samples}, features={features}: use 100 samples and 20 features or more")
        self.path = path
        self.samples = samples
        self.features = features
        self.shape = AttnShape({"x": features}, widths=tuple(widths), blocks=blocks, trunk=trunk)
        self.epochs = epochs
        self.batch_size = batch_size

    def space(self) -> Space:
        return self.shape.space("attn")

    def build(self, choices: Mapping[str, Any]) -> keras.Model:
        return self.shape.build(choices)

    def data(self) -> Data:
        if self.path is None:
            return made_sample(self.samples, self.features)
        return _read(self.path, self.features)

    def score(self, model: Any, data: Data) -> Mapping[str, float]:
        x, y = data.validation
        probabilities = predict(model, x)
        return {"val_auc": roc_auc(y, probabilities[:, 1]), "val_loss": log_loss(y, probabilities)}


@lru_cache(maxsize=1)
def made_sample(samples: int, features: int = FEATURES) -> Data:
    """Return a sample of ATTN's shape, the same at each call: 3.6 % positive."""
    rng = np.random.default_rng(6212)
    # A few factors behind all features, as with expression of genes, so that few samples suffice to learn something.
    factors = rng.standard_normal((samples, 8), dtype=np.float32)
    x = factors @ rng.standard_normal((8, features), dtype=np.float32) * np.float32(0.3)
    x += rng.standard_normal((samples, features), dtype=np.float32)
    response = np.tanh(factors @ rng.standard_normal((8, 8))) @ rng.standard_normal(8)
    response += 0.3 * rng.standard_normal(samples)
    y = (response > np.quantile(response, 1 - 0.036)).astype(np.int32)
    train = samples * 4 // 5
    return Data(train=(x[:train], y[:train]), validation=(x[train:], y[train:]))


def _read(path: str, features: int) -> Data:
    return Data(train=read_part(Path(path), "train", features), validation=read_part(Path(path), "val", features))


def read_part(path: Path, part: str, features: int = FEATURES) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return ``x`` (n, features) float32 and ``y`` (n,) int32 of one part (``train``, ``val`` or ``test``) of the file.

    Raises
    ------
    InvalidProblem
        If the file isn't there, is something else, or the package `tables` is missing.
    """
    try:
        import pandas as pd

        halves = [pd.read_hdf(path, f"x_{part}_{half}").to_numpy(dtype=np.float32) for half in (0, 1)]
        y = pd.read_hdf(path, f"y_{part}")["AUC"].to_numpy(dtype=np.int32)
    except (ImportError, OSError, KeyError, ValueError, TypeError) as error:
        raise InvalidProblem(
            f"{path} can't be read as CANDLE's ATTN data ({type(error).__name__}: {error}). It takes "
            "top_21_1fold_001.h5 of the CANDLE benchmarks (Pilot1/Attn), and the packages pandas and tables",
            path=str(path),
        ) from error
    x = np.concatenate(halves, axis=1)
    if x.shape != (len(y), features) or not np.isin(y, (0, 1)).all():
        raise InvalidProblem(
            f"{path} holds {x.shape} features for {len(y)} labels; expected {features} features and labels 0 or 1",
            path=str(path),
        )
    return x, y
