"""Tensors in messages: small ones joined, large ones sent as they lie in memory, very large ones cut; 48 MB a message.

Both sides know the tensors' shapes and dtypes from a record, so that a message carries bytes and says which they are.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskevo.errors import CorruptRecord
from daskevo.protocol.limits import MAX_TENSORS
from daskevo.store.digests import digests
from daskevo.store.pack import Array, aligned_empty, frozen, raw, round_up, view
from daskevo.types import TensorSpec

MESSAGE_BYTES = 48 << 20
"""About the most that one message carries: large enough for the bandwidth, small enough for memory and event loops."""
IN_FLIGHT = 2
"""Messages on their way at once: one is received while the next is sent."""
SMALL_BYTES = 128 << 10
"""Smaller tensors are joined: each frame of a message costs as much as copying so many bytes."""

Memory = np.ndarray[Any, np.dtype[np.uint8]]


class Part(NamedTuple):
    """Some bytes of one tensor."""

    number: int
    start: int
    stop: int


def cut(sizes: Mapping[int, int]) -> list[list[Part]]:
    """Share tensors out over messages.

    Parameters
    ----------
    sizes:
        Tensor number -> bytes, in the order in which they are sent.

    Returns
    -------
    For each message its parts. Only tensors above `MESSAGE_BYTES` are cut.

    Examples
    --------
    >>> cut({3: 10, 4: 0})
    [[Part(number=3, start=0, stop=10), Part(number=4, start=0, stop=0)]]
    """
    messages: list[list[Part]] = []
    room = 0
    for number, nbytes in sizes.items():
        for start in range(0, max(nbytes, 1), MESSAGE_BYTES):
            part = Part(number, start, min(nbytes, start + MESSAGE_BYTES))
            size = part.stop - part.start
            if not messages or size > room:
                messages.append([])
                room = MESSAGE_BYTES
            messages[-1].append(part)
            room -= size
    return messages


def frames(parts: Iterable[Part], piece: Callable[[Part], Memory]) -> list[Memory]:
    """Return the bytes of a message's parts, in order, as few arrays: neighbours that are small are joined."""
    found: list[Memory] = []
    small: list[Memory] = []

    def join() -> None:
        if small:
            found.append(small[0] if len(small) == 1 else np.concatenate(small))
            small.clear()

    for part in parts:
        memory = piece(part)
        if memory.nbytes < SMALL_BYTES:
            small.append(memory)
        else:
            join()
            found.append(memory)
    join()
    return found


def nbytes_of(frame: Any) -> int:
    """Return the size of some bytes of a message, whatever they came as."""
    return memoryview(frame).nbytes


class Landing:
    """Memory for tensors that arrive in parts, in any order, each part once or more.

    Large tensors have memory of their own, so that keeping one keeps no other; small ones share a block.

    Parameters
    ----------
    specs:
        Tensor number -> what it is.
    """

    def __init__(self, specs: Mapping[int, TensorSpec]) -> None:
        self.specs = dict(specs)
        self._memory: dict[int, Memory] = {}
        small = {number: spec.nbytes for number, spec in specs.items() if spec.nbytes < SMALL_BYTES}
        block, start = aligned_empty(sum(map(round_up, small.values()))), 0
        for number, nbytes in small.items():
            self._memory[number] = block[start : start + nbytes]
            start += round_up(nbytes)
        for number, spec in specs.items():
            if number not in small:
                self._memory[number] = aligned_empty(spec.nbytes)
        self._landed: set[Part] = set()
        self._handed_on = False
        """Whether the memory is the repository's by now: what comes once more changes nothing."""
        self._lock = threading.Lock()

    def land(self, parts: Iterable[Sequence[int]], frames: Sequence[Any]) -> None:
        """Copy a message's bytes to where they belong; blocks for as long as copying takes.

        Raises
        ------
        CorruptRecord
            If the frames have another length than the parts, or the parts aren't these tensors'.
        """
        if self._handed_on:
            return
        found = [Part(*part) for part in parts]
        buffers = [raw(frame) if isinstance(frame, np.ndarray) else np.frombuffer(frame, np.uint8) for frame in frames]
        if sum(part.stop - part.start for part in found) != sum(buffer.nbytes for buffer in buffers):
            raise CorruptRecord("a message with tensors has another length than it says")
        rest = iter(buffers)
        buffer: Memory = np.empty(0, np.uint8)
        for part in found:
            if part.number not in self._memory or not 0 <= part.start <= part.stop <= self._memory[part.number].nbytes:
                raise CorruptRecord(f"a message brings {part}, which is no part of the tensors that it belongs to")
            start = part.start
            while start < part.stop:
                if not buffer.nbytes:
                    buffer = next(rest)
                length = min(part.stop - start, buffer.nbytes)
                self._memory[part.number][start : start + length] = buffer[:length]
                start, buffer = start + length, buffer[length:]
        with self._lock:
            self._landed.update(found)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, landed or not."""
        return sum(memory.nbytes for memory in self._memory.values())

    @property
    def is_complete(self) -> bool:
        """Whether all bytes have landed."""
        with self._lock:
            found = dict.fromkeys(self._memory, 0)
            for part in self._landed:
                found[part.number] += part.stop - part.start
        return all(found[number] >= memory.nbytes for number, memory in self._memory.items())

    def tensors(self, expected: Mapping[int, str]) -> dict[int, Array]:
        """Return the tensors, read-only and aligned to 64 bytes, after comparing each with its digest.

        Raises
        ------
        CorruptRecord
            If one differs: it was damaged on the way, or where it lay.
        """
        arrays = {number: view(memory, self.specs[number]) for number, memory in self._memory.items()}
        found = digests(arrays)
        for number in arrays:
            if found[number] != expected[number]:
                raise CorruptRecord(
                    f"tensor {number} isn't what was sent: its digest differs. It was damaged on the way, or where it "
                    "lay; daskevo verify finds what is damaged on disk",
                    number=number,
                )
        self._handed_on = True
        return {number: frozen(array) for number, array in arrays.items()}


async def few_at_once(messages: Iterable[Sequence[Part]], send: Callable[[Sequence[Part]], Awaitable[None]]) -> None:
    """Send messages in order, a few on their way at once; the first error stops it."""
    rest = iter(messages)

    async def lane() -> None:
        for parts in rest:
            await send(parts)

    lanes = [asyncio.ensure_future(lane()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for task in lanes:
            task.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


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
