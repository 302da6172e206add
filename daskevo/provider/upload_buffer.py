"""Tensors that writers send to a provider before their put, and the memory that they take until then."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.deploy.settings import MemoryBudget
from daskevo.errors import CorruptRecord, ProviderFull, RootUnusable
from daskevo.provider.transfer_memory import TransferMemory
from daskevo.store.tiers import Tensors
from daskevo.types import Attempt, ModelId, TensorSpec
from daskevo.wire import tensor_framing
from daskevo.wire.tensor_framing import Landing

Key = tuple[int, ModelId, Attempt]
"""A shard, and the attempt that will put a model there."""

ROOM_S = 10.0
"""Longest that a writer waits for room while none of those that have it goes on."""
UNLIMITED_BUDGET = MemoryBudget(kept=0, shared=256 << 20, leaving=192 << 20)
"""Of a process that is no provider, and looks at a repository only."""


class Landings:
    """What writers are sending to a provider, by the shard and the attempt that will put it.

    A writer makes room for a whole put, the messages on their way too, before it sends the first of them.

    Parameters
    ----------
    tensors:
        The provider's: what they keep in memory makes place for what comes.
    budget:
        What both may take.
    """

    def __init__(self, tensors: Tensors, budget: MemoryBudget = UNLIMITED_BUDGET) -> None:
        self._tensors = tensors
        self._kept = budget.kept
        self.room = TransferMemory(budget.shared)
        self._landings: dict[Key, Landing] = {}
        self._changed = asyncio.Event()

    @property
    def limit_bytes(self) -> int:
        """Most memory that all of it may take."""
        return self.room.limit_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes that are taken, or kept for what is on its way."""
        return self.room.held_bytes

    def of(self, shard: int, model_id: ModelId, attempt: Attempt) -> Landing | None:
        """Return what has landed for an attempt so far."""
        return self._landings.get((shard, model_id, attempt))

    async def make_room(self, shard: int, model_id: ModelId, attempt: Attempt, nbytes: int, patience_s: float) -> bool:
        """Make room for a put's tensors of so many bytes, or say that its writer has to wait: it asks again.

        Parameters
        ----------
        patience_s:
            How long the answer may take.

        Raises
        ------
        ProviderFull
            If there is no room for so much, or others have it and have not gone on for long.
        RootUnusable
            If what is kept in memory had to make place, and can't be written.
        """
        key = shard, model_id, attempt
        needed = room_for(nbytes)
        until = time.monotonic() + patience_s
        while not self.room.ask(key, needed, now := time.monotonic()):
            left = ROOM_S - self.room.waits_in_vain_s(key, now)
            if needed > self.limit_bytes or left <= 0:
                self.forget(*key)
                raise ProviderFull(
                    f"{needed} bytes of {model_id!r}, with messages on their way, were to be sent to a provider that "
                    f"takes in {self.limit_bytes} at once, of which {self.memory_bytes} are taken. Give providers "
                    "more memory, or open the repository with a root that the writer's host sees: then it writes its "
                    "tensors there itself",
                    model_id=model_id,
                    needed_bytes=needed,
                    free_bytes=self.limit_bytes - self.memory_bytes,
                    limit_bytes=self.limit_bytes,
                )
            if now >= until:
                return False
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(until - now, left))
        for other in [other for other in self._landings if not self.room.bytes_of(other)]:
            del self._landings[other]
        self._share_out()
        try:
            await asyncio.to_thread(self._tensors.shrink)
        except RootUnusable:
            self.forget(*key)
            raise
        return True

    def _share_out(self) -> None:
        self._tensors.allow(max(min(self._kept, self.limit_bytes - self.memory_bytes), 0))

    async def land(
        self,
        shard: int,
        model_id: ModelId,
        attempt: Attempt,
        specs: Mapping[int, TensorSpec],
        parts: Sequence[Sequence[int]],
        frames: Sequence[Any],
    ) -> bool:
        """Take in a message's bytes.

        Returns
        -------
        False if its put has no room, or no longer: nothing was changed.

        Raises
        ------
        CorruptRecord
            If the bytes don't belong to these tensors, or these tensors take more than the room that was made.
        """
        key = shard, model_id, attempt
        if not self.room.bytes_of(key):
            return False
        landing = self.of(*key)
        if landing is None or landing.specs != specs:
            if room_for(sum(spec.nbytes for spec in specs.values())) > self.room.bytes_of(key):
                raise CorruptRecord(f"the tensors of {model_id!r} are others than its writer made room for")
            landing = self._landings[key] = Landing(specs)
        self.room.touch(key, time.monotonic())
        await asyncio.to_thread(landing.land, parts, frames)
        return True

    def forget(self, shard: int, model_id: ModelId, attempt: Attempt) -> None:
        """Give the memory of an attempt back."""
        key = shard, model_id, attempt
        self._landings.pop(key, None)
        if self.room.give_back(key, time.monotonic()):
            self._share_out()
            self._changed.set()

    def forget_shard(self, shard: int) -> None:
        """Give the memory of all attempts of a shard back: it is another provider's."""
        for key in [key for key in self._landings if key[0] == shard]:
            self.forget(*key)
        if self.room.give_back_all(lambda key: isinstance(key, tuple) and key[0] == shard, time.monotonic()):
            self._share_out()
            self._changed.set()


def room_for(nbytes: int) -> int:
    """Return how much memory a put of so many bytes takes while it arrives: its tensors, and messages on their way."""
    return nbytes + min(nbytes, tensor_framing.IN_FLIGHT * tensor_framing.MESSAGE_BYTES)
