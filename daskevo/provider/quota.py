"""A repository's quota: what all its tensors may take on disk, shared out over the shards.

A provider may fill the share of the shards that it serves, so that nobody need ask the others, and all shares together
are the quota. Counted are the files of tensors that records name (of a repository in memory, its tensors, wherever they
are); journals, some kilobytes per model, come on top.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daskevo.client.quota_folder import quota_reached
from daskevo.types import ModelId


class Quota:
    """One provider's share of the quota.

    Parameters
    ----------
    quota_bytes:
        Of the whole repository; None: no quota.
    shards:
        How many the repository has.
    served:
        Returns how many of them this provider serves.
    stored_bytes:
        Returns what their tensors take.
    """

    def __init__(
        self,
        quota_bytes: int | None,
        shards: int,
        served: Callable[[], int],
        stored_bytes: Callable[[], int],
    ) -> None:
        self.quota_bytes = quota_bytes
        self._shards = shards
        self._served = served
        self._stored_bytes = stored_bytes
        self._claimed = 0

    def room(self) -> list[int] | None:
        """Return ``[bytes that may be stored here, this provider's share]``; None without a quota."""
        if self.quota_bytes is None:
            return None
        share = self.quota_bytes * self._served() // self._shards
        return [max(share - self._stored_bytes() - self._claimed, 0), share]

    def check(self, shard: int, folder: str | os.PathLike[str], model_id: ModelId, nbytes: int) -> None:
        """Make sure that so many bytes may be stored.

        Raises
        ------
        QuotaReached
            If they may not.
        """
        room = self.room()
        if room is not None and nbytes > room[0]:
            raise quota_reached(shard, folder, model_id, nbytes, self.quota_bytes, room)

    @contextmanager
    def claimed(self, shard: int, folder: str | os.PathLike[str], model_id: ModelId, nbytes: int) -> Iterator[None]:
        """Keep others from so many bytes while the block stores them; raises as `check` does."""
        self.check(shard, folder, model_id, nbytes)
        self._claimed += nbytes
        try:
            yield
        finally:
            self._claimed -= nbytes
