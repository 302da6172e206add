"""Seeds for one evaluation, out of reach of other threads."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import keras


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed everything that Keras draws from in this block: initial weights, shuffling, dropout.

    `keras.utils.set_random_seed` alone isn't enough in a Dask worker: Keras draws the seeds of its layers from Python's
    global generator, which the worker's other threads draw from as well (now and then a draw of theirs came in
    between, and the same seed gave other weights).

    Parameters
    ----------
    seed:
        0 to 2**32 - 1.
    """
    keras.utils.set_random_seed(seed)
    with apart(seed):
        yield


@contextlib.contextmanager
def apart(seed: int = 0) -> Iterator[None]:
    """Make layers in this block without drawing from the generator that the seeds of later ones come from."""
    module = _seed_module()
    if module is None:
        yield
        return
    shared = module.python_random
    module.python_random = random.Random(seed)
    try:
        yield
    finally:
        module.python_random = shared


def _seed_module() -> Any:
    """Return Keras' module with the generator of default seeds (private; None if this Keras has it elsewhere)."""
    try:
        from keras.src.random import seed_generator
    except ImportError:
        return None
    return seed_generator if hasattr(seed_generator, "python_random") else None
