"""The home shard of a model: a static hash of its id (paper 000, section 4.1)."""

from __future__ import annotations

from hashlib import blake2b

from daskevo.types import ModelId


def shard_of(model_id: ModelId, shards: int) -> int:
    """Return the number of a model's home shard, 0 to `shards` - 1. It must never change: existing roots depend on it.

    Examples
    --------
    >>> shard_of(ModelId("attn-00042"), 64)
    33
    """
    return int.from_bytes(blake2b(model_id.encode(), digest_size=8).digest(), "little") % shards
