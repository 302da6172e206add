"""Owner maps: the owner of each tensor of a model (paper 000, section 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from daskevo.errors import CorruptRecord
from daskevo.protocol.codec import count
from daskevo.protocol.limits import MAX_TENSORS
from daskevo.types import JSON, ModelId, check_name, shorten

_DIGEST = re.compile(r"[0-9a-f]{32}")


class OwnerEntry(NamedTuple):
    """Owner, number and digest of one tensor."""

    owner: ModelId
    number: int
    """Tensor number at the owner."""
    digest: str
    """xxh3-128 of the bytes, 32 lower-case hexadecimal digits."""
    steps: int
    """Training steps of this tensor, in this model and in those it was inherited from."""


@dataclass(frozen=True)
class OwnerMap:
    """One entry per tensor number of a model.

    Inheriting copies the ancestor's entries, so finding a tensor takes one look-up however long the lineage is.

    Examples
    --------
    >>> zeros = "0" * 32
    >>> owner_map = OwnerMap((OwnerEntry(ModelId("a"), 4, zeros, 10), OwnerEntry(ModelId("b"), 1, zeros, 5)))
    >>> owner_map.owners
    {'a': frozenset({4}), 'b': frozenset({1})}
    >>> OwnerMap.from_json(owner_map.to_json()) == owner_map
    True
    """

    entries: tuple[OwnerEntry, ...]

    @classmethod
    def of(cls, entries: Iterable[OwnerEntry]) -> OwnerMap:
        """Collect entries in the order of tensor numbers."""
        return cls(tuple(entries))

    @cached_property
    def owners(self) -> dict[ModelId, frozenset[int]]:
        """Tensor numbers at each owner that this map uses."""
        uses: dict[ModelId, set[int]] = {}
        for entry in self.entries:
            uses.setdefault(entry.owner, set()).add(entry.number)
        return {owner: frozenset(numbers) for owner, numbers in uses.items()}

    def own(self, model_id: ModelId) -> frozenset[int]:
        """Return the numbers of tensors that `model_id`, the model of this map, stored itself."""
        return self.owners.get(model_id, frozenset())

    def to_json(self) -> JSON:
        """Return ``{"owners": [id, ...], "entries": [[index in owners, number, digest, steps], ...]}``.

        Raises
        ------
        CorruptRecord
            If there are too many entries, or one is out of its range.
        """
        if len(self.entries) > MAX_TENSORS:
            raise CorruptRecord(f"{len(self.entries)} tensors are more than the limit of {MAX_TENSORS}")
        # Each id once: the tensors of a model come from few owners.
        place = {owner: index for index, owner in enumerate(self.owners)}
        return {
            "owners": list(place),
            "entries": [[place[entry.owner], entry.number, entry.digest, count(entry.steps)] for entry in self.entries],
        }

    @classmethod
    def from_json(cls, value: JSON) -> OwnerMap:
        """Decode a map that `to_json` encoded.

        Raises
        ------
        CorruptRecord
            If the value has another form.
        """
        match value:
            case {"owners": [*names], "entries": [*rows], **rest} if not rest and len(rows) <= MAX_TENSORS:
                owners = tuple(ModelId(check_name(name)) for name in names)
                return cls(tuple(_entry(row, owners) for row in rows))
        raise CorruptRecord(f"expected an owner map, found {shorten(value)}")


def _entry(row: JSON, owners: tuple[ModelId, ...]) -> OwnerEntry:
    if isinstance(row, (list, tuple)) and len(row) == 4:
        place, number, digest, steps = row
        known = type(place) is int and 0 <= place < len(owners)
        if known and isinstance(digest, str) and _DIGEST.fullmatch(digest) and count(number) < MAX_TENSORS:
            return OwnerEntry(owners[place], number, digest, count(steps))
    raise CorruptRecord(f"expected an owner map's entry [owner, number, digest, steps], found {shorten(row)}")
