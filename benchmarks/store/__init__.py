"""Puts and reads of models through a repository, beside files of others and memcpy."""

from __future__ import annotations

from benchmarks.store.measure import measure

__all__ = ["measure"]
