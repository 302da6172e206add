"""What a program has set in Dask's configuration, as the script of a job carries it to the workers of a node.

Files are read there as they are here. What was set in this process, or in its environment, is nowhere else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import dask

VARIABLE = "DASK_INTERNAL_INHERIT_CONFIG"
"""The environment variable in which Dask's own clusters hand their configuration on; what else is in a job's
environment goes before it."""

NOT_CARRIED = frozenset({"jobqueue", "config", "root-config", VARIABLE.removeprefix("DASK_").lower().replace("_", "-")})
"""What is about this process alone: how jobs are submitted, and where its configuration comes from."""

logger = logging.getLogger(__name__)


def export_line() -> str | None:
    """Return the line of a shell script that sets what was set here; None if nothing was."""
    chosen = chosen_here()
    return f"export {VARIABLE}={dask.config.serialize(chosen)}" if chosen else None


def chosen_here() -> dict[str, Any]:
    """Return the settings in which this process' configuration differs from what defaults and files say."""
    known: dict[str, Any] = {}
    # Dask has no record of what a program has set. So make what defaults and files give, without the environment, and
    # compare.
    for defaults in dask.config.defaults:
        dask.config.update(known, defaults)
    dask.config.update(known, dask.config.collect(env={}))
    chosen = _difference(dask.config.config, known, "")
    return {name: value for name, value in chosen.items() if name.replace("_", "-") not in NOT_CARRIED}


def _difference(now: Mapping[str, Any], known: Mapping[str, Any], above: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in now.items():
        # Dask takes `-` and `_` in names for the same.
        before = known.get(dask.config.canonical_name(name, known))
        if isinstance(value, Mapping):
            within = _difference(value, before if isinstance(before, Mapping) else {}, f"{above}{name}.")
            if within:
                found[name] = within
        elif value != before and _is_text(value, f"{above}{name}"):
            found[name] = value
    return found


def _is_text(value: Any, key: str) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        logger.warning("%.100s in Dask's configuration is %.100r, which the script of a job can't carry", key, value)
        return False
    return True
