"""`python -m benchmarks.prefix`: best-match queries over catalogues of models, daskevo's index against its rivals."""

from __future__ import annotations

from benchmarks.prefix.measure import CATALOGUES, SIZES, measure

__all__ = ["CATALOGUES", "SIZES", "measure"]
