"""What a message that is to be shown may hold: texts, numbers and lists within bounds, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, TypeVar

from daskevo.errors import CorruptRecord, LaterVersion
from daskevo.types import JSON

T = TypeVar("T")

MOST_LETTERS = 200_000
"""Of all texts together."""
LONGEST = 500
"""Letters of one text."""
SHORT = 200
"""Letters of a name that may be cut."""
LARGEST, FARTHEST = 2**62, 1e300
"""No count is larger, and no number is further from 0."""


def fields_of(value: JSON, what: str, version: int, names: set[str]) -> Mapping[str, Any]:
    """Return a message's fields once it is known to be of this format, and to have exactly these.

    Parameters
    ----------
    what:
        It is about, for the error.
    names:
        Of all its fields, ``format`` among them.

    Raises
    ------
    CorruptRecord
        If it is none.
    LaterVersion
        If it is of another format.
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
    """What the texts and marks of one message may still take.

    Parameters
    ----------
    what:
        The message is about, for errors.
    marks:
        How many small things it may have in all.
    letters:
        Of all texts together.
    """

    def __init__(self, what: str, marks: int, letters: int = MOST_LETTERS) -> None:
        self._what = what
        self._most_marks = self._marks = marks
        self._most_letters = self._letters = letters

    def text(self, value: Any) -> str:
        """Return a text that is short enough."""
        if not isinstance(value, str) or len(value) > LONGEST or not _can_be_sent(value):
            raise CorruptRecord(f"expected a text of at most {LONGEST} letters, found {repr(value)}")
        self._letters -= len(value)
        if self._letters < 0:
            raise CorruptRecord(f"the texts of {self._what} have more than {self._most_letters:,} letters")
        return value

    def short(self, value: Any) -> str:
        """Return a text, cut where it is too long: for names that others may give, and that are only shown."""
        return self.text(value if not isinstance(value, str) or len(value) <= SHORT else f"{value[: SHORT - 1]}…")

    def marks(self, values: Any) -> Sequence[Any]:
        """Return a list whose length is counted."""
        if not isinstance(values, (list, tuple)):
            raise CorruptRecord(f"expected a list, found {repr(values)}")
        self._marks -= len(values)
        if self._marks < 0:
            raise CorruptRecord(f"{self._what} has more than {self._most_marks:,} marks")
        return values


def count(value: Any) -> int:
    """Return a whole number from 0."""
    if type(value) is not int or not 0 <= value < LARGEST:
        raise CorruptRecord(f"expected a count, found {repr(value)}")
    return value


def number(value: Any) -> float:
    """Return a finite number."""
    if type(value) not in (int, float) or not abs(value) < FARTHEST:
        raise CorruptRecord(f"expected a finite number, found {repr(value)}")
    return float(value)


def seconds(value: Any) -> float:
    """Return a number from 0."""
    if number(value) < 0:
        raise CorruptRecord(f"expected seconds from 0, found {repr(value)}")
    return float(value)


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise CorruptRecord(f"expected true or false, found {repr(value)}")
    return value


def or_none(check: Callable[[Any], T], value: Any) -> T | None:
    """Return None, or what the check makes of another value."""
    return None if value is None else check(value)


def one_of(words: Sequence[str], value: Any) -> Any:
    """Return one of these words."""
    if not isinstance(value, str) or value not in words:
        raise CorruptRecord(f"expected one of {', '.join(words)}, found {repr(value)}")
    return value


def some(values: Any, most: int) -> Sequence[Any]:
    """Return a list that is short enough."""
    if not isinstance(values, (list, tuple)) or len(values) > most:
        raise CorruptRecord(f"expected a list of at most {most}, found {repr(values)}")
    return values


def just(values: Any, length: int) -> Sequence[Any]:
    """Return a list of this length."""
    if not isinstance(values, (list, tuple)) or len(values) != length:
        raise CorruptRecord(f"expected {length} values, found {repr(values)}")
    return values


def finite(value: float | None) -> float | None:
    """Return a number that may be sent, or None."""
    return None if value is None or not math.isfinite(value) or abs(value) >= FARTHEST else float(value)


def _can_be_sent(text: str) -> bool:
    """Tell whether a text can be a page's: halves of surrogate pairs can't be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
