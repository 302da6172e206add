"""Prepare the payload of a put: find the changed tensors and their digests, and write their file if the host allows.

A tensor counts as unchanged only if its bytes equal the inherited ones: moving statistics and user code may change
tensors that are not `trainable`. The content hash decides, but is not always needed: read-only mapped memory of the
store can't have changed, and a tensor whose first or last bytes differ has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskevo.client.inherit import Reservation
from daskevo.errors import QuotaReached, RootUnusable
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.store.digests import digests
from daskevo.store.pack import portable, raw
from daskevo.store.segment import is_mapped
from daskevo.store.shard_segments import ShardSegments
from daskevo.types import ModelId, TensorSpec
from daskevo.wire.to_the_end import begin, to_the_end

Array = np.ndarray[Any, Any]

_LOOKED_AT_BYTES = 1 << 10
"""Bytes that are compared at each end of a tensor before it is hashed."""


@dataclass(frozen=True)
class Payload:
    """Payload of one put.

    Parameters
    ----------
    entries:
        The new model's owner map.
    tensors:
        Tensors that the model stores itself, portable, by number. They must not be changed until the put is answered.
    unused:
        Owner -> reserved numbers that the new owner map does not use: tensors that were inherited and have changed.
    folder:
        The folder in which `tensors` have been written to the segment file of (model, attempt); None if they were not
        written.
    """

    model_id: ModelId
    attempt: Any
    entries: tuple[OwnerEntry, ...]
    tensors: Mapping[int, Array]
    unused: Mapping[ModelId, frozenset[int]]
    folder: ShardSegments | None

    @property
    def own(self) -> dict[int, TensorSpec]:
        """Specifications of the tensors that the model stores itself, by number."""
        return {number: TensorSpec.of(array) for number, array in self.tensors.items()}

    def withdraw(self) -> None:
        """Remove the file of a put that was never sent, or that its shard has aborted; blocks on the disk."""
        if self.folder is not None:
            self.folder.withdraw_segment(self.model_id, self.attempt)


async def prepared(make: Callable[..., Payload], *arguments: Any) -> Payload:
    """Make a payload in a thread; if cancelled, remove the file that it has written before raising."""
    making = begin(asyncio.to_thread(make, *arguments))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        # A thread can't be cancelled: it writes the file to its end, and then nobody would remove it before the next
        # audit.
        await to_the_end(_unmake(making))
        raise


async def _unmake(making: asyncio.Task[Payload]) -> None:
    (made,) = await asyncio.gather(making, return_exceptions=True)
    if isinstance(made, Payload):
        await asyncio.to_thread(made.withdraw)


@contextlib.asynccontextmanager
async def withdrawn_on_error(payload: Payload) -> AsyncIterator[None]:
    """Remove the payload's file if the block raises, in which case the put has not been sent."""
    try:
        yield
    except BaseException:
        await to_the_end(asyncio.to_thread(payload.withdraw))
        raise


def prepare(
    reservation: Reservation,
    tensors: Mapping[int, Array],
    steps: int,
    folder: ShardSegments | None = None,
    hashed: Mapping[int, str] | None = None,
    left: Collection[int] = (),
) -> Payload:
    """Compare tensors with the inherited ones, and write changed tensors to a segment file if there is a folder.

    Blocks while it reads all tensors and writes the changed ones.

    Parameters
    ----------
    tensors:
        All tensors of the model, by number.
    steps:
        Training steps since the model was inherited or built, added to the steps of each changed tensor.
    folder:
        Folder of the model's shard, if its provider is on this host and sees the same root.
    hashed:
        Digests that are known already, by number.
    left:
        Numbers of tensors that were reserved but not taken over into the model: their steps begin at 0.

    Raises
    ------
    QuotaReached
        If the changed tensors exceed the quota: nothing was written.
    """
    arrays = {number: portable(tensors[number]) for number in sorted(tensors)}
    hashed = hashed or {}
    unknown = {}
    kept: set[int] = set()
    # Cheapest check first; only tensors that neither their ends nor their memory decide are hashed.
    for number, array in arrays.items():
        inherited, lent = reservation.entries.get(number), reservation.arrays.get(number)
        if number in hashed:
            if inherited is not None and inherited.digest == hashed[number]:
                kept.add(number)
        elif inherited is None or (lent is not None and _differ_at_an_end(array, lent)):
            continue
        elif lent is not None and is_mapped(lent) and _is_same_memory(array, lent):
            kept.add(number)
        else:
            unknown[number] = array
    known = digests(unknown)
    kept |= {number for number, digest in known.items() if reservation.entries[number].digest == digest}
    own = {number: array for number, array in arrays.items() if number not in kept}
    known = {number: digest for number, digest in {**hashed, **known}.items() if number in own}
    if own and folder is not None:
        try:
            written = folder.write_segment(reservation.model_id, reservation.attempt, own, known=known)
        except QuotaReached:
            raise  # the provider would refuse them, too
        except RootUnusable:
            # Perhaps the disk refuses only this user: send the tensors, and let the provider write or report it.
            folder = None
        else:
            known = {number: entry.digest for number, entry in written.entries.items()}
    if not own or folder is None:
        folder = None
        # The segment writer hashes while it writes; tensors that are sent have to be hashed here.
        known |= digests({number: array for number, array in own.items() if number not in known})
    entries = []
    for number in arrays:
        inherited = reservation.entries.get(number)
        if number in kept and inherited is not None:
            entries.append(inherited)
        else:
            before = 0 if inherited is None or number in left else inherited.steps
            entries.append(OwnerEntry(reservation.model_id, number, known[number], before + steps))
    uses = OwnerMap(tuple(entries)).owners
    unused = {
        owner: numbers - uses.get(owner, frozenset())
        for owner, numbers in reservation.owners.items()
        if numbers - uses.get(owner, frozenset())
    }
    return Payload(reservation.model_id, reservation.attempt, tuple(entries), own, unused, folder)


def _is_same_memory(array: Array, lent: Array) -> bool:
    return (
        array.nbytes > 0
        and array.__array_interface__["data"][0] == lent.__array_interface__["data"][0]
        and TensorSpec.of(array) == TensorSpec.of(lent)
    )


def _differ_at_an_end(array: Array, lent: Array) -> bool:
    """Whether first or last bytes differ; training usually changes all of a tensor, which spares hashing it."""
    found, before = raw(array), raw(lent)
    size = _LOOKED_AT_BYTES
    return found.nbytes != before.nbytes or not (
        np.array_equal(found[:size], before[:size]) and np.array_equal(found[-size:], before[-size:])
    )
