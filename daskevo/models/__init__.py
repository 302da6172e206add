"""Keras models: flatten, rebuild, read and write tensors, freeze. The only room that imports Keras."""

from __future__ import annotations

from daskevo.models.flat import FlatModel
from daskevo.models.flatten import flatten

__all__ = ["FlatModel", "flatten"]
