"""Modules whose examples need an optional package aren't collected where it isn't installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ConfigSpace") else ["daskevo/space/configurations.py"]
