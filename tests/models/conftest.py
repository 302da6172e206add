"""Fixtures of the Keras tests: one seed, and the usual dtype policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    import keras

    keras.utils.set_random_seed(7)
    yield
    keras.config.set_dtype_policy("float32")
