"""Types that all packages share: names and their rules, ticks, tensor specifications, objectives."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from reprlib import Repr
from typing import Any, Literal, NamedTuple, NewType

import ml_dtypes
import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput, InvalidName

ModelId = NewType("ModelId", str)
"""Name of a model in a repository: 1 to 100 ASCII letters, digits, ``.``, ``_`` or ``-``, first a letter or digit."""

VertexId = NewType("VertexId", bytes)
"""blake2b-128 of a vertex' signature and its whole ancestor cone (16 bytes)."""

JSON = Any
"""A value that JSON can carry: None, bool, int, finite float, str, list, dict with str keys."""

# Ids are parts of file names: no separators, and the first letter rules out hidden files and `..`.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_LABEL = re.compile(r"[a-z]{1,20}:[\w .+@#()-]{1,150}")


def check_name(name: object, what: str = "model id") -> str:
    """Return `name` if it may name a model, scope or run.

    Raises
    ------
    InvalidName
        With the rule, and a shortened copy of what was found.

    Examples
    --------
    >>> check_name("attn-00042")
    'attn-00042'
    >>> check_name("../x")
    Traceback (most recent call last):
    daskevo.errors.InvalidName: '../x' can't be a model id: use 1 to 100 ASCII letters, digits, '.', '_' or '-', ...
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise InvalidName(
        f"{shorten(name)} can't be a {what}: use 1 to 100 ASCII letters, digits, '.', '_' or '-', "
        "the first a letter or a digit",
        what=what,
    )


def check_label(label: object) -> str:
    """Return `label` if it may keep a model alive: ``kind:name``, such as ``user:my paper`` or ``best:run-1``.

    Raises
    ------
    InvalidName
        With the rule, and a shortened copy of what was found.
    """
    if isinstance(label, str) and _LABEL.fullmatch(label):
        return label
    raise InvalidName(
        f"{shorten(label)} can't be a label: write 'kind:name' with a kind of lower-case letters and a name of "
        "1 to 150 letters, digits, spaces or any of . _ + @ # ( ) -",
        what="label",
    )


def check_path(path: str | os.PathLike[str], what: str = "path") -> str:
    """Return a path as text that records can keep, which are UTF-8: file systems take names of any bytes.

    Parameters
    ----------
    what:
        What the path is of, for the message.

    Raises
    ------
    InvalidInput

    Examples
    --------
    >>> check_path("runs/öl")
    'runs/öl'
    >>> check_path(b"runs/\\xffl".decode(errors="surrogateescape"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    daskevo.errors.InvalidInput: the path 'runs/\\udcffl' holds bytes that are no UTF-8 text, ...
    """
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"the {what} {text!r:.200} holds bytes that are no UTF-8 text, which the records of runs and repositories "
            "can't carry: rename the folder or file (mv), or use another one",
            what=what,
        ) from None
    return text


def json_objects(value: JSON) -> Iterator[dict[str, JSON]]:
    """Yield all objects in a JSON value, itself among them, in no order; however deep they are nested."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            pending += part.values()
            yield part


def check_json(value: object, what: str, *, depth: int = 64, values: int = 1_000_000) -> JSON:
    """Return `value` if JSON carries it unchanged: no tuples, numpy scalars, NaN or keys other than str.

    Parameters
    ----------
    value:
        Anything, hostile input included.
    what:
        What the value is, for the message.
    depth, values:
        How deep lists and dicts may nest, and how many values there may be in all.

    Raises
    ------
    InvalidInput
        With the first part that JSON can't carry.

    Examples
    --------
    >>> check_json({"units": [16, 32]}, "config")
    {'units': [16, 32]}
    >>> check_json((16, 32), "option")
    Traceback (most recent call last):
    daskevo.errors.InvalidInput: the option holds (16, 32) of type tuple, ...
    """
    # Level by level, not recursive: hostile nesting must not reach Python's own limit.
    level: list[object] = [value]
    total = 1
    for _ in range(depth + 1):
        deeper: list[object] = []
        for part in level:
            if total + len(deeper) > values:
                raise InvalidInput(f"the {what} holds more than {values} values, the most that is allowed", what=what)
            kind = type(part)
            if part is None or kind is bool:
                continue
            if kind is str:
                if not part.isascii():  # type: ignore[attr-defined]
                    _check_text(part, what)
            elif kind is int:
                # Longer integers would not survive int <-> str conversion, nor any other JSON reader.
                if not -(2**64) < part < 2**64:  # type: ignore[operator]
                    raise InvalidInput(f"the {what} holds an integer of more than 64 bits", what=what)
            elif kind is float:
                if not math.isfinite(part):  # type: ignore[arg-type]
                    raise InvalidInput(f"the {what} holds {part}, which JSON can't carry", what=what)
            elif kind is list:
                deeper.extend(part)  # type: ignore[arg-type]
            elif kind is dict:
                for key in part:  # type: ignore[attr-defined]
                    if type(key) is not str or not key.isascii():
                        _check_text(key, what)
                deeper.extend(part.values())  # type: ignore[attr-defined]
            else:
                raise InvalidInput(
                    f"the {what} holds {shorten(part)} of type {kind.__name__}, which JSON can't carry unchanged: "
                    "use None, bool, int, float, str, lists and dicts with str keys",
                    what=what,
                )
        if not deeper:
            return value
        total += len(deeper)
        level = deeper
    raise InvalidInput(f"the {what} nests deeper than {depth} levels, the most that is allowed", what=what)


def _check_text(text: object, what: str) -> None:
    if type(text) is not str:
        raise InvalidInput(f"the {what} has the key {shorten(text)}, which is no str", what=what)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"the {what} holds {shorten(text)}, which UTF-8 can't carry (a lone surrogate)", what=what
        ) from None


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def shorten(value: object) -> str:
    """Return text for a hostile value of any length and depth that is short enough for a message."""
    # reprlib's, because it may be too deep for repr.
    return _SHORT.repr(value)[:160]


class Tick(NamedTuple):
    """A moment that the coordinator names once: totally ordered, never reused (protocol: generation, counter)."""

    generation: int
    counter: int

    @classmethod
    def parse(cls, value: object) -> Tick:
        """Read ``[generation, counter]`` as it stands in messages and records.

        Raises
        ------
        CorruptRecord
            If it is anything else.
        """
        if isinstance(value, (list, tuple)) and len(value) == 2:
            generation, counter = value
            # The exact type, since a bool is an int; below 2**63, since the prefix index keeps ticks as int64.
            if type(generation) is int is type(counter) and 0 <= generation < 2**63 and 0 <= counter < 2**63:
                return cls(generation, counter)
        raise CorruptRecord(f"expected a tick [generation, counter], found {shorten(value)}")


Attempt = Tick
"""One try of one holder to make a model, or to read one."""

_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "int4",
        "uint4",
    )
}
_ML_DTYPES = sorted(_DTYPES)
_NUMPY_DTYPES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")


