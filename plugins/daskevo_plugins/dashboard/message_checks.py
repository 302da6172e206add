"""Check messages before they are shown: a table says of each field what kind it is and how large it may be.

A :data:`Kind` takes a value as it arrived and the budget of its message. It returns the value as it is kept, or raises
CorruptRecord. `many`, `row`, `fields`, `one_of` and `or_none` make kinds of kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, TypeAlias, TypeVar

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
"""Maximum of counts, and of absolute values of numbers; sums and differences of several stay numbers."""


class Budget:
    """Limits that remain for the texts and lists of one message.

    Each text and list has a limit of its own, but thousands of them at their limits would still fill the scheduler's
    memory and the page.

    Parameters
    ----------
    what:
        The subject of the message, for errors.
    marks:
        Maximum number of list items in all.
    letters:
        Maximum number of characters of all texts.
    """

    def __init__(self, what: str, marks: int = 0, letters: int = MOST_LETTERS) -> None:
        self._what = what
        self._most_marks = self._marks = marks
        self._most_letters = self._letters = letters

    def spend_letters(self, number: int) -> None:
        self._letters -= number
        if self._letters < 0:
            raise CorruptRecord(f"the texts of {self._what} have more than {self._most_letters:,} letters")

    def spend_marks(self, number: int) -> None:
        self._marks -= number
        if self._marks < 0:
            raise CorruptRecord(f"{self._what} has more than {self._most_marks:,} marks")


Kind: TypeAlias = Callable[[Any, Budget], T]


def read_news(value: JSON, what: str, version: int, kinds: Mapping[str, Kind[Any]], budget: Budget) -> dict[str, Any]:
    """Check news of a search or study, which have exactly these fields and their format; return the fields.

    Parameters
    ----------
    what:
        The subject of the message, for errors.

    Raises
    ------
    CorruptRecord
        If it is not such a message.
    LaterVersion
        If it has another format version.
    """
    # `type(...) is int`, here and below: True is an int, too, but no number that a sender means.
    if not isinstance(value, Mapping) or type(value.get("format")) is not int:
        raise CorruptRecord(f"expected news of {what}, found {repr(value)}")
    if value["format"] != version:
        raise LaterVersion(
            f"news of {what} in format {value['format']} can't be shown here, only {version}: start the scheduler "
            "with the same daskevo"
        )
    # A field that is not known here is refused, too: its sender would believe that it is shown.
    if value.keys() != (names := kinds.keys() | {"format"}):
        raise CorruptRecord(f"expected news with {sorted(names)}, found {repr(sorted(map(str, value)))}")
    return {name: kind(value[name], budget) for name, kind in kinds.items()}


def as_message(news: Any, version: int) -> dict[str, JSON]:
    """Return news, a dataclass, as the message that `read_news` checks."""
    return {"format": version, **{name: _plain(getattr(news, name)) for name in news.__dataclass_fields__}}


def _plain(value: Any) -> JSON:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.to_json() if hasattr(value, "to_json") else value


def text(value: Any, budget: Budget) -> str:
    """Check that a value is a text within the limits."""
    if not isinstance(value, str) or len(value) > LONGEST or not _can_be_sent(value):
        raise CorruptRecord(f"expected a text of at most {LONGEST} letters, found {repr(value)}")
    budget.spend_letters(len(value))
    return value


def short(value: Any, budget: Budget) -> str:
    """Return a text, cut if it is too long; for names from others that are only shown."""
    # Cut before the check: a name from others may be of any length, and its beginning is enough to tell it apart.
    return text(value if not isinstance(value, str) or len(value) <= SHORT else f"{value[: SHORT - 1]}…", budget)


def count(value: Any, _: Budget) -> int:
    """Check that a value is a whole number from 0."""
    if type(value) is not int or not 0 <= value < LARGEST:
        raise CorruptRecord(f"expected a count, found {repr(value)}")
    return value


def number(value: Any, _: Budget) -> float:
    """Check that a value is a finite number."""
    # Not a number compares as False, so that `not <` refuses it, too.
    if type(value) not in (int, float) or not abs(value) < FARTHEST:
        raise CorruptRecord(f"expected a finite number, found {repr(value)}")
    return float(value)


def seconds(value: Any, budget: Budget) -> float:
    """Check that a value is a number from 0."""
    if number(value, budget) < 0:
        raise CorruptRecord(f"expected seconds from 0, found {repr(value)}")
    return float(value)


def flag(value: Any, _: Budget) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise CorruptRecord(f"expected true or false, found {repr(value)}")
    return value


def anything(value: Any, _: Budget) -> Any:
    """Return a value that is checked elsewhere."""
    return value


def or_none(kind: Kind[T]) -> Kind[T | None]:
    """Return the kind of None, or of another kind."""
    return lambda value, budget: None if value is None else kind(value, budget)


def one_of(words: Sequence[str]) -> Kind[Any]:
    """Return the kind of one of these words."""

    def check(value: Any, _: Budget) -> Any:
        # A list can't be looked up in a set, and would raise another error than is caught.
        if not isinstance(value, str) or value not in words:
            raise CorruptRecord(f"expected one of {', '.join(words)}, found {repr(value)}")
        return value

    return check


def many(kind: Kind[T], most: int | None = None) -> Kind[tuple[T, ...]]:
    """Return the kind of a list of at most so many items of a kind; None: the items count as the budget's marks."""

    def check(values: Any, budget: Budget) -> tuple[T, ...]:
        # The length comes first: nothing is built of a list that is too long.
        if not isinstance(values, (list, tuple)) or (most is not None and len(values) > most):
            raise CorruptRecord(f"expected a list{'' if most is None else f' of at most {most}'}, found {repr(values)}")
        if most is None:
            budget.spend_marks(len(values))
        return tuple(kind(value, budget) for value in values)

    return check


def row(make: Callable[[Iterable[Any]], T], *kinds: Kind[Any]) -> Kind[T]:
    """Return the kind of a list with one value of each kind; `make` is called with an iterable of them."""

    def check(values: Any, budget: Budget) -> T:
        if not isinstance(values, (list, tuple)) or len(values) != len(kinds):
            raise CorruptRecord(f"expected {len(kinds)} values, found {repr(values)}")
        return make(kind(value, budget) for kind, value in zip(kinds, values, strict=True))

    return check


def fields(what: str, kinds: Mapping[str, Kind[Any]]) -> Kind[dict[str, Any]]:
    """Return the kind of a mapping with these fields, maybe among others; `what` says in errors what it is."""

    def check(value: Any, budget: Budget) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise CorruptRecord(f"expected {what}, found {repr(value)}")
        return {name: kind(value.get(name), budget) for name, kind in kinds.items()}

    return check


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
