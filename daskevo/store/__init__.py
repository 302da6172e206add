"""Storage of tensors and records: segment files, journals, shard folders, the root with its lease, memory tiers."""
