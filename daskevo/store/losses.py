"""Marks of tensors that a repair has found to be lost, in a file of the shard's folder (docs/formats.md).

The records are not changed: if the folder is restored from a copy, the tensors are back, with the marks of the copy.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.codec import numbers_of, runs
from daskevo.store.files import corrupt, dump_json, read_json, remove, replace_file, usable
from daskevo.types import JSON, ModelId, check_name

NAME = "lost.json"
FORMAT = 1
MAX_BYTES = 64 << 20


class Loss(NamedTuple):
    """Lost tensors of one owner.

    `since`: when a repair found the loss, ISO 8601 in UTC; `found`: description.
    """

    owner: ModelId
    numbers: frozenset[int]
    since: str
    found: str

    def to_json(self) -> JSON:
        """Encode the loss for storage and messages."""
        return {"owner": self.owner, "tensors": runs(self.numbers), "since": self.since, "found": self.found}

    @classmethod
    def from_json(cls, value: object) -> Loss:
        """Decode a loss that `to_json` encoded; raise CorruptRecord for other values."""
        match value:
            case {"owner": str(owner), "tensors": [*tensors], "since": str(since), "found": str(found)}:
                try:
                    return cls(ModelId(check_name(owner)), numbers_of(tensors), since, found)
                except InvalidInput as error:
                    raise CorruptRecord(error.message) from error
        raise CorruptRecord(f"no loss of tensors: {str(value)[:80]}")


def read_losses(folder: Path) -> list[Loss]:
    """Return the marks in a shard's folder.

    Raises
    ------
    CorruptRecord
        If the file is damaged or of a later version.
    """
    path = folder / NAME
    with usable(folder, "read which tensors are lost"):
        try:
            value = read_json(path, "the list of lost tensors", FORMAT, MAX_BYTES)
        except FileNotFoundError:
            return []
    match value:
        case {"format": 1, "lost": list(rows)}:
            try:
                return [Loss.from_json(row) for row in rows]
            except CorruptRecord as error:
                raise corrupt(path, error.message, 0, _REMEDY) from error
    raise corrupt(path, f"no list of lost tensors of format {FORMAT}: {str(value)[:80]}", 0, _REMEDY)


_REMEDY = "Remove it: the next repair writes it anew"


def write_losses(folder: Path, losses: Iterable[Loss], *, sync: bool = False) -> None:
    """Replace the marks in a shard's folder; remove the file if there are none."""
    rows: list[JSON] = [loss.to_json() for loss in losses]
    if not rows:
        with usable(folder, "remove the list of lost tensors"):
            remove(folder / NAME)
        return
    data = dump_json({"format": FORMAT, "lost": rows})
    with usable(folder, "mark lost tensors", len(data)):
        replace_file(folder / NAME, data, sync=sync)


def merged(
    known: Iterable[Loss], found: Iterable[tuple[ModelId, frozenset[int], str]], now: str | None = None
) -> list[Loss]:
    """Return marks for all lost tensors; those marked before keep their time and description.

    Parameters
    ----------
    found:
        Owner, numbers and description of lost tensors.
    now:
        Present time, ISO 8601; None: the clock's.
    """
    now = now or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    marks = {(loss.owner, number): (loss.since, loss.found) for loss in known for number in loss.numbers}
    groups: dict[tuple[ModelId, str, str], set[int]] = {}
    for owner, numbers, words in found:
        for number in numbers:
            since, why = marks.get((owner, number), (now, words))
            groups.setdefault((owner, since, why), set()).add(number)
    return [Loss(owner, frozenset(numbers), since, why) for (owner, since, why), numbers in sorted(groups.items())]
