"""The first step, the repository's part of an evaluation, a search's overhead beyond training."""

from __future__ import annotations

from benchmarks.nas.measure import measure

__all__ = ["measure"]
