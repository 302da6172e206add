"""Quota of a repository: a limit of the bytes of all its tensors, divided over the shards.

A provider may fill the share of the shards that it serves, without asking others; all shares add up to the quota.
Counted are the files of tensors that records name (in a repository in memory, the tensors, spilled or not). Journals
are not counted; they take some kilobytes per model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daskevo.client.quota_folder import check_quota
from daskevo.types import ModelId


class Quota:
    """One provider's share of the quota.

    Parameters
    ----------
    quota_bytes:
        Quota of the whole repository; None: no quota.
    shards:
        Number of shards of the repository.
    served:
        Returns the number of shards that this provider serves.
    stored_bytes:
        Returns the bytes of their tensors.
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

    def remaining(self) -> list[int] | None:
        """Return ``[bytes that may be stored here, this provider's share]``; None without a quota."""
        if self.quota_bytes is None:
            return None
        # Rounded down, so that all shares together never exceed the quota.
        share = self.quota_bytes * self._served() // self._shards
        return [max(share - self._stored_bytes() - self._claimed, 0), share]

    def check(self, shard: int, folder: str | os.PathLike[str], model_id: ModelId, nbytes: int) -> None:
        """Check that `nbytes` more bytes may be stored; raise QuotaReached as `check_quota` does."""
        check_quota(shard, folder, model_id, nbytes, self.quota_bytes, self.remaining())

    @contextmanager
    def claimed(self, shard: int, folder: str | os.PathLike[str], model_id: ModelId, nbytes: int) -> Iterator[None]:
        """Claim bytes of the share while the block stores them; raise QuotaReached as `check` does.

        Without the claim, several puts that are stored concurrently in threads could exceed the quota together.
        """
        self.check(shard, folder, model_id, nbytes)
        self._claimed += nbytes
        try:
            yield
        finally:
            self._claimed -= nbytes
