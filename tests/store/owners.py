"""Owners of shard 1 for tests of its folder."""

from __future__ import annotations

from typing import Any

from daskevo.store.root import Root
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import read_shard


def served(root: Root, generation: int = 1, *events: Any) -> ShardFolder:
    """Open shard 1, serve what is there, append events."""
    folder = root.shard(1)
    folder.serve(folder.open(generation).records)
    for event in events:
        folder.append([event])
    return folder


def state_of(root: Root) -> list[Any]:
    """Return what the next owner would find; looks without opening."""
    return list(read_shard(root.path, 1))
