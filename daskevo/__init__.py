"""Neural architecture search with transfer learning on Dask: train no prefix twice."""

from __future__ import annotations
