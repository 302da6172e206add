"""The interface of hyper-parameter sequences: an exact number for each training step, storable as JSON.

A sequence is a function of the integer step from 0 (paper 002, chapter 3). Two sequences are equal over a range of
steps if their values are bit-identical there, however they are written; such steps can be shared by trials.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, ClassVar

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning.exact import Floats
from daskevo.types import JSON

MOST_STEPS = 2**27
"""Largest step: a mistyped large number raises an error instead of computing values for ever."""

CHUNK = 1024
"""Number of steps whose values are digested together. Part of every key: changing it makes all stored keys invalid."""

Bits = np.ndarray[Any, np.dtype[np.uint64]]

_KINDS: dict[str, type[StepSequence]] = {}


class StepSequence(ABC):
    """A hyper-parameter's value at each step; the unit of a step is set by the configuration.

    Implementations are frozen dataclasses with a `kind`, whose fields are numbers, tuples of numbers, or sequences.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _KINDS[cls.kind] = cls

    @abstractmethod
    def evaluate(self, start: int, stop: int) -> Floats:
        """Return the values at steps `start` up to before `stop`, both checked. # (stop - start,) float64"""

    def values(self, start: int, stop: int) -> Floats:
        """Return the values at steps `start` up to before `stop`, float64. # (stop - start,)

        Raises
        ------
        InvalidInput
            If that is not a range of steps, or a value is not finite, such as an exponential that overflows.

        Examples
        --------
        >>> from daskevo.tuning import MultiStep
        >>> MultiStep(0.5, (2,), 0.5).values(0, 4).tolist()
        [0.5, 0.5, 0.25, 0.25]
        """
        check_steps(start, "first step")
        check_steps(stop, "end of the steps", start)
        found = self.evaluate(start, stop)
        finite = np.isfinite(found)
        if not finite.all():
            # The first False.
            step = start + int(np.argmin(finite))
            raise InvalidInput(
                f"{self} is {found[step - start]} at step {step}: use parameters that give finite numbers until there",
                step=step,
            )
        return found

    def __call__(self, step: int) -> float:
        """Return the value at one step."""
        return float(self.values(step, step + 1)[0])

    def to_json(self) -> JSON:
        """Return the sequence as JSON, which :func:`sequence_from_json` reads back exactly."""
        return {"kind": self.kind, **{field.name: _data(getattr(self, field.name)) for field in _fields(self)}}


def sequence_from_json(value: JSON) -> StepSequence:
    """Read what `to_json` wrote.

    Raises
    ------
    CorruptRecord
        On anything else.

    Examples
    --------
    >>> from daskevo.tuning import Constant
    >>> sequence_from_json(Constant(0.1).to_json())
    Constant(value=0.1)
    """
    match value:
        case {"kind": str() as kind} if kind in _KINDS:
            cls = _KINDS[kind]
            # Exactly its fields: a sequence of a later version, with one more, would have other values here.
            if set(value) == {"kind", *(field.name for field in _fields(cls))}:
                try:
                    return cls(**{name: _parsed(part, kind) for name, part in value.items() if name != "kind"})
                except InvalidInput as error:
                    raise CorruptRecord(f"not a sequence as daskevo writes it: {error}") from error
    raise CorruptRecord(f"expected a sequence of a kind among {sorted(_KINDS)}, found {repr(value)[:200]}")


def _fields(sequence: Any) -> tuple[Any, ...]:
    return fields(sequence)


def _data(value: Any) -> JSON:
    if isinstance(value, StepSequence):
        return value.to_json()
    return list(map(_data, value)) if isinstance(value, tuple) else value


def _parsed(value: JSON, kind: str) -> Any:
    if not isinstance(value, list):
        return value
    # Only pieces contain sequences, and no piece is a joined one: refuse deeper nesting without reading it.
    return tuple(map(_piece, value)) if kind == "joined" else tuple(value)


def _piece(value: JSON) -> Any:
    match value:
        case [begin, {"kind": str() as kind} as sequence] if kind != "joined":
            return begin, sequence_from_json(sequence)
    raise InvalidInput(f"expected a piece [step, sequence], found {repr(value)[:80]}")


@lru_cache(maxsize=2**16)
def chunk_digest(sequence: StepSequence, chunk: int) -> bytes:
    """Return a digest of the bits of the values in steps ``CHUNK * chunk`` until before ``CHUNK * (chunk + 1)``."""
    return blake2b(chunk_bits(sequence, chunk).tobytes(), digest_size=16).digest()


# 8 KiB each, so 8 MiB at most; digests take 16 bytes, and more of them are kept.
@lru_cache(maxsize=2**10)
def chunk_bits(sequence: StepSequence, chunk: int) -> Bits:
    """Return the bits of the values of a chunk, not to be changed. # (CHUNK,)"""
    return bits(sequence, CHUNK * chunk, CHUNK * (chunk + 1))


def bits_digest(sequence: StepSequence, start: int, stop: int) -> bytes:
    """Return a digest of the bits of the values in a range of steps."""
    return blake2b(bits(sequence, start, stop).tobytes(), digest_size=16).digest()


def bits(sequence: StepSequence, start: int, stop: int) -> Bits:
    """Return the bits of the values in a range of steps, little-endian, not checked for being finite."""
    # A fixed byte order, so that keys are the same on every machine. Not checked, because a trial may end before.
    return sequence.evaluate(start, stop).astype("<f8", copy=False).view("<u8")


def number(value: object, what: str) -> float:
    """Return a parameter as a float: any finite number.

    Raises
    ------
    InvalidInput
    """
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        # An integer that no float equals would be trained with as another number.
        if math.isfinite(found) and found == value:
            return found + 0.0  # without the sign of -0.0: equal parameters give equal bits
    raise InvalidInput(f"{what} is {repr(value)[:80]}, expected a finite number")


def check_steps(value: object, what: str, least: int = 0) -> int:
    """Return a number of steps, or a step, of at least `least`.

    Raises
    ------
    InvalidInput
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= value <= MOST_STEPS:
        return int(value)
    beyond = f" to {MOST_STEPS:,}" if isinstance(value, (int, np.integer)) and value > MOST_STEPS else ""
    raise InvalidInput(f"{what} is {repr(value)[:80]}, expected a whole number of steps from {least}" + beyond)
