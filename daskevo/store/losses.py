"""Which tensors of a shard's models a repair has found to be gone: a file in its folder (docs/formats.md).

It takes nothing from the records: a folder that is restored from a copy brings the tensors back, and its own marks.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.codec import numbers_of, runs
from daskevo.store.files import corrupt, dump_json, parse_json, read_small, refuse_later, remove, replace_file, usable
from daskevo.types import JSON, ModelId, check_name

NAME = "lost.json"
FORMAT = 1
MAX_BYTES = 64 << 20


class Loss(NamedTuple):
    """Tensors of one owner that are gone.

    `since`: when a repair found it out, ISO 8601 in UTC; `found`: what it found, in words.
    """

    owner: ModelId
    numbers: frozenset[int]
    since: str
    found: str

    def to_json(self) -> JSON:
        """Return the loss as it is kept and sent."""
        return {"owner": self.owner, "tensors": runs(self.numbers), "since": self.since, "found": self.found}

    @classmethod
    def from_json(cls, value: object) -> Loss:
        """Read what `to_json` made; raises CorruptRecord on anything else."""
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
            value = parse_json(read_small(path, MAX_BYTES), path, "the list of lost tensors")
        except FileNotFoundError:
            return []
    refuse_later(value, path, FORMAT)
    match value:
        case {"format": 1, "lost": list(rows)}:
            try:
                return [Loss.from_json(row) for row in rows]
            except CorruptRecord as error:
                raise corrupt(path, error.message, 0, _REMEDY) from error
    raise corrupt(path, f"no list of lost tensors of format {FORMAT}: {str(value)[:80]}", 0, _REMEDY)


_REMEDY = "Remove it: the next repair writes it anew"


def write_losses(folder: Path, losses: Iterable[Loss], *, sync: bool = False) -> None:
    """Replace the marks in a shard's folder; none left, and the file goes."""
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
    """Return the marks for what is gone now; what was marked before keeps its time and words.

    Parameters
    ----------
    found:
        Owner, numbers, what was found.
    now:
        ISO 8601; the clock's when None.
    """
    now = now or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    marks = {(loss.owner, number): (loss.since, loss.found) for loss in known for number in loss.numbers}
    groups: dict[tuple[ModelId, str, str], set[int]] = {}
    for owner, numbers, words in found:
        for number in numbers:
            since, why = marks.get((owner, number), (now, words))
            groups.setdefault((owner, since, why), set()).add(number)
    return [Loss(owner, frozenset(numbers), since, why) for (owner, since, why), numbers in sorted(groups.items())]