def dtype_of(name: object) -> np.dtype[Any]:
    """Return the numpy dtype of a stored dtype name, e.g. ``float32``, ``bfloat16``, ``float8_e4m3fn``.

    Raises
    ------
    CorruptRecord
        If no such dtype can be stored.
    """
    if isinstance(name, str):
        if name in _DTYPES:
            return _DTYPES[name]
        if _NUMPY_DTYPES.fullmatch(name):
            # The names that fit are few, and looking one up again is ten times faster.
            return _DTYPES.setdefault(name, np.dtype(name))
    raise CorruptRecord(f"{shorten(name)} is no dtype that daskevo stores; known are numpy's numbers and {_ML_DTYPES}")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and dtype of one tensor; values are little-endian and C-contiguous wherever they are stored."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Size of the values, in bytes."""
        return math.prod(self.shape) * dtype_of(self.dtype).itemsize

    def to_json(self) -> JSON:
        return [list(self.shape), self.dtype]

    @classmethod
    def from_json(cls, value: JSON) -> TensorSpec:
        """Read ``[shape, dtype]``; raises CorruptRecord on anything else, sizes beyond 2**62 bytes included."""
        match value:
            case [[*shape], str() as dtype]:
                # True and 1.0 would be found in the cache under 1.
                if len(shape) <= 64 and _INT.issuperset(map(type, shape)):
                    spec = _checked_spec(tuple(shape), dtype)
                    if spec is not None:
                        return spec
        raise CorruptRecord(f"expected a tensor specification [shape, dtype], found {shorten(value)}")

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> TensorSpec:
        """Return the specification of an array (big-endian arrays are stored little-endian under the same name)."""
        return cls(tuple(array.shape), _name_of(array.dtype))


_INT = frozenset({int})


@functools.lru_cache(maxsize=1 << 14)
def _checked_spec(shape: tuple[int, ...], dtype: str) -> TensorSpec | None:
    """Return the one specification of that shape and dtype; None if a dimension or the size is out of range."""
    # Also for shapes with a 0, whose size says nothing about the other dimensions.
    if not all(0 <= n < 2**62 for n in shape):
        return None
    spec = TensorSpec(shape, dtype)
    return spec if spec.nbytes < 2**62 else None


@functools.lru_cache(maxsize=256)
def _name_of(dtype: np.dtype[Any]) -> str:
    # numpy builds the name in Python each time: 10 us, for a hundred tensors as long as writing them.
    return dtype.newbyteorder("=").name


@dataclass(frozen=True, slots=True)
class Objective:
    """What a scope maximises or minimises, e.g. ``max val_auc``. Users never see a negated figure.

    Examples
    --------
    >>> Objective.parse("min val_loss").rank(0.25)
    -0.25
    """

    direction: Literal["max", "min"]
    metric: str

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read ``max METRIC`` or ``min METRIC``; raises InvalidInput on anything else."""
        words = text.split() if isinstance(text, str) else []
        if len(words) == 2:
            if words[0] == "max":
                return cls("max", words[1])
            if words[0] == "min":
                return cls("min", words[1])
        raise InvalidInput(
            f"{shorten(text)} is no objective: write 'max METRIC' or 'min METRIC', such as 'max val_auc'"
        )

    @classmethod
    def parse_all(cls, texts: str | Sequence[str]) -> tuple[Objective, ...]:
        """Read one objective, or several of different metrics, the one that breaks ties first.

        Raises
        ------
        InvalidInput
            On anything else.
        """
        found = tuple(map(cls.parse, texts if isinstance(texts, (list, tuple)) else [texts]))
        if not found or len({objective.metric for objective in found}) < len(found):
            raise InvalidInput(f"{shorten(texts)}: name at least one objective, and each metric once")
        return found

    def __str__(self) -> str:
        return f"{self.direction} {self.metric}"

    def rank(self, quality: float) -> float:
        """Return a figure that is larger for better qualities (for comparing, not for showing)."""
        return quality if self.direction == "max" else -quality

    def quality(self, metrics: dict[str, Any]) -> float | None:
        """Return the metric's value if it is a finite number, else None (None never wins)."""
        value = metrics.get(self.metric)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            return None
        try:
            value = float(value)
        except OverflowError:  # an integer beyond 10**308
            return None
        return value if math.isfinite(value) else None
