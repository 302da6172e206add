"""daskevo's part of Dask's configuration: defaults, a commented copy for users, unknown names, and logging.

Whatever is imported of `daskevo.deploy` has done this before: a process that uses no cluster needs none of it.
"""

from __future__ import annotations

import copy
import difflib
import logging
import multiprocessing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dask
import distributed.config  # noqa: F401 - sets up logging, which `share_logging` reads
import yaml

from daskevo.deploy.configured import RESOURCES

FILE = Path(__file__).parents[1] / "daskevo.yaml"
"""YAML file with every key, its default and its meaning."""

PACKAGES = ("daskevo", "daskevo_plugins", "daskevo_workflows")
"""Whose loggers one key of Dask's `logging` is about, the first."""

logger = logging.getLogger(__name__)

_told: set[str] = set()


def load() -> None:
    """Give Dask's configuration daskevo's defaults, below what a file, the environment or a program says.

    Where there is no `daskevo.yaml` in Dask's folder of configuration files yet, a copy is written, all of it commented
    out.
    """
    dask.config.ensure_file(source=str(FILE), comment=True)
    dask.config.update_defaults(defaults())
    share_logging()
    warn_of_unknown()


def defaults() -> dict[str, Any]:
    """Return the defaults in the YAML file."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def keys(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the dotted names of all values in a tree of settings, as Dask writes them.

    Examples
    --------
    >>> list(keys({"daskevo": {"timeout": 30, "batch": {"start_timeout": 1}}}))
    ['daskevo.timeout', 'daskevo.batch.start-timeout']
    """
    for name, value in tree.items():
        key = f"{above}{name}".replace("_", "-")
        if isinstance(value, Mapping) and value:
            yield from keys(value, f"{key}.")
        else:
            yield key


def unknown(tree: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the unknown names below `daskevo` in a configuration, each with the most similar known one.

    Examples
    --------
    >>> unknown({"daskevo": {"silent_after": "9s", "timeuot": "9s", "colour": "red"}, "dask": {"x": 1}})
    {'daskevo.timeuot': 'daskevo.timeout', 'daskevo.colour': None}
    """
    known = list(keys(defaults()))
    ours = {name: value for name, value in tree.items() if name == PACKAGES[0] and value}
    return {
        key: next(iter(difflib.get_close_matches(key, known, 1, 0.8)), None)
        for key in keys(ours)
        if key not in known and not key.startswith(f"{RESOURCES}.")
    }


def warn_of_unknown() -> None:
    """Log a warning for each unknown name below `daskevo`, once, and not again in child processes."""
    # Nannies start workers as child processes with the same configuration: each would repeat the warnings.
    if multiprocessing.parent_process() is not None:
        return
    for key, meant in unknown(dask.config.config).items():
        if key not in _told:
            _told.add(key)
            hint = f"did you mean {meant}?" if meant else f"these are known: {', '.join(keys(defaults()))}"
            logger.warning(
                "%.100s in Dask's configuration is not a setting of daskevo and has no effect; %s", key, hint
            )


def share_logging() -> None:
    """Let what Dask's `logging` says of `daskevo` hold for its other two packages, unless it names them, too.

    Only for Dask's short form, a level by logger's name: what is set up in Python's own way is complete.
    """
    section = dask.config.get("distributed", {})
    whole = section if {"logging", "logging-file-config"} & section.keys() else dask.config.config
    levels = whole.get("logging", {})
    if "logging-file-config" in whole or "version" in levels or PACKAGES[0] not in levels:
        return
    first = logging.getLogger(PACKAGES[0])
    for name in PACKAGES:
        one = logging.getLogger(name)
        source = one if name in levels else first
        one.setLevel(source.level)
        one.propagate = source.propagate
        # Copies: Dask has one handler for all loggers, and silences its log by that handler's level during a cluster.
        one.handlers = [copy.copy(handler) for handler in source.handlers]
