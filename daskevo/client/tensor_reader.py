"""Read tensors from an owner's shard, by reference, from its file, or in messages, and check their digests.

A shard looks tensors up by owner id and number. After a loss, these may belong to another model with the same id, so
the reader compares digests: first the digest in the provider's answer with the expected one, then, for bytes out of
a file or of another process, the digest of the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskevo.client.directory import Directory
from daskevo.client.local_peers import LocalPeer, LocalPeers
from daskevo.errors import CorruptRecord, RootUnusable
from daskevo.graph import ArchitectureGraph
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.store.digests import FEW_BYTES
from daskevo.store.mounts import may_be_mapped
from daskevo.store.pack import PackEntry
from daskevo.store.root import Root
from daskevo.store.segment import Replaced, Segment
from daskevo.types import Attempt, ModelId, TensorSpec
from daskevo.wire.tensor_framing import Part, ReceiveBuffer, cut, few_at_once

Array = np.ndarray[Any, Any]


class Gone(Exception):
    """Tensors of an owner are gone. Internal: the caller tries the next match, or raises an error for users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WantedTensors(NamedTuple):
    """Expected specification and digest of a tensor."""

    spec: TensorSpec
    digest: str


def wanted_of(
    graph: ArchitectureGraph, entries: Iterable[tuple[int, OwnerEntry]]
) -> dict[ModelId, dict[int, WantedTensors]]:
    """Group a reader's tensors by owner.

    Parameters
    ----------
    graph:
        Graph of the reader's model.
    entries:
        Tensor numbers of the reader's model, and their entries.

    Returns
    -------
    Owner -> tensor number at the owner -> expected tensor.
    """
    owners: dict[ModelId, dict[int, WantedTensors]] = {}
    for mine, entry in entries:
        owners.setdefault(entry.owner, {})[entry.number] = WantedTensors(graph.tensors[mine].spec, entry.digest)
    return owners


class TensorSource(NamedTuple):
    """Place of a reader's tensors: the shard, the owner, and the attempt that stored them there."""

    shard: int
    owner: ModelId
    attempt: Attempt


def _check_answer(answer: Mapping[str, Any], owner: ModelId, wanted: Mapping[int, WantedTensors]) -> None:
    """Compare the digests in a provider's answer with the expected ones.

    Raises
    ------
    Gone
        If a tensor differs from the one in the reader's owner map.
    """
    for (number, want), found in zip(sorted(wanted.items()), answer["digests"], strict=True):
        if found != want.digest:
            raise Gone(
                f"tensor {number} of {owner!r} is another than the one that was inherited (found {found}, expected "
                f"{want.digest})"
            )


def by_reference(answer: Mapping[str, Any], owner: ModelId, wanted: Mapping[int, WantedTensors]) -> dict[int, Array]:
    """Return the read-only arrays of a provider in this process; raise Gone as `arrived` does."""
    _check_answer(answer, owner, wanted)
    arrays: dict[int, Array] = answer["arrays"]
    for number, want in wanted.items():
        if TensorSpec.of(arrays[number]) != want.spec:
            raise Gone(f"tensor {number} of {owner!r} is {TensorSpec.of(arrays[number])}, {want.spec} was inherited")
    return arrays


