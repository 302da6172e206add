"""Reports: one HTML file per run, or per pair of runs, readable offline."""

from __future__ import annotations
