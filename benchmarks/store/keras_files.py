"""Keras' own files as rivals of `python -m benchmarks.store`: ``.weights.h5`` and ``.keras``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.store.rivals import Arrays, Rival, sync
from daskevo_workflows.evaluation.quiet_import import import_keras


@lru_cache(maxsize=1)
def _model(width: int, layers: int) -> Any:
    import_keras()
    import keras

    return keras.Sequential([keras.Input((width,)), *(keras.layers.Dense(width) for _ in range(layers))])


def keras_rivals(width: int, layers: int) -> list[Rival]:
    """Return the rivals, for a chain of Dense layers whose tensors are kernel and bias of each in turn.

    They keep Keras models: what they write are a model's own values, as many as the tensors that they are given. They
    have no partial reads.
    """

    def weights(folder: Path, tensors: Arrays, synced: bool) -> None:
        _model(width, layers).save_weights(folder / "model.weights.h5")
        if synced:
            sync(folder / "model.weights.h5")
            sync(folder)

    def whole(folder: Path, tensors: Arrays, synced: bool) -> None:
        _model(width, layers).save(folder / "model.keras")
        if synced:
            sync(folder / "model.keras")
            sync(folder)

    def load_weights(folder: Path, numbers: Iterable[int]) -> Arrays:
        _model(width, layers).load_weights(folder / "model.weights.h5")
        return {}

    def load_whole(folder: Path, numbers: Iterable[int]) -> Arrays:
        import_keras()
        import keras

        keras.saving.load_model(folder / "model.keras")
        return {}

    return [Rival(".weights.h5", weights, load_weights), Rival(".keras", whole, load_whole)]
