"""Lineage of a model: its chain of ancestors, common ancestors, and the owners of its tensors.

It works on records and tombstones alike, so lineage can be queried after retirement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from daskevo.errors import InvalidInput
from daskevo.protocol.model_record import ModelRecord
from daskevo.types import ModelId, TensorSpec


@dataclass(frozen=True)
class Contribution:
    """Tensors of a model that one owner stored."""

    owner: ModelId
    numbers: frozenset[int]
    """Tensor numbers of the model (not of the owner)."""
    nbytes: int


def contributors(record: ModelRecord, specs: Sequence[TensorSpec]) -> list[Contribution]:
    """Return the owners of a model's tensors with their shares in bytes, largest first.

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
    """Yield a model, the model it inherited from, and so on, until one is not in `records`.

    Examples
    --------
    >>> list(chain(ModelId("unheard-of"), {}))
    ['unheard-of']
    """
    seen = set()
    current: ModelId | None = model_id
    # Ids are never used again, so no model inherits from its own descendant; but a damaged record might say so, and
    # the loop must end.
    while current is not None and current not in seen:
        seen.add(current)
        yield current
        record = records.get(current)
        current = None if record is None else record.ancestor


def common_ancestor(first: ModelId, second: ModelId, records: Mapping[ModelId, ModelRecord]) -> ModelId | None:
    """Return the nearest common ancestor of two models, or None; a model counts as its own ancestor."""
    others = set(chain(second, records))
    return next((model for model in chain(first, records) if model in others), None)
