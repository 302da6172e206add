"""What a put sends home: which tensors changed, their digests, and, beside the provider, the file they are written to.

A tensor counts as unchanged if and only if its bytes are those that were inherited: moving statistics and user code
change tensors behind the back of `trainable`. The content hash decides, but not everything needs hashing: memory that
no process can write to and that the store itself lent has not changed, and bytes that differ at one end have.
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


@dataclass(frozen=True)
class Payload:
    """What one put sends home.

    Parameters
    ----------
    entries:
        The new model's owner map.
    tensors:
        What it stores itself, portable, by number. Nobody writes to it until the put is answered.
    unused:
        Owner -> reserved numbers that the new owner map does not use: inherited, but changed.
    folder:
        Where `tensors` have been written to the segment file of (model, attempt); None if they have not.
    """

    model_id: ModelId
    attempt: Any
    entries: tuple[OwnerEntry, ...]
    tensors: Mapping[int, Array]
    unused: Mapping[ModelId, frozenset[int]]
    folder: ShardSegments | None

    @property
    def own(self) -> dict[int, TensorSpec]:
        """What the tensors are that the model stores itself."""
        return {number: TensorSpec.of(array) for number, array in self.tensors.items()}

    def withdraw(self) -> None:
        """Remove the file of a put that was never sent, or that home has aborted; blocks on the disk."""
        if self.folder is not None:
            self.folder.withdraw_segment(self.model_id, self.attempt)


async def prepared(make: Callable[..., Payload], *arguments: Any) -> Payload:
    """Make a payload in a thread; who is cancelled meanwhile leaves when its file has been removed again."""
    making = begin(asyncio.to_thread(make, *arguments))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        await to_the_end(_unmake(making))
        raise


async def _unmake(making: asyncio.Task[Payload]) -> None:
    (made,) = await asyncio.gather(making, return_exceptions=True)
    if isinstance(made, Payload):
        await asyncio.to_thread(made.withdraw)


@contextlib.asynccontextmanager
async def withdrawn_on_error(payload: Payload) -> AsyncIterator[None]:
    """Remove the file that was written if the block fails: the put was not sent, and will not be."""
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
    """Compare tensors with what was inherited, and write what changed where the provider takes it from.

    Blocks for as long as reading all and writing what changed takes.

    Parameters
    ----------
    tensors:
        All tensors of the model, by number.
    steps:
        Training steps since it was inherited or built, counted to each tensor that changed.
    folder:
        Of the home shard, if its provider is on this host and sees the same root.
    hashed:
        Digests that are known already, by number.
    left:
        Tensors that were reserved, but not taken over: their steps are the model's own.

    Raises
    ------
    QuotaReached
        If the repository may not take what changed: nothing was written.
    """
    arrays = {number: portable(tensors[number]) for number in sorted(tensors)}
    hashed = hashed or {}
    unknown = {}
    kept: set[int] = set()
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
            raise  # the provider has said so
        except RootUnusable:
            folder = None  # perhaps for this user or quota only: the provider tries, and says so if it can't
        else:
            known = {number: entry.digest for number, entry in written.entries.items()}
    if not own or folder is None:
        folder = None
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
    """Whether a look at both ends tells already that bytes differ: as a rule, training changes all of a tensor."""
    found, before = raw(array), raw(lent)
    size = _LOOKED_AT_BYTES
    return found.nbytes != before.nbytes or not (
        np.array_equal(found[:size], before[:size]) and np.array_equal(found[-size:], before[-size:])
    )
