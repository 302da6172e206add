"""Where a model comes from: chain of inheritance, common ancestors, who contributed which tensors.

Works on records and tombstones alike, so it stays answerable after retirement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from daskevo.errors import InvalidInput
from daskevo.protocol.model_record import ModelRecord
from daskevo.types import ModelId, TensorSpec


@dataclass(frozen=True)
class Contribution:
    """What one owner stored of a model."""

    owner: ModelId
    numbers: frozenset[int]
    """Tensor numbers of the model (not of the owner)."""
    nbytes: int


def contributors(record: ModelRecord, specs: Sequence[TensorSpec]) -> list[Contribution]:
    """Return who stored the tensors of a model, largest share first, and what each share takes in bytes.

    Parameters
    ----------
    record
        The model's record or tombstone.
    specs
        The model's tensors, by number (of its architecture graph).

    Raises
    ------
    InvalidInput
        If `specs` doesn't have one entry per tensor.
    """
    entries = record.owner_map.entries
    if len(specs) != len(entries):
        raise InvalidInput(f"{record.model_id!r} has {len(entries)} tensors, {len(specs)} specifications were given")
    shares: dict[ModelId, set[int]] = {}
    for number, entry in enumerate(entries):
        shares.setdefault(entry.owner, set()).add(number)
    found = [
        Contribution(owner, frozenset(numbers), sum(specs[number].nbytes for number in numbers))
        for owner, numbers in shares.items()
    ]
    return sorted(found, key=lambda share: (-share.nbytes, share.owner))


def chain(model_id: ModelId, records: Mapping[ModelId, ModelRecord]) -> Iterator[ModelId]:
    """Yield a model, the model it inherited from, and so on, as far as `records` knows.

    Examples
    --------
    >>> list(chain(ModelId("unheard-of"), {}))
    ['unheard-of']
    """
    seen = set()
    current: ModelId | None = model_id
    # Ids are never used again, so a record can't inherit from its own descendant; a damaged one might say so.
    while current is not None and current not in seen:
        seen.add(current)
        yield current
        record = records.get(current)
        current = None if record is None else record.ancestor


def common_ancestor(first: ModelId, second: ModelId, records: Mapping[ModelId, ModelRecord]) -> ModelId | None:
    """Return the nearest model that both inherited from; a model counts as its own ancestor. None: there is none."""
    others = set(chain(second, records))
    return next((model for model in chain(first, records) if model in others), None)
