"""Encode dataclasses as plain values, the same for msgpack and JSON, and decode them with a check of every field.

Why not msgspec: its structs write the same bytes and encode faster (0.3 to 0.5 µs a record; here 0.7 to 2.9), but
they encode values out of range, which could not be read again; where any JSON may stand they take NaN, bytes, ints
beyond 64 bits and lone surrogates; and their errors tell neither what was found nor a later version's kind. Checks,
errors and the making of ticks and sets would stay, after a decoding that already takes longer by itself (6.3 to 6.6 µs;
here 3.7 to 7.9, all made and checked).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, get_type_hints

from daskevo.errors import CorruptRecord, InvalidInput, LaterVersion
from daskevo.protocol.limits import MAX_DEPTH, MAX_TENSORS
from daskevo.types import JSON, ModelId, TensorSpec, Tick, check_label, check_name, shorten

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Encoder and decoder of one field, with the same checks: CorruptRecord, or InvalidInput of the rules for names."""

    encode: Callable[[T], JSON]
    decode: Callable[[JSON], T]


class Wire:
    """Base of dataclasses that are sent or stored, encoded as ``{"kind": class name, field: value, ...}``.

    Fields are declared with their codec: ``label: Annotated[str, LABEL]``.
    """

    __slots__ = ()
    plain: ClassVar[bool] = False  # True for parts of other values, whose kind is known from their place

    def to_wire(self) -> dict[str, JSON]:
        """Encode the value with None, bool, int, float, str, list and dict with str keys only.

        Raises
        ------
        InvalidInput
            If a field is out of its range, so that it could not be decoded again.
        """
        value: dict[str, JSON] = {} if self.plain else {"kind": type(self).__name__}
        for name, codec in _codecs(type(self)):
            try:
                value[name] = codec.encode(getattr(self, name))
            except (CorruptRecord, InvalidInput) as error:
                raise InvalidInput(f"{type(self).__name__}.{name}: {error.message}") from error
        return value

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Decode a value that `to_wire` encoded; lists may have become tuples on the way.

        Raises
        ------
        CorruptRecord
            If a field is missing, unknown or out of its range; hostile input can't raise anything else.
        """
        name = cls.__name__
        if not isinstance(value, Mapping):
            raise CorruptRecord(f"expected a mapping for {name}, found {shorten(value)}")
        codecs = _codecs(cls)
        expected = {field_name for field_name, _ in codecs} | (set() if cls.plain else {"kind"})
        if value.keys() != expected:
            raise CorruptRecord(
                f"{name} has the fields {sorted(expected)}, found {shorten(sorted(map(str, value.keys())))}"
            )
        if not cls.plain and value["kind"] != name:
            raise CorruptRecord(f"expected a {name}, found {shorten(value['kind'])}")
        decoded = {}
        for field_name, codec in codecs:
            try:
                decoded[field_name] = codec.decode(value[field_name])
            except (CorruptRecord, InvalidInput) as error:
                raise CorruptRecord(f"{name}.{field_name}: {error}") from error
        try:
            return cls(**decoded)
        except InvalidInput as error:
            raise CorruptRecord(f"{name}: {error}") from error

    def to_json(self) -> dict[str, JSON]:
        """Encode the value for storage, in the same form as on the wire."""
        return self.to_wire()

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Decode a stored value; raise CorruptRecord on hostile input."""
        return cls.from_wire(value)


_CODECS: dict[type[Wire], tuple[tuple[str, Codec[Any]], ...]] = {}


def _codecs(cls: type[Wire]) -> tuple[tuple[str, Codec[Any]], ...]:
    if cls not in _CODECS:
        # Evaluating annotations takes longer than decoding a record, so once per class, and lazily: classes that a
        # module defines later may be named in them.
        hints = get_type_hints(cls, include_extras=True)
        _CODECS[cls] = tuple((part.name, hints[part.name].__metadata__[0]) for part in fields(cast(Any, cls)))
    return _CODECS[cls]


def wire_kinds(*kinds: type[Wire]) -> dict[str, type[Wire]]:
    """Return classes by the kind in their encoded values."""
    return {kind.__name__: kind for kind in kinds}


