"""Framing of tensors in messages of at most 48 MB: small tensors joined, large ones sent without a copy or split.

Both sides know shapes and dtypes from the model's record, so a message carries only bytes and the list of its parts.
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
"""Approximate limit of one message: large enough to use the bandwidth, small enough for memory and event loops."""
IN_FLIGHT = 2
"""Messages in flight at once: the receiver handles one while the next is sent."""
SMALL_BYTES = 128 << 10
"""Tensors below this size are joined: one more frame in a message costs about as much as copying this many bytes."""

Memory = np.ndarray[Any, np.dtype[np.uint8]]


class Part(NamedTuple):
    """Bytes `start` to `stop` of tensor `number`."""

    number: int
    start: int
    stop: int


def cut(sizes: Mapping[int, int]) -> list[list[Part]]:
    """Split tensors into messages of at most about `MESSAGE_BYTES`.

    Parameters
    ----------
    sizes:
        Tensor number -> bytes, in the order in which they are sent.

    Returns
    -------
    The parts of each message. Only tensors above `MESSAGE_BYTES` are split over several messages.

    Examples
    --------
    >>> cut({3: 10, 4: 0})
    [[Part(number=3, start=0, stop=10), Part(number=4, start=0, stop=0)]]
    """
    messages: list[list[Part]] = []
    left = 0
    for number, nbytes in sizes.items():
        # An empty tensor has one empty part: the receiver counts a tensor as complete by its parts.
        for start in range(0, max(nbytes, 1), MESSAGE_BYTES):
            part = Part(number, start, min(nbytes, start + MESSAGE_BYTES))
            size = part.stop - part.start
            if not messages or size > left:
                messages.append([])
                left = MESSAGE_BYTES
            messages[-1].append(part)
            left -= size
    return messages


def frames(parts: Iterable[Part], piece: Callable[[Part], Memory]) -> list[Memory]:
    """Return the bytes of a message's parts, in order, with adjacent small parts joined into one array."""
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
    """Return the size in bytes of a frame, which may be an array or any other buffer."""
    return memoryview(frame).nbytes


class ReceiveBuffer:
    """Receive buffer for tensors that arrive in parts, in any order, each part once or more.

    Each large tensor has its own memory, so that keeping one alive does not keep the others; small ones share a block.

    Parameters
    ----------
    specs:
        Tensor number -> shape and dtype.
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
        self._received: set[Part] = set()
        self._handed_on = False
        """Whether the repository owns the memory by now: a part that arrives again must not write into it."""
        self._lock = threading.Lock()
        # Guards `_received` only: messages are copied in several threads at once, each into memory of its own.

    def write(self, parts: Iterable[Sequence[int]], frames: Sequence[Any]) -> None:
        """Copy a message's bytes into the buffer; blocks while it copies.

        Raises
        ------
        CorruptRecord
            If the frames and the parts differ in length, or a part does not belong to these tensors.
        """
        if self._handed_on:
            return  # a repeated message after the put was answered
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
            # A frame may hold several parts, since `frames` joins small ones.
            while start < part.stop:
                if not buffer.nbytes:
                    buffer = next(rest)
                length = min(part.stop - start, buffer.nbytes)
                self._memory[part.number][start : start + length] = buffer[:length]
                start, buffer = start + length, buffer[length:]
        with self._lock:
            self._received.update(found)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, arrived or not."""
        return sum(memory.nbytes for memory in self._memory.values())

    @property
    def is_complete(self) -> bool:
        """Whether all bytes have arrived."""
        with self._lock:
            found = dict.fromkeys(self._memory, 0)
            for part in self._received:
                found[part.number] += part.stop - part.start
        return all(found[number] >= memory.nbytes for number, memory in self._memory.items())

    def tensors(self, expected: Mapping[int, str]) -> dict[int, Array]:
        """Check each tensor against its digest and return all of them, read-only and aligned to 64 bytes.

        Raises
        ------
        CorruptRecord
            If a digest differs: the tensor was damaged in transit or in storage.
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
    """Send messages in order, `IN_FLIGHT` at once; the first error stops all."""
    # Both lanes take from one iterator, so that a slow message in one does not hold back the other.
    rest = iter(messages)

    async def lane() -> None:
        for parts in rest:
            await send(parts)

    lanes = [asyncio.ensure_future(lane()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*lanes)
    finally:
        # After an error the other lane may still be sending: wait for its end, so that no message follows later.
        for task in lanes:
            task.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


def specs_to_wire(specs: Mapping[int, TensorSpec]) -> list[Any]:
    """Encode tensor specifications for a message."""
    return [[number, *spec.to_json()] for number, spec in specs.items()]


def specs_from_wire(value: Sequence[Any]) -> dict[int, TensorSpec]:
    """Decode tensor specifications that `specs_to_wire` encoded.

    Raises
    ------
    CorruptRecord
        If the value has another form.
    """
    specs = {}
    for item in value:
        match item:
            case [int() as number, [*shape], str() as dtype] if 0 <= number < MAX_TENSORS:
                specs[number] = TensorSpec.from_json([shape, dtype])
            case _:
                raise CorruptRecord(f"expected [number, shape, dtype], found {str(item)[:80]}")
    return specs
