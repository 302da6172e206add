"""Fitting a Keras model with less of what comes before its first step: the same weights, bit for bit, sooner."""

from __future__ import annotations

from daskevo_workflows.fitting.fit import fast_fit, obstacle

__all__ = ["fast_fit", "obstacle"]
