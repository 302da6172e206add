"""The catalogue: which of a provider's models shares the longest prefix with a graph."""

from __future__ import annotations

from daskevo.catalogue.index import Match, PrefixIndex, Query

__all__ = ["Match", "PrefixIndex", "Query"]
