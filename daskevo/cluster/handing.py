"""The provider's side of moving tensors: what it hands out to readers, and what writers hand in before their put.

By reference within a process, by the name and ranges of a file to a neighbour, in messages to everybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daskevo.cluster.arriving import file_answer
from daskevo.cluster.pieces import Landing, Part, cut, frames
from daskevo.cluster.transport import Frames
from daskevo.errors import CorruptRecord, ProviderFull
from daskevo.ownership.codec import MAX_TENSORS
from daskevo.store.pack import raw
from daskevo.store.tiers import DurableTensors
from daskevo.types import Attempt, ModelId, TensorSpec

if TYPE_CHECKING:
    from daskevo.cluster.serving import ServedShard

FORGOTTEN_AFTER_S = 300.0
"""A writer that has sent nothing for so long has died, or sends all again when it puts."""
ROOM_S = 10.0
"""Longest that a writer waits until others' tensors are stored and their memory is free."""
LEAST_ROOM_BYTES = 256 << 20
"""However little memory a provider has, it takes in so much at once: several messages."""


async def hand_out(
    served: ServedShard, owner: ModelId, attempt: Attempt, numbers: Collection[int], *, near: bool, local: bool
) -> dict[str, Any]:
    """Return an answer with tensors of a published owner, or with where they are.

    Parameters
    ----------
    near:
        Whether the reader is on this host and sees the root.
    local:
        Whether it is this very process.

    Returns
    -------
    ``digests``, in the order of the numbers, and one of: ``file`` (see `daskevo.cluster.arriving.file_answer`);
    ``arrays``; ``parts`` and ``frames``, as much as one message takes: the reader asks for the rest.

    Raises
    ------
    CorruptRecord
        If the segment is damaged, or one of them is not there.
    """
    wanted = sorted(numbers)
    specs = served.own(owner, attempt)
    answer: dict[str, Any] = {"digests": [specs[number][1] if number in specs else "" for number in wanted]}
    if near and isinstance(served.tensors, DurableTensors):
        segment = await served.segment(owner, attempt, wanted)
        return answer | {"file": file_answer(segment, wanted)}
    if local:
        return answer | {"arrays": await served.read(owner, attempt, frozenset(wanted))}
    sizes = {number: specs[number][0].nbytes for number in wanted if number in specs}
    first = next(iter(cut(sizes)), [])
    parts = [part for part in first if part.stop - part.start == sizes[part.number]]
    return answer | {"parts": [list(part) for part in parts], **await hand_out_parts(served, owner, attempt, parts)}


async def hand_out_parts(
    served: ServedShard, owner: ModelId, attempt: Attempt, parts: Iterable[Sequence[int]]
) -> dict[str, Any]:
    """Return the bytes of parts of reserved tensors as ``frames``; whoever joins them compares the digests."""
    wanted = [Part(*part) for part in parts]
    specs = served.own(owner, attempt)
    whole = frozenset(
        part.number
        for part in wanted
        if part.number in specs and (part.start, part.stop) == (0, specs[part.number][0].nbytes)
    )
    arrays = await served.read(owner, attempt, whole)

    def read() -> list[Any]:
        return frames(
            wanted,
            lambda part: (
                raw(arrays[part.number])
                if part.number in arrays
                else served.tensors.range((owner, attempt, part.number), part.start, part.stop)
            ),
        )

    return {"frames": Frames(await served.reading(owner, read))}


class Landings:
    """What writers are sending to a provider, by the shard and the attempt that will put it.

    Parameters
    ----------
    limit_bytes:
        Most memory that all of it may take. A writer's first message says how much it will send, and takes the room for
        all of that: so writers that wait for room hold none of it.
    """

    def __init__(self, limit_bytes: int = LEAST_ROOM_BYTES) -> None:
        self.limit_bytes = max(limit_bytes, LEAST_ROOM_BYTES)
        self._landings: dict[tuple[int, ModelId, Attempt], tuple[Landing, float]] = {}
        self._freed = asyncio.Event()

    @property
    def memory_bytes(self) -> int:
        """Bytes that are taken."""
        return sum(landing.nbytes for landing, _ in self._landings.values())

    def of(self, shard: int, model_id: ModelId, attempt: Attempt) -> Landing | None:
        """Return what has landed for an attempt so far."""
        found = self._landings.get((shard, model_id, attempt))
        return None if found is None else found[0]

    async def land(
        self,
        shard: int,
        model_id: ModelId,
        attempt: Attempt,
        specs: Mapping[int, TensorSpec],
        parts: Sequence[Sequence[int]],
        frames: Sequence[Any],
    ) -> None:
        """Take in a message's bytes; the first one of an attempt makes room for all of its tensors.

        Raises
        ------
        ProviderFull
            If there is no room for so much, or none in time.
        CorruptRecord
            If the bytes don't belong to these tensors.
        """
        key = shard, model_id, attempt
        landing = self.of(*key)
        if landing is None or landing.specs != specs:
            self.forget(*key)
            await self._wait_for_room(model_id, sum(spec.nbytes for spec in specs.values()))
            # Of two first messages that waited for room together, one has made it.
            landing = self.of(*key)
            if landing is None or landing.specs != specs:
                landing = Landing(specs)
        self._landings[key] = landing, time.monotonic()
        await asyncio.to_thread(landing.land, parts, frames)

    async def _wait_for_room(self, model_id: ModelId, nbytes: int) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + ROOM_S
        while nbytes > self.limit_bytes - self._sweep():
            left = until - loop.time()
            if nbytes > self.limit_bytes or left <= 0:
                raise ProviderFull(
                    f"{nbytes} bytes of {model_id!r} were to be sent to a provider that takes in {self.limit_bytes} "
                    f"at once, of which {self.memory_bytes} are taken. Give providers more memory, or open the "
                    "repository with a root that the writer's host sees: then it writes its tensors there itself",
                    model_id=model_id,
                    needed_bytes=nbytes,
                    free_bytes=self.limit_bytes - self.memory_bytes,
                    limit_bytes=self.limit_bytes,
                )
            self._freed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), min(left, 1.0))

    def _sweep(self) -> int:
        """Forget what nobody sends any more; return the bytes that are taken after that."""
        now = time.monotonic()
        for key, (_, touched) in list(self._landings.items()):
            if now - touched > FORGOTTEN_AFTER_S:
                self.forget(*key)
        return self.memory_bytes

    def forget(self, shard: int, model_id: ModelId, attempt: Attempt) -> None:
        """Give the memory of an attempt back."""
        if self._landings.pop((shard, model_id, attempt), None) is not None:
            self._freed.set()

    def forget_shard(self, shard: int) -> None:
        """Give the memory of all attempts of a shard back: it is another provider's."""
        for key in [key for key in self._landings if key[0] == shard]:
            self.forget(*key)


def specs_to_wire(specs: Mapping[int, TensorSpec]) -> list[Any]:
    """Return specifications as a message carries them."""
    return [[number, *spec.to_json()] for number, spec in specs.items()]


def specs_from_wire(value: Sequence[Any]) -> dict[int, TensorSpec]:
    """Read what `specs_to_wire` made.

    Raises
    ------
    CorruptRecord
        If it is anything else.
    """
    specs = {}
    for item in value:
        match item:
            case [int() as number, [*shape], str() as dtype] if 0 <= number < MAX_TENSORS:
                specs[number] = TensorSpec.from_json([shape, dtype])
            case _:
                raise CorruptRecord(f"expected [number, shape, dtype], found {str(item)[:80]}")
    return specs
