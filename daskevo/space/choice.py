"""One decision of a model space: a name, and options to choose from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from daskevo.errors import InvalidInput
from daskevo.space.candidate import MAX_NAME_CHARACTERS, MAX_OPTIONS
from daskevo.types import JSON, check_json

_MAX_DEPTH = 20


# Without slots, because `cached_property` keeps its values in the instance's `__dict__`.
@dataclass(frozen=True)
class Choice:
    """One decision of a model space.

    Parameters
    ----------
    name:
        The key under which the problem's `build` gets the option.
    options:
        JSON values, all different; tuples are stored as lists, which is how they come back from a record.

    Raises
    ------
    InvalidInput
        If there is no option, one is there twice, or one is not a JSON value.
    """

    name: str
    options: tuple[JSON, ...]

    def __post_init__(self) -> None:
        check_space_name(self.name, "choice")
        if not isinstance(self.options, Sequence) or isinstance(self.options, str) or not self.options:
            raise InvalidInput(f"choice {self.name!r} needs its options as a tuple of at least one")
        if len(self.options) > MAX_OPTIONS:
            raise InvalidInput(f"choice {self.name!r} has {len(self.options)} options, of {MAX_OPTIONS} allowed")
        options = tuple(as_lists(option) for option in self.options)
        check_json(list(options), f"options of choice {self.name!r}", values=10 * MAX_OPTIONS)
        # The dataclass is frozen, so assign through `object`.
        object.__setattr__(self, "options", options)
        if len(self._indices) < len(options):
            raise InvalidInput(f"two options of choice {self.name!r} are equal; each may stand once")

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {_canonical(option): index for index, option in enumerate(self.options)}

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the options are ordered numbers, so that neighbours inform each other."""
        numbers = [option for option in self.options if type(option) in (int, float)]
        return len(numbers) == len(self.options) and numbers == sorted(numbers)

    def find(self, option: JSON) -> int | None:
        """Return the index of an option; None if the choice doesn't have it."""
        return self._indices.get(_canonical(option))

    def index(self, option: JSON) -> int:
        """Return the index of an option.

        Raises
        ------
        InvalidInput
            If the choice doesn't have it.
        """
        option = as_lists(option)
        check_json(option, f"option for choice {self.name!r}")
        if (index := self.find(option)) is None:
            shown = ", ".join(map(repr, self.options[:5])) + (", ..." if len(self.options) > 5 else "")
            raise InvalidInput(f"choice {self.name!r} has no option {option!r:.80}; it has {shown:.300}")
        return index


def check_space_name(name: object, what: str) -> str:
    """Check a name of a space, choice or mutator, and return it.

    Raises
    ------
    InvalidInput
    """
    if type(name) is not str or not 1 <= len(name) <= MAX_NAME_CHARACTERS:
        raise InvalidInput(f"a {what} needs a name of 1 to {MAX_NAME_CHARACTERS} characters, not {name!r:.80}")
    check_json(name, f"name of a {what}")
    return name


def as_lists(option: object, depth: int = 0) -> JSON:
    """Return an option with tuples replaced by lists, as it comes back from a record."""
    # Before Python's own limit of recursion, whose error would not say what is wrong.
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"an option nests deeper than {_MAX_DEPTH} levels, the most that is allowed")
    if isinstance(option, (tuple, list)):
        return [as_lists(part, depth + 1) for part in option]
    if isinstance(option, dict):
        return {key: as_lists(part, depth + 1) for key, part in option.items()}
    return option


def _canonical(option: JSON) -> str:
    # As JSON text, because in Python 1 == True == 1.0.
    return json.dumps(option, sort_keys=True)
