"""Check and convert metrics and `extra`, which callers attach to models as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.codec import json_value
from daskevo.types import JSON


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, JSON]:
    """Return metrics as JSON: NumPy numbers become Python numbers, values that are not finite become None.

    Raises
    ------
    InvalidInput
        If a value is not JSON, or a name is not valid UTF-8 text.

    Examples
    --------
    >>> plain_metrics({"val_auc": np.float32(0.5), "loss": float("nan")})
    {'val_auc': 0.5, 'loss': None}
    """
    # Each value by itself first, so that an error names the metric; the names can only be checked as part of the whole.
    found = {str(name): _json(_plain(value, str(name)), f"the metric {name!r}") for name, value in metrics.items()}
    return _json(found, "the names of metrics")  # type: ignore[no-any-return]


def plain_extra(extra: JSON) -> JSON:
    """Return `extra` if it is JSON; raise InvalidInput otherwise."""
    return _json(extra, "what is attached as `extra`")


def _json(value: Any, what: str) -> JSON:
    try:
        return json_value(value)
    except CorruptRecord as error:
        raise InvalidInput(f"{what} must be JSON: {error.message}") from error


def _plain(value: Any, name: str) -> JSON:
    # Keras and NumPy give metrics as NumPy scalars or arrays without dimensions; records take plain JSON only.
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        # JSON has no nan and no infinity. A training that diverged keeps its other metrics.
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item, name) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item, name) for key, item in value.items()}
    raise InvalidInput(
        f"the metric {name!r} is a {type(value).__name__}: use numbers, text, lists and dicts", name=name
    )
