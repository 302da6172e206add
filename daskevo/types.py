"""Words that all rooms share: names and their rules, ticks, tensor specifications, qualities."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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
        f"{_shorten(name)} can't be a {what}: use 1 to 100 ASCII letters, digits, '.', '_' or '-', "
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
        f"{_shorten(label)} can't be a label: write 'kind:name' with a kind of lower-case letters and a name of "
        "1 to 150 letters, digits, spaces or any of . _ + @ # ( ) -",
        what="label",
    )


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:60] + f"... ({len(text)} characters)"


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
        if (
            isinstance(value, (list, tuple))
            and len(value) == 2
            and all(type(part) is int and 0 <= part < 2**63 for part in value)
        ):
            return cls(*value)
        raise CorruptRecord(f"expected a tick [generation, counter], found {_shorten(value)}")


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
            return np.dtype(name)
    raise CorruptRecord(
        f"{_shorten(name)} is no dtype that daskevo stores; known are numpy's numbers and {sorted(_DTYPES)}"
    )


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
                if len(shape) <= 64 and all(type(n) is int and 0 <= n < 2**62 for n in shape):
                    spec = cls(tuple(shape), dtype)
                    if spec.nbytes < 2**62:
                        return spec
        raise CorruptRecord(f"expected a tensor specification [shape, dtype], found {_shorten(value)}")

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> TensorSpec:
        """Return the specification of an array (big-endian arrays are stored little-endian under the same name)."""
        return cls(tuple(array.shape), array.dtype.newbyteorder("=").name)


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
            f"{_shorten(text)} is no objective: write 'max METRIC' or 'min METRIC', such as 'max val_auc'"
        )

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
        value = float(value)
        return value if math.isfinite(value) else None