def decode_kind(value: object, kinds: Mapping[str, type[Wire]], what: str, *, kept: bool = False) -> Any:
    """Decode a value that names its kind, one of `kinds`; raise CorruptRecord for others.

    `kept`: the value comes from a file whose checksum is right, so an unknown kind was written by a later version of
    daskevo, for which LaterVersion is raised.
    """
    kind = value.get("kind") if isinstance(value, Mapping) else None
    cls = kinds.get(kind) if isinstance(kind, str) else None
    if cls is None and isinstance(kind, str) and kept:
        raise LaterVersion(
            f"a {what} of the kind {shorten(kind)} was written by a later version of daskevo: this one knows "
            f"{sorted(kinds)}. Use a daskevo that reads it; nothing was used or changed",
            record_kind=kind[:60],
        )
    if cls is None:
        raise CorruptRecord(f"expected a {what}, one of {sorted(kinds)}, found {shorten(kind or value)}")
    return cls.from_wire(value)


def json_value(value: object, depth: int = 0) -> JSON:
    """Return a copy of `value` as pure JSON, with tuples as lists; raise CorruptRecord if JSON can't represent it."""
    if value is None or value is True or value is False:
        return value
    kind = type(value)  # exact types: a subclass, such as a NumPy scalar, may not survive msgpack and JSON
    if kind is str:
        return text(value)
    if kind is int:
        # The integers that msgpack can carry.
        if -(2**63) <= value < 2**64:  # type: ignore[operator]
            return value
    elif kind is float:
        if math.isfinite(value):  # type: ignore[arg-type]
            return value
    elif depth >= MAX_DEPTH:
        raise CorruptRecord(f"nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, (list, tuple)):
        return [json_value(part, depth + 1) for part in value]
    elif isinstance(value, dict) and all(type(key) is str for key in value):
        return {text(key): json_value(part, depth + 1) for key, part in value.items()}
    raise CorruptRecord(f"JSON can't carry {shorten(value)}: use None, bool, 64-bit int, finite float, str, list, dict")


def text(value: object) -> str:
    """Return `value` if it is text that UTF-8 can encode; raise CorruptRecord otherwise."""
    if type(value) is str:
        if value.isascii():  # nearly all text is, and the check is much faster than encoding it
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise CorruptRecord(f"expected text, found {shorten(value)}")


def count(value: object) -> int:
    """Return `value` if it is an int from 0 to 2**63 - 1; raise CorruptRecord otherwise."""
    if type(value) is int and 0 <= value < 2**63:
        return value
    raise CorruptRecord(f"expected an int of 0 or more, found {shorten(value)}")


def _model(value: object) -> ModelId:
    return ModelId(check_name(value))


def _scope(value: object) -> str:
    # Thousands of models and tombstones have the same scope and objective: share one string among them.
    return sys.intern(check_name(value, "scope"))


def _objective(value: object) -> str:
    return sys.intern(text(value))


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise CorruptRecord(f"expected true or false, found {shorten(value)}")


def _number(value: object) -> float:
    if type(value) in (int, float) and math.isfinite(value):  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    raise CorruptRecord(f"expected a finite number, found {shorten(value)}")


def _same(value: Any) -> Any:
    return value


def optional(codec: Codec[T]) -> Codec[T | None]:
    """Return a codec for the values of `codec`, or None."""
    return Codec(
        lambda value: None if value is None else codec.encode(value),
        lambda value: None if value is None else codec.decode(value),
    )


def sequence(codec: Codec[T], limit: int = MAX_TENSORS) -> Codec[tuple[T, ...]]:
    """Return a codec for tuples of at most `limit` values."""

    def decode(value: JSON) -> tuple[T, ...]:
        if isinstance(value, (list, tuple)) and len(value) <= limit:
            return tuple(codec.decode(part) for part in value)
        raise CorruptRecord(f"expected a list of at most {limit}, found {shorten(value)}")

    def encode(values: tuple[T, ...]) -> JSON:
        _check_length(values, limit)
        return [codec.encode(value) for value in values]

    return Codec(encode, decode)


def mapping(key: Codec[Any], value: Codec[Any], limit: int = MAX_TENSORS) -> Codec[dict[Any, Any]]:
    """Return a codec for dicts, encoded as a list of pairs sorted by key, since keys in JSON are text only."""

    def decode(pairs: JSON) -> dict[Any, Any]:
        if not isinstance(pairs, (list, tuple)) or len(pairs) > limit:
            raise CorruptRecord(f"expected a list of at most {limit} pairs, found {shorten(pairs)}")
        result = {}
        for pair in pairs:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise CorruptRecord(f"expected a pair, found {shorten(pair)}")
            result[key.decode(pair[0])] = value.decode(pair[1])
        if len(result) != len(pairs):
            raise CorruptRecord("a key stands there twice")
        return result

    def encode(values: dict[Any, Any]) -> JSON:
        _check_length(values, limit)
        return [[key.encode(k), value.encode(values[k])] for k in sorted(values)]

    return Codec(encode, decode)


def _check_length(values: Sized, limit: int) -> None:
    if len(values) > limit:
        raise CorruptRecord(f"{len(values)} are more than the limit of {limit}")


def choice(*words: str) -> Codec[Any]:
    """Return a codec for one of several words."""

    def encode(value: str) -> str:
        if value not in words:
            raise InvalidInput(f"expected one of {words}, found {shorten(value)}")
        return value

    def decode(value: JSON) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise CorruptRecord(f"expected one of {words}, found {shorten(value)}")

    return Codec(encode, decode)


def part(cls: type[Any]) -> Codec[Any]:
    """Return a codec for nested values with methods `to_json` and `from_json`."""
    return Codec(lambda value: value.to_json(), lambda value: cls.from_json(value))


def runs(numbers: Iterable[int]) -> list[int]:
    """Encode a set of tensor numbers as ``[start, stop, start, stop, ...]``, which is short since most are ranges.

    Examples
    --------
    >>> runs({0, 1, 2, 7})
    [0, 3, 7, 8]
    """
    result: list[int] = []
    for number in sorted(numbers):
        if result and result[-1] == number:
            result[-1] = number + 1
        else:
            result += [number, number + 1]
    return result


def _runs(numbers: Iterable[int]) -> list[int]:
    found = runs(numbers)
    if found and (found[0] < 0 or found[-1] > MAX_TENSORS):
        raise CorruptRecord(f"tensor numbers go from 0 to {MAX_TENSORS - 1}, not from {found[0]} to {found[-1] - 1}")
    return found


def numbers_of(value: object) -> frozenset[int]:
    """Decode numbers that `runs` encoded; raise CorruptRecord, also for numbers above MAX_TENSORS or unordered runs.

    Examples
    --------
    >>> sorted(numbers_of([0, 3, 7, 8]))
    [0, 1, 2, 7]
    """
    # Checked in full before the set is built: a short hostile list could ask for a set that fills the memory.
    if (
        isinstance(value, (list, tuple))
        and len(value) % 2 == 0
        and all(type(bound) is int for bound in value)
        and all(low < high for low, high in pairwise(value))
        and (not value or (value[0] >= 0 and value[-1] <= MAX_TENSORS))
    ):
        bounds = iter(value)
        return frozenset(number for start, stop in zip(bounds, bounds, strict=True) for number in range(start, stop))
    raise CorruptRecord(f"expected runs [start, stop, ...] of tensor numbers, found {shorten(value)}")


# Encoders convert to Python's own types, since msgpack refuses others, such as NumPy's numbers.
MODEL: Codec[ModelId] = Codec(str, _model)
SCOPE: Codec[str] = Codec(str, _scope)
LABEL: Codec[str] = Codec(str, check_label)
TICK: Codec[Tick] = Codec(list, Tick.parse)
NUMBERS: Codec[frozenset[int]] = Codec(_runs, numbers_of)
COUNT: Codec[int] = Codec(lambda value: count(int(value)), count)
BOOLEAN: Codec[bool] = Codec(bool, _boolean)
NUMBER: Codec[float] = Codec(lambda value: _number(float(value)), _number)
TEXT: Codec[str] = Codec(text, text)
OBJECTIVE: Codec[str] = Codec(text, _objective)
FREE: Codec[JSON] = Codec(json_value, json_value)
SPEC: Codec[TensorSpec] = part(TensorSpec)
LABELS: Codec[dict[str, Tick]] = mapping(LABEL, TICK)
USES: Codec[dict[ModelId, frozenset[int]]] = mapping(MODEL, NUMBERS)


def _metrics(value: object) -> dict[str, JSON]:
    if isinstance(value, dict):
        return json_value(value)  # type: ignore[no-any-return]
    raise CorruptRecord(f"expected metrics as a dict, found {shorten(value)}")


METRICS: Codec[dict[str, JSON]] = Codec(_metrics, _metrics)
