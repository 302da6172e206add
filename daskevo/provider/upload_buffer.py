"""Receive buffer for tensors that writers send to a provider before their put, with its memory limit."""

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
from daskevo.wire.tensor_framing import ReceiveBuffer

Key = tuple[int, ModelId, Attempt]
"""A shard, a model and the attempt that will put it there."""

STALLED_S = 10.0
"""Longest time that a writer waits for memory while no transfer that holds some makes progress, in seconds."""
UNLIMITED_BUDGET = MemoryBudget(kept=0, shared=256 << 20, leaving=192 << 20)
"""Budget of a process that is no provider and only inspects a repository."""


class UploadBuffers:
    """Tensors that writers are sending to a provider, by shard and attempt of the coming put.

    A writer reserves memory for a whole put, messages in flight included, before it sends the first one.

    Parameters
    ----------
    tensors:
        The provider's tensors, whose cache in memory shrinks for arriving ones.
    budget:
        Memory limits of both.
    """

    def __init__(self, tensors: Tensors, budget: MemoryBudget = UNLIMITED_BUDGET) -> None:
        self._tensors = tensors
        self._kept = budget.kept
        self.memory = TransferMemory(budget.shared)
        self._buffers: dict[Key, ReceiveBuffer] = {}
        self._changed = asyncio.Event()

    @property
    def limit_bytes(self) -> int:
        """Most memory of all arriving tensors, in bytes."""
        return self.memory.limit_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes that are in use, or reserved for tensors in flight."""
        return self.memory.held_bytes

    def of(self, shard: int, model_id: ModelId, attempt: Attempt) -> ReceiveBuffer | None:
        """Return the tensors of an attempt that have arrived so far."""
        return self._buffers.get((shard, model_id, attempt))

    async def reserve(self, shard: int, model_id: ModelId, attempt: Attempt, nbytes: int, patience_s: float) -> bool:
        """Reserve memory for the `nbytes` bytes of a put, or return False: its writer waits and asks again.

        Parameters
        ----------
        patience_s:
            Longest time until the answer, in seconds.

        Raises
        ------
        ProviderFull
            If the put is larger than the limit, or the transfers that hold the memory make no progress for `STALLED_S`.
        RootUnusable
            If tensors had to be written to disk to free memory, and could not be.
        """
        key = shard, model_id, attempt
        needed = memory_for(nbytes)
        until = time.monotonic() + patience_s
        while not self.memory.ask(key, needed, now := time.monotonic()):
            left = STALLED_S - self.memory.waits_in_vain_s(key, now)
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
        # Asking may have ended transfers that were silent for too long: free the memory that they received into.
        for other in [other for other in self._buffers if not self.memory.bytes_of(other)]:
            del self._buffers[other]
        # Before the writer is told to send: the cache must have shrunk when the bytes arrive.
        self._share_out()
        try:
            await asyncio.to_thread(self._tensors.shrink)
        except RootUnusable:
            self.forget(*key)
            raise
        return True

    def _share_out(self) -> None:
        self._tensors.allow(max(min(self._kept, self.limit_bytes - self.memory_bytes), 0))

    async def write(
        self,
        shard: int,
        model_id: ModelId,
        attempt: Attempt,
        specs: Mapping[int, TensorSpec],
        parts: Sequence[Sequence[int]],
        frames: Sequence[Any],
    ) -> bool:
        """Receive the bytes of a message.

        Returns
        -------
        False if no memory is reserved for the put (any more): nothing was changed.

        Raises
        ------
        CorruptRecord
            If the bytes don't belong to these tensors, or the tensors are larger than the reserved memory.
        """
        key = shard, model_id, attempt
        if not self.memory.bytes_of(key):
            return False
        buffer = self.of(*key)
        # Other specs: the writer began again with other tensors under the same attempt.
        if buffer is None or buffer.specs != specs:
            if memory_for(sum(spec.nbytes for spec in specs.values())) > self.memory.bytes_of(key):
                raise CorruptRecord(f"the tensors of {model_id!r} are others than its writer made room for")
            buffer = self._buffers[key] = ReceiveBuffer(specs)
        self.memory.touch(key, time.monotonic())
        await asyncio.to_thread(buffer.write, parts, frames)
        return True

    def forget(self, shard: int, model_id: ModelId, attempt: Attempt) -> None:
        """Free the memory of an attempt."""
        key = shard, model_id, attempt
        self._buffers.pop(key, None)
        if self.memory.give_back(key, time.monotonic()):
            self._share_out()
            self._changed.set()

    def forget_shard(self, shard: int) -> None:
        """Free the memory of all attempts of a shard that moves to another provider."""
        for key in [key for key in self._buffers if key[0] == shard]:
            self.forget(*key)
        if self.memory.give_back_all(lambda key: isinstance(key, tuple) and key[0] == shard, time.monotonic()):
            self._share_out()
            self._changed.set()


def memory_for(nbytes: int) -> int:
    """Return the memory that a put of `nbytes` bytes needs while it arrives: its tensors and the messages in flight."""
    return nbytes + min(nbytes, tensor_framing.IN_FLIGHT * tensor_framing.MESSAGE_BYTES)
