"""Find installed plugin classes by entry point, so that the library does not import the plugin package."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from daskevo.errors import NotDeployed


def plugin_class(name: str) -> Any:
    """Return a plugin class by its entry point in the group ``daskevo.plugins``: the library imports nothing upwards.

    Raises
    ------
    NotDeployed
        If the package isn't installed whole.
    """
    found = entry_points(group="daskevo.plugins", name=name)
    if not found:
        raise NotDeployed(f"no plugin {name!r} is installed here: install daskevo with pip, also from a source tree")
    return next(iter(found)).load()
