"""Building models for their graph alone: shapes without weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from daskevo.models.keras_private import can_do_without_values, without_values


@contextlib.contextmanager
def shape_only() -> Iterator[None]:
    """Build models without giving their weights values: no memory, no time for initializers.

    Such a model can be flattened or rebuilt, and nothing else. Under a version of Keras without the scope that this
    needs, models are built in full, which gives the same graph.

    Examples
    --------
    >>> import keras
    >>> from daskevo.models import flatten, shape_only
    >>> with shape_only():
    ...     model = keras.Sequential([keras.Input((1_000_000,)), keras.layers.Dense(1_000_000)])
    >>> flatten(model).graph.nbytes
    4000004000000
    """
    if can_do_without_values():
        with without_values():
            yield
    else:
        yield
