"""Times that Dask's configuration may set, read whenever they are used."""

from __future__ import annotations

import math

import dask
from dask.utils import parse_timedelta

from daskevo.errors import InvalidInput


def seconds(key: str, default_s: float) -> float:
    """Return the seconds that are configured under a key (with a unit, such as "30s"), or else the default.

    Raises
    ------
    InvalidInput
        If what is configured is no time above 0.
    """
    configured = dask.config.get(key, None)
    if configured is None:
        return default_s
    try:
        found = float(parse_timedelta(configured))
    except (AttributeError, KeyError, TypeError, ValueError):
        found = math.nan
    if not 0 < found < math.inf:
        raise InvalidInput(
            f"{key} is {configured!r:.100} in Dask's configuration: use a time above 0 with a unit, such as '30s'"
        )
    return found
