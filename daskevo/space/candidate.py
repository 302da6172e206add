"""Candidates: points of a model space, stored as the chosen options."""

from __future__ import annotations

from dataclasses import dataclass

from daskevo.errors import CorruptRecord
from daskevo.types import JSON

# Bounds of what is read: a record may be damaged, or made to exhaust the memory of whoever reads it.
MAX_CHOICES = 10_000
MAX_OPTIONS = 1_000_000
MAX_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point of a model space, not trained yet: its recorded choices.

    Parameters
    ----------
    values:
        Index of the chosen option, for each choice. # (n_choices,)
    names:
        Names of the choices, in the order in which they were made, if they depend on what was chosen; empty if all
        candidates have the same choices. # (n_choices,) or (0,)
    """

    values: tuple[int, ...]
    names: tuple[str, ...] = ()

    def to_json(self) -> JSON:
        if self.names:
            return [[name, value] for name, value in zip(self.names, self.values, strict=True)]
        return list(self.values)

    @classmethod
    def from_json(cls, value: JSON) -> Candidate:
        """Read a list of option indices, or of pairs of name and index; raises CorruptRecord on anything else.

        :meth:`daskevo.space.ModelSpace.decode` also checks that they belong to a space.
        """
        if isinstance(value, list) and len(value) <= MAX_CHOICES:
            if all(_is_index(part) for part in value):
                return cls(tuple(value))
            if all(_is_named(part) for part in value):
                return cls(tuple(index for _, index in value), tuple(name for name, _ in value))
        raise CorruptRecord("expected a candidate, a list of option indices from 0, found something else")


def _is_index(value: JSON) -> bool:
    # `type`, because True is an int, too, and JSON has both.
    return type(value) is int and 0 <= value < MAX_OPTIONS


def _is_named(value: JSON) -> bool:
    match value:
        case [str(name), index]:
            return 1 <= len(name) <= MAX_NAME_CHARACTERS and _is_index(index)
    return False
