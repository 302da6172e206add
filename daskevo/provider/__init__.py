"""Providers: they own shards, store tensors, answer messages and run background work such as audits."""