async def arrived(
    directory: Directory,
    answer: Mapping[str, Any],
    source: TensorSource,
    wanted: Mapping[int, WantedTensors],
    *,
    peer: LocalPeer | None,
    timeout_s: float,
) -> dict[int, Array]:
    """Return the tensors of a provider's answer to `refer`, by number at the owner, and fetch those not included.

    Parameters
    ----------
    directory:
        Used to fetch tensors that the answer does not include.
    answer:
        With ``digests``, and ``arrays``, ``file``, or ``parts`` and ``frames``.
    peer:
        The provider on this host that was asked for a file.

    Raises
    ------
    Gone
        If a tensor differs from the one in the reader's owner map.
    CorruptRecord
        If bytes don't have their digest.
    ShardUnavailable
        If a message was not answered in time.
    """
    if "arrays" in answer:
        return by_reference(answer, source.owner, wanted)
    _check_answer(answer, source.owner, wanted)
    if "file" in answer and peer is not None:
        found = await _from_file(directory.local_peers, peer, answer["file"], source, wanted)
        if found is not None:
            return found
    # In threads: allocating and copying gigabytes would block the event loop.
    buffer = await asyncio.to_thread(ReceiveBuffer, {number: want.spec for number, want in wanted.items()})
    here = [Part(*part) for part in answer.get("parts", ())]
    if here:
        await asyncio.to_thread(buffer.write, here, answer["frames"])
    there = {number: wanted[number].spec.nbytes for number in sorted(wanted.keys() - {part.number for part in here})}

    async def fetch(parts: Sequence[Part]) -> None:
        brought = await directory.call(
            source.shard,
            "read",
            timeout_s=timeout_s,
            model=source.owner,
            attempt=list(source.attempt),
            parts=[list(part) for part in parts],
        )
        await asyncio.to_thread(buffer.write, parts, brought["frames"])

    await few_at_once(cut(there), fetch)
    return await asyncio.to_thread(buffer.tensors, {number: want.digest for number, want in wanted.items()})


async def _from_file(
    peers: LocalPeers,
    peer: LocalPeer,
    file: Mapping[str, Any],
    source: TensorSource,
    wanted: Mapping[int, WantedTensors],
) -> dict[int, Array] | None:
    """Read tensors from the owner's segment file, without the provider; None if this process can't read them there.

    Safe without the provider: the tensors are reserved, and segment files never change, they are only replaced.
    """
    try:
        found = await asyncio.to_thread(_read_file, peer.root, file, source, wanted)
    except RootUnusable as error:
        found, reason = None, error.message
    else:
        reason = f"the file of {source.owner!r} is another here"
    if found is None:
        peers.distrust(peer.address, reason)
    return found


def _read_file(
    root: Root, file: Mapping[str, Any], source: TensorSource, wanted: Mapping[int, WantedTensors]
) -> dict[int, Array] | None:
    """Read tensors from the file that a provider named and check their digests; None if it is not the same file here.

    Large tensors are mapped into memory where that is safe: they are in the page cache then, read-only for all.
    """
    folder = root.shard(source.shard)
    path = folder.segment_path(source.owner, source.attempt)
    places = zip(sorted(wanted), file["offsets"], strict=True)
    entries = {
        number: PackEntry(number, wanted[number].spec, offset, wanted[number].digest) for number, offset in places
    }
    identity = tuple(file["identity"])
    segment = Segment(path, None, entries, file["payload"], file["payload_bytes"], file["file_bytes"], identity)
    mapped = segment.tensor_bytes >= FEW_BYTES and may_be_mapped(root.path)
    while segment.is_there():
        with contextlib.suppress(Replaced):
            return segment.read(wanted, mapped=mapped)
    # Compaction has replaced the file by one without dead tensors; the reserved ones are in it, at other offsets.
    while True:
        try:
            segment = folder.open_segment(source.owner, source.attempt)
            here = {n: WantedTensors(entry.spec, entry.digest) for n, entry in segment.entries.items() if n in wanted}
            return segment.read(wanted, mapped=mapped) if here == wanted else None
        except Replaced:
            continue
        except CorruptRecord:
            return None  # the provider may still have them in memory: messages are tried, and say what is wrong


def file_answer(segment: Segment, numbers: Iterable[int]) -> dict[str, Any]:
    """Return the places of tensors in a segment's file, for a reader on this host."""
    return {
        "identity": list(segment.identity),
        "payload": segment.payload,
        "payload_bytes": segment.payload_bytes,
        "file_bytes": segment.file_bytes,
        "offsets": [segment.entries[number].offset for number in numbers],
    }
