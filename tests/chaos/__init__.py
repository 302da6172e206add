"""Chaos: a search under random kills, stops, cut-offs and full disks, and what is left of it, recounted."""

from __future__ import annotations
