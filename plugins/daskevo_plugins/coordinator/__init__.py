"""The coordinator of a repository on Dask's scheduler: who serves which shard, which attempts live, who leads."""

from __future__ import annotations

from daskevo_plugins.coordinator.plugin import CoordinatorPlugin

__all__ = ["CoordinatorPlugin"]
