"""Tensors that came from an owner's shard, held against what the reader's own owner map says of them.

A shard answers by the owner's id and tensor number. Whether these are still the tensors that were inherited (and not,
after a loss, those of another model of that id) only the digest tells, which travels with the reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from daskevo.graph import ArchitectureGraph
from daskevo.ownership.owner_map import OwnerEntry
from daskevo.store.pack import digest, parse_header, unpack
from daskevo.types import ModelId, TensorSpec

Array = np.ndarray[Any, Any]


class Gone(Exception):
    """Tensors of an owner are not there any more; caught by who asked: the next match is tried, or an error named."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Wanted(NamedTuple):
    """What a tensor must be."""

    spec: TensorSpec
    digest: str


def wanted_of(graph: ArchitectureGraph, entries: Iterable[tuple[int, OwnerEntry]]) -> dict[ModelId, dict[int, Wanted]]:
    """Group a reader's tensors by owner.

    Parameters
    ----------
    graph:
        The reader's.
    entries:
        Tensor number of the reader, and its entry.

    Returns
    -------
    Owner -> number in the owner's own enumeration -> what it must be.
    """
    owners: dict[ModelId, dict[int, Wanted]] = {}
    for mine, entry in entries:
        owners.setdefault(entry.owner, {})[entry.number] = Wanted(graph.tensors[mine].spec, entry.digest)
    return owners


async def arrived(answer: Mapping[str, Any], owner: ModelId, wanted: Mapping[int, Wanted]) -> dict[int, Array]:
    """Return the tensors of a provider's answer, read-only, by number in the owner.

    Raises
    ------
    Gone
        If one of them is another than the reader's map names.
    CorruptRecord
        If they were damaged on the way.
    """
    if "arrays" in answer:  # the provider is this very process: its own read-only arrays
        arrays: dict[int, Array] = answer["arrays"]
        found = await asyncio.to_thread(_look_at, arrays)
    else:
        arrays = unpack(answer["header"], answer["block"])  # compares the bytes with the header's digests
        header = parse_header(answer["header"], np.asarray(answer["block"]).nbytes)
        found = {entry.number: Wanted(entry.spec, entry.digest) for entry in header}
    for number, want in wanted.items():
        if found.get(number) != want:
            raise Gone(
                f"tensor {number} of {owner!r} is another than the one that was inherited "
                f"(found {found.get(number)}, expected {want})"
            )
    return arrays


def _look_at(arrays: Mapping[int, Array]) -> dict[int, Wanted]:
    return {number: Wanted(TensorSpec.of(array), digest(array)) for number, array in arrays.items()}
