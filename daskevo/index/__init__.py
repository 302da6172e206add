"""The prefix index: which of a provider's models shares the longest prefix with a graph."""

from __future__ import annotations

from daskevo.index.prefix_index import PrefixIndex
from daskevo.index.query import Entry, PrefixMatch, Query, pack_edges

__all__ = ["Entry", "PrefixIndex", "PrefixMatch", "Query", "pack_edges"]
