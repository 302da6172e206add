"""Validate messages before they are shown: only texts, numbers and lists within limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, TypeVar

from daskevo.errors import CorruptRecord, LaterVersion
from daskevo.types import JSON

T = TypeVar("T")

MOST_LETTERS = 200_000
"""Maximum number of characters of all texts together."""
LONGEST = 500
"""Maximum number of characters of one text."""
SHORT = 200
"""Maximum number of characters of a name, which may be cut."""
LARGEST, FARTHEST = 2**62, 1e300
"""Maximum of counts, and of absolute values of numbers."""


def fields_of(value: JSON, what: str, version: int, names: set[str]) -> Mapping[str, Any]:
    """Check that a message has the right format and exactly these fields, and return them.

    Parameters
    ----------
    what:
        The subject of the message, for errors.
    names:
        Names of all fields, including ``format``.

    Raises
    ------
    CorruptRecord
        If it is not such a message.
    LaterVersion
        If it has another format version.
    """
    if not isinstance(value, Mapping) or type(value.get("format")) is not int:
        raise CorruptRecord(f"expected news of {what}, found {repr(value)}")
    if value["format"] != version:
        raise LaterVersion(
            f"news of {what} in format {value['format']} can't be shown here, only {version}: start the scheduler "
            "with the same daskevo"
        )
    if value.keys() != names:
        raise CorruptRecord(f"expected news with {sorted(names)}, found {repr(sorted(map(str, value)))}")
    return value


class Budget:
    """Limits that remain for the texts and lists of one message.

    Parameters
    ----------
    what:
        The subject of the message, for errors.
    marks:
        Maximum number of list items in all.
    letters:
        Maximum number of characters of all texts.
    """

    def __init__(self, what: str, marks: int, letters: int = MOST_LETTERS) -> None:
        self._what = what
        self._most_marks = self._marks = marks
        self._most_letters = self._letters = letters

    def text(self, value: Any) -> str:
        """Check that a value is a text within the limits."""
        if not isinstance(value, str) or len(value) > LONGEST or not _can_be_sent(value):
            raise CorruptRecord(f"expected a text of at most {LONGEST} letters, found {repr(value)}")
        self._letters -= len(value)
        if self._letters < 0:
            raise CorruptRecord(f"the texts of {self._what} have more than {self._most_letters:,} letters")
        return value

    def short(self, value: Any) -> str:
        """Return a text, cut if it is too long; for names from others that are only shown."""
        return self.text(value if not isinstance(value, str) or len(value) <= SHORT else f"{value[: SHORT - 1]}…")

    def marks(self, values: Any) -> Sequence[Any]:
        """Check a list and count its items."""
        if not isinstance(values, (list, tuple)):
            raise CorruptRecord(f"expected a list, found {repr(values)}")
        self._marks -= len(values)
        if self._marks < 0:
            raise CorruptRecord(f"{self._what} has more than {self._most_marks:,} marks")
        return values


def count(value: Any) -> int:
    """Check that a value is a whole number from 0."""
    if type(value) is not int or not 0 <= value < LARGEST:
        raise CorruptRecord(f"expected a count, found {repr(value)}")
    return value


def number(value: Any) -> float:
    """Check that a value is a finite number."""
    if type(value) not in (int, float) or not abs(value) < FARTHEST:
        raise CorruptRecord(f"expected a finite number, found {repr(value)}")
    return float(value)


def seconds(value: Any) -> float:
    """Check that a value is a number from 0."""
    if number(value) < 0:
        raise CorruptRecord(f"expected seconds from 0, found {repr(value)}")
    return float(value)


def flag(value: Any) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise CorruptRecord(f"expected true or false, found {repr(value)}")
    return value


def or_none(check: Callable[[Any], T], value: Any) -> T | None:
    """Return None, or the result of the check on another value."""
    return None if value is None else check(value)


def one_of(words: Sequence[str], value: Any) -> Any:
    """Check that a value is one of these words."""
    if not isinstance(value, str) or value not in words:
        raise CorruptRecord(f"expected one of {', '.join(words)}, found {repr(value)}")
    return value


def some(values: Any, most: int) -> Sequence[Any]:
    """Check that a value is a list within the limit."""
    if not isinstance(values, (list, tuple)) or len(values) > most:
        raise CorruptRecord(f"expected a list of at most {most}, found {repr(values)}")
    return values


def just(values: Any, length: int) -> Sequence[Any]:
    """Check that a value is a list of this length."""
    if not isinstance(values, (list, tuple)) or len(values) != length:
        raise CorruptRecord(f"expected {length} values, found {repr(values)}")
    return values


def finite(value: float | None) -> float | None:
    """Return a number if it is finite and can be sent, else None."""
    return None if value is None or not math.isfinite(value) or abs(value) >= FARTHEST else float(value)


def _can_be_sent(text: str) -> bool:
    """Tell whether a text can be encoded: unpaired surrogates can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
