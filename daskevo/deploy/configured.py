"""Times and resources from Dask's configuration, which is read at each use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import dask
from dask.utils import parse_timedelta

from daskevo.deploy.roles import EVALUATION, PROVIDER
from daskevo.errors import InvalidInput

RESOURCES = "daskevo.resources"
"""Key of the resources that an evaluation needs of its trainer in addition to its slot."""


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


def claims() -> dict[str, float]:
    """Return the resources that an evaluation needs of its trainer: a slot, and those in the configuration.

    Raises
    ------
    InvalidInput
        If what is configured is no resources.
    """
    return {EVALUATION: 1, **read_resources(dask.config.get(RESOURCES, None), f"{RESOURCES} in Dask's configuration")}


def read_resources(value: Any, what: str) -> dict[str, float]:
    """Parse resources, given in the form of `dask worker --resources` or as a mapping.

    Parameters
    ----------
    what:
        Where they were given, for an error.

    Raises
    ------
    InvalidInput
        If they can't be read, or name those that tell trainers and providers apart.

    Examples
    --------
    >>> read_resources("GPU=1 licence=0.5", "x"), read_resources({"GPU": 2}, "x"), read_resources(None, "x")
    ({'GPU': 1.0, 'licence': 0.5}, {'GPU': 2.0}, {})
    """
    try:
        pairs = value.items() if isinstance(value, Mapping) else [word.split("=") for word in (value or "").split()]
        found = {str(name): float(amount) for name, amount in pairs}
    except (AttributeError, TypeError, ValueError):
        # Fails the check below, which has the message for all that is wrong.
        found = {"": 0.0}
    good = all(name and 0 < amount < math.inf for name, amount in found.items())
    if not good or not found.keys().isdisjoint({EVALUATION, PROVIDER}):
        raise InvalidInput(
            f"{what} is {value!r:.100}: give names and amounts above 0, such as 'GPU=1', of resources that workers "
            f"were started with; {EVALUATION!r} and {PROVIDER!r} are daskevo's own"
        )
    return found
