"""The coordinator of a repository on Dask's scheduler: shard owners, live attempts, the root's lease."""

from __future__ import annotations

from daskevo_plugins.coordinator.plugin import CoordinatorPlugin

__all__ = ["CoordinatorPlugin"]
