"""Benchmarks that come with daskevo: each measures a part and its rivals in the same run, on the same machine."""

from __future__ import annotations
