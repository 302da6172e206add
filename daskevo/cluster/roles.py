"""The two roles of Dask workers, told apart by their resources."""

from __future__ import annotations

PROVIDER = "provider"
"""Dask resource of workers that hold shards."""
EVALUATION = "evaluation"
"""Dask resource of workers that train; an evaluation takes 1."""
ENDS = "daskevo_ends"
"""Dask metric of workers that leave at a known moment: seconds since the epoch."""
