"""The provider's side of moving tensors: what it hands out to readers, and what writers hand in before their put.

By reference within a process, by the name and ranges of a file to a neighbour, in messages to everybody else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daskevo.cluster.arriving import file_answer
from daskevo.cluster.pieces import Landing, Part, cut, frames
from daskevo.cluster.transport import Frames
from daskevo.errors import CorruptRecord
from daskevo.store.pack import raw
from daskevo.store.tiers import DurableTensors
from daskevo.types import Attempt, ModelId, TensorSpec

if TYPE_CHECKING:
    from daskevo.cluster.serving import ServedShard

FORGOTTEN_AFTER_S = 300.0
"""A writer that has sent nothing for so long has died, or sends all again when it puts."""


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
    """What writers are sending, by the attempt that will put it."""

    def __init__(self) -> None:
        self._landings: dict[tuple[ModelId, Attempt], tuple[Landing, float]] = {}

    def of(self, model_id: ModelId, attempt: Attempt) -> Landing | None:
        """Return what has landed for an attempt so far."""
        found = self._landings.get((model_id, attempt))
        return None if found is None else found[0]

    async def land(
        self,
        model_id: ModelId,
        attempt: Attempt,
        specs: Mapping[int, TensorSpec],
        parts: Sequence[Sequence[int]],
        frames: Sequence[Any],
    ) -> None:
        """Take in a message's bytes; the first one of an attempt makes room for all of its tensors."""
        now = time.monotonic()
        for key, (_, touched) in list(self._landings.items()):
            if now - touched > FORGOTTEN_AFTER_S:
                del self._landings[key]
        landing = self.of(model_id, attempt)
        if landing is None or landing.specs != specs:
            landing = Landing(specs)
        self._landings[model_id, attempt] = landing, now
        await asyncio.to_thread(landing.land, parts, frames)

    def forget(self, model_id: ModelId, attempt: Attempt) -> None:
        """Give the memory of an attempt back."""
        self._landings.pop((model_id, attempt), None)


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
            case [int() as number, shape, dtype]:
                specs[number] = TensorSpec.from_json([list(shape), dtype])
            case _:
                raise CorruptRecord(f"expected [number, shape, dtype], found {str(item)[:80]}")
    return specs
