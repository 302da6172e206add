"""Send stored tensors to readers.

Readers in the same process get references, readers on the same host the name and ranges of a file, all others messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from daskevo.client.tensor_reader import file_answer
from daskevo.store.pack import lent, raw
from daskevo.store.tiers import DurableTensors
from daskevo.types import Attempt, ModelId
from daskevo.wire.tensor_framing import Part, cut, frames
from daskevo.wire.transport import Frames

if TYPE_CHECKING:
    from daskevo.provider.served_shard import ServedShard


async def hand_out(
    served: ServedShard, owner: ModelId, attempt: Attempt, numbers: Collection[int], *, near: bool, local: bool
) -> dict[str, Any]:
    """Return an answer with tensors of a published owner, or with their place in a file.

    Parameters
    ----------
    near:
        Whether the reader is on this host and sees the root.
    local:
        Whether the reader is in this process.

    Returns
    -------
    ``digests``, in the order of the numbers, and one of: ``file`` (see `daskevo.client.tensor_reader.file_answer`);
    ``arrays``; ``parts`` and ``frames``, as much as one message holds: the reader asks for the rest.

    Raises
    ------
    CorruptRecord
        If the segment is damaged, or a tensor is missing.
    """
    wanted = sorted(numbers)
    specs = served.own(owner, attempt)
    answer: dict[str, Any] = {"digests": [specs[number][1] if number in specs else "" for number in wanted]}
    if near and isinstance(served.tensors, DurableTensors):
        segment = await served.segment(owner, attempt, wanted)
        return answer | {"file": file_answer(segment, wanted)}
    if local:
        stored = await served.read(owner, attempt, frozenset(wanted))
        return answer | {"arrays": {number: lent(array) for number, array in stored.items()}}
    sizes = {number: specs[number][0].nbytes for number in wanted if number in specs}
    # Only whole tensors in the first message; the reader asks for the parts of split ones itself.
    first = next(iter(cut(sizes)), [])
    parts = [part for part in first if part.stop - part.start == sizes[part.number]]
    return answer | {"parts": [list(part) for part in parts], **await hand_out_parts(served, owner, attempt, parts)}


async def hand_out_parts(
    served: ServedShard, owner: ModelId, attempt: Attempt, parts: Iterable[Sequence[int]]
) -> dict[str, Any]:
    """Return the bytes of parts of reserved tensors as ``frames``; the reader checks the digests after joining them."""
    wanted = [Part(*part) for part in parts]
    specs = served.own(owner, attempt)
    # Whole tensors come out of the tiers' memory where they are cached; parts are read from the file.
    whole = frozenset(
        part.number
        for part in wanted
        if part.number in specs and (part.start, part.stop) == (0, specs[part.number][0].nbytes)
    )
    async with served.outgoing.message(sum(part.stop - part.start for part in wanted)) as leaving:
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

        return {"frames": Frames(leaving.frames(await served.reading(owner, read)))}
