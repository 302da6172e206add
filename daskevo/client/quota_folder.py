"""The part of a quota that a writer beside the provider keeps to: no file beyond what the provider said there is."""

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


def quota_reached(
    shard: int, folder: str | os.PathLike[str], model_id: ModelId, nbytes: int, quota: Any, room: list[int]
) -> QuotaReached:
    """Return the error for bytes that would go beyond the quota."""
    return QuotaReached(
        f"{model_id!r} needs {nbytes} bytes in {os.fspath(folder)} (shard {shard}), and of the repository's quota of "
        f"{quota} bytes the provider of that shard has {room[0]} of {room[1]} left: retire models, or open the "
        "repository on another cluster with a larger quota; what was stored before is kept",
        model_id=model_id,
        shard=shard,
        folder=os.fspath(folder),
        needed_bytes=nbytes,
        free_bytes=room[0],
        share_bytes=room[1],
        quota_bytes=quota,
        disk_free_bytes=free_bytes(folder),
        errno=None,
    )


class LimitedFolder(ShardSegments):
    """The segments of a shard that a writer beside its provider writes, no more than the provider has said.

    The provider looks again when it takes a file in: of several writers who ask at once, not all get the room.

    Parameters
    ----------
    root:
        Of the repository, as this process sees it.
    number:
        Of the shard.
    room:
        What `Quota.room` said just now.
    quota_bytes:
        Of the repository.
    """

    def __init__(self, root: Root, number: int, room: list[int], quota_bytes: int | None) -> None:
        super().__init__(root.path, number, durability=root.durability)
        self._room = room
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
        if nbytes > self._room[0]:
            raise quota_reached(self.number, self.path, model_id, nbytes, self._quota_bytes, self._room)
        return super().write_segment(model_id, attempt, tensors, meta, known)
