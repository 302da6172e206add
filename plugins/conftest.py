"""Modules that need an optional package aren't collected for doctests where it isn't installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("deephyper") else ["daskevo_plugins/deephyper"]
