"""Fitting a Keras model with less of what comes before its first step: the same weights, bit for bit, sooner."""

from __future__ import annotations

from daskevo_workflows.fitting.fit import fast_fit, obstacle
from daskevo_workflows.fitting.fused import fused_updates
from daskevo_workflows.fitting.metrics import build_metrics
from daskevo_workflows.fitting.validation import validation_options, wants_validation, watched_in_vain

__all__ = [
    "build_metrics",
    "fast_fit",
    "fused_updates",
    "obstacle",
    "validation_options",
    "wants_validation",
    "watched_in_vain",
]
