"""The catalogue: which of a provider's models shares the longest prefix with a graph."""

from __future__ import annotations

from daskevo.catalogue.index import PrefixIndex
from daskevo.catalogue.questions import Entry, Match, Query, pack_edges

__all__ = ["Entry", "Match", "PrefixIndex", "Query", "pack_edges"]
