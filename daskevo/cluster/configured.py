"""Times that Dask's configuration may set, read whenever they are used."""

from __future__ import annotations

import dask
from dask.utils import parse_timedelta


def seconds(key: str, default_s: float) -> float:
    """Return the seconds that are configured under a key (with a unit, such as "30s"), or else the default."""
    configured = dask.config.get(key, None)
    return default_s if configured is None else float(parse_timedelta(configured))
