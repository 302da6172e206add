"""Tensors and records on disk and in memory: segments, journals, shard folders, the root and its lease, tiers."""
