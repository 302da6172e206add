"""Damage of stored tensors: compare them with their records, in memory, as readers get them, and on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from daskevo.errors import CorruptRecord, RootUnusable
from daskevo.store.digests import digests
from daskevo.store.segment import Replaced, Segment
from daskevo.store.shard_segments import ShardSegments
from daskevo.store.tiers import DurableTensors, Tensors
from daskevo.types import Attempt, ModelId, TensorSpec

Named = Mapping[int, tuple[TensorSpec, str] | None]
"""Tensor number -> specification and digest in the record; None if no record is known."""


@dataclass
class Damage:
    """Damage of the tensors of one attempt."""

    gone: dict[int, str] = field(default_factory=dict)
    """Number of each lost tensor -> description; no intact copy is left."""
    served_wrong: str = ""
    """Description of a damage in memory only: the disk has an intact copy, and a repair serves it again."""
    unread: str = ""
    """Why the tensors can't be checked: the disk does not answer."""


def damage_of(tensors: Tensors, files: ShardSegments | None, segment: tuple[ModelId, Attempt], named: Named) -> Damage:
    """Check every byte of the tensors of one attempt; blocks while it reads them.

    Parameters
    ----------
    files:
        Folder of the segment file; None for a repository in memory.
    """
    found = Damage()
    if files is None:
        for number in sorted(named):
            try:
                array = tensors[(*segment, number)]
            except KeyError:
                found.gone[number] = f"tensor {number} is not there"
            except CorruptRecord as error:
                found.gone[number] = _short(error)
            except RootUnusable as error:
                found.unread = error.message
            else:
                _compare(found, {number: digests({number: array})[number]}, named, "in its provider's memory")
        return found
    # The disk first: a tensor that is damaged only in memory can be served from it.
    try:
        found.gone = _on_disk(files, segment, named)
    except RootUnusable as error:
        found.unread = error.message
        return found
    if isinstance(tensors, DurableTensors):
        whole = {number: known for number, known in named.items() if number not in found.gone}
        found.served_wrong = _served_wrong(tensors, segment, whole)
    return found


def _served_wrong(tensors: DurableTensors, segment: tuple[ModelId, Attempt], named: Named) -> str:
    unknown = sorted(number for number in named if (*segment, number) not in tensors)
    if unknown:
        return f"tensors {unknown[:5]} are on the disk, but their provider does not know of them"
    damage = Damage()
    _compare(damage, digests(tensors.cached(*segment, named)), named, "in its provider's memory")
    return next(iter(damage.gone.values()), "")


def _on_disk(files: ShardSegments, segment: tuple[ModelId, Attempt], named: Named) -> dict[int, str]:
    while True:
        try:
            return _in_file(files.open_segment(*segment), named)
        except Replaced:
            continue  # compaction has replaced the file meanwhile: open the new one
        except CorruptRecord as error:
            return dict.fromkeys(named, _short(error))


def _in_file(opened: Segment, named: Named) -> dict[int, str]:
    found = Damage({number: f"{opened.path} lacks tensor {number}" for number in named.keys() - opened.entries.keys()})
    there = named.keys() & opened.entries.keys()
    _compare(found, {number: opened.entries[number].digest for number in there}, named, f"in {opened.path}")
    try:
        opened.check(there)
    # Replaced is a CorruptRecord, too, but no damage: the caller opens the new file.
    except Replaced:
        raise
    except CorruptRecord:
        # Check each tensor alone to find the damaged ones: the others need not be given up.
        for number in there:
            try:
                opened.check([number])
            except Replaced:
                raise
            except CorruptRecord as error:
                found.gone[number] = _short(error)
    return found.gone


def _compare(found: Damage, there: Mapping[int, str], named: Named, where: str) -> None:
    for number, digest in there.items():
        wanted = named[number]
        if wanted is not None and digest != wanted[1]:
            found.gone[number] = f"tensor {number} {where} is not the one that its record names"


def _short(error: CorruptRecord) -> str:
    """Describe a damage without the advice in the error's message: a repair gives its own, for whole models."""
    facts = error.facts
    if {"path", "offset", "found"} <= facts.keys():
        return f"{facts['path']} is damaged at byte {facts['offset']}: {facts['found']}"
    return error.message
