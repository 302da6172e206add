"""Quota check of writers that write segment files themselves: no file larger than what the provider has left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from daskevo.errors import QuotaReached
from daskevo.store.files import free_bytes
from daskevo.store.root import Root
from daskevo.store.segment import Segment
from daskevo.store.shard_segments import ShardSegments
from daskevo.types import JSON, Attempt, ModelId


def check_quota(
    shard: int, folder: str | os.PathLike[str], model_id: ModelId, nbytes: int, quota: Any, remaining: list[int] | None
) -> None:
    """Check that `nbytes` more bytes may be stored.

    Parameters
    ----------
    remaining:
        Answer of `Quota.remaining`.

    Raises
    ------
    QuotaReached
        If they exceed the rest of the provider's share.
    """
    if remaining is None or nbytes <= remaining[0]:
        return
    raise QuotaReached(
        f"{model_id!r} needs {nbytes} bytes in {os.fspath(folder)} (shard {shard}), and of the repository's quota of "
        f"{quota} bytes the provider of that shard has {remaining[0]} of {remaining[1]} left: retire models, or open "
        "the repository on another cluster with a larger quota; what was stored before is kept",
        model_id=model_id,
        shard=shard,
        folder=os.fspath(folder),
        needed_bytes=nbytes,
        free_bytes=remaining[0],
        share_bytes=remaining[1],
        quota_bytes=quota,
        disk_free_bytes=free_bytes(folder),
        errno=None,
    )


class LimitedFolder(ShardSegments):
    """Segment files of a shard, written by a process other than its provider, within the quota.

    The provider checks again when it adopts a file: several writers may have got the same answer, and together exceed
    the quota.

    Parameters
    ----------
    root:
        The repository's root, as opened by this process.
    number:
        Number of the shard.
    remaining:
        Answer of `Quota.remaining`.
    quota_bytes:
        Quota of the repository.
    """

    def __init__(self, root: Root, number: int, remaining: list[int], quota_bytes: int | None) -> None:
        super().__init__(root.path, number, durability=root.durability)
        self._remaining = remaining
        self._quota_bytes = quota_bytes

    def write_segment(
        self,
        model_id: ModelId,
        attempt: Attempt,
        tensors: Mapping[int, Any],
        meta: JSON = None,
        known: Mapping[int, str] | None = None,
    ) -> Segment:
        """Write a segment as `ShardSegments` does, or raise QuotaReached before anything is written."""
        nbytes = sum(array.nbytes for array in tensors.values())
        check_quota(self.number, self.path, model_id, nbytes, self._quota_bytes, self._remaining)
        return super().write_segment(model_id, attempt, tensors, meta, known)
