"""A configuration: the sequences and constants that a model is trained with, and the steps that two of them share.

Sequences are compared by digests of their values, chunk by chunk, so comparing two configurations of 100,000 steps
takes a hundred comparisons, and values are compared in one chunk only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Literal, get_args

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning.step_sequence import (
    CHUNK,
    StepSequence,
    bits,
    bits_digest,
    check_steps,
    chunk_bits,
    chunk_digest,
    sequence_from_json,
)
from daskevo.types import JSON, check_json, check_name

Unit = Literal["optimizer step", "epoch"]
"""Unit of a step: one update of the weights, or one pass over the data."""

SCHEME = b"daskevo-steps-1"
"""Part of every key, so that keys of different schemes are never equal."""


class Configuration:
    """The hyper-parameters of a training: sequences, and constants.

    Parameters
    ----------
    sequences:
        By name, such as ``learning_rate``, ``batch_size``, ``momentum``, ``weight_decay``, ``augmentation``,
        ``input_length``.
    constants:
        By name: the optimizer, a dropout rate, everything that is part of the model. Trainings with different constants
        share no step.
    unit:
        Unit of a step. Trainings with different units share no step.

    Raises
    ------
    InvalidInput
        If a name is both a sequence and a constant, or a constant is not a JSON value.

    Examples
    --------
    >>> from daskevo.tuning import Constant, MultiStep
    >>> short = Configuration({"learning_rate": Constant(0.1)}, {"optimizer": "sgd"})
    >>> long = Configuration({"learning_rate": MultiStep(0.1, (100,), 0.5)}, {"optimizer": "sgd"})
    >>> short.common_steps(long, 200), short.key(100) == long.key(100), short.key(101) == long.key(101)
    (100, True, False)
    """

    __slots__ = ("_chain", "constants", "sequences", "unit")

    def __init__(
        self,
        sequences: Mapping[str, StepSequence],
        constants: Mapping[str, JSON] | None = None,
        unit: Unit = "optimizer step",
    ) -> None:
        # Sorted, because the order in which hyper-parameters are given means nothing and must not change keys; by text,
        # because names that are no text are refused only below.
        self.sequences = dict(sorted(sequences.items(), key=lambda item: str(item[0])))
        self.constants = dict(sorted((constants or {}).items(), key=lambda item: str(item[0])))
        self.unit: Unit = unit
        if unit not in get_args(Unit):
            raise InvalidInput(f"the unit of a step is {unit!r:.40}, expected one of {get_args(Unit)}")
        for name, sequence in self.sequences.items():
            check_name(name, "hyper-parameter")
            if not isinstance(sequence, StepSequence):
                raise InvalidInput(
                    f"hyper-parameter {name!r} is {sequence!r:.80}, no sequence: write Constant({sequence!r:.20}), or "
                    "give it as a constant"
                )
        for name in self.constants:
            check_name(name, "hyper-parameter")
            if name in self.sequences:
                raise InvalidInput(f"hyper-parameter {name!r} is both a sequence and a constant")
        check_json(self.constants, "constants of a configuration")
        self._chain = [self._header()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.header == other.header and self.sequences == other.sequences

    def __hash__(self) -> int:
        return hash(self.header)

    def __repr__(self) -> str:
        shown = {**self.sequences, **self.constants}
        return f"Configuration({', '.join(f'{name}={value!r}' for name, value in shown.items())}, unit={self.unit!r})"

    def _header(self) -> bytes:
        # As JSON text, because 1, 1.0 and True are equal in Python.
        parts = json.dumps([list(self.sequences), self.constants, self.unit], sort_keys=True)
        return blake2b(parts.encode(), digest_size=16, person=SCHEME).digest()

    @property
    def header(self) -> bytes:
        """Digest of everything but the sequences' values (16 bytes); with different ones no step is shared."""
        return self._chain[0]

    def at(self, step: int) -> dict[str, float]:
        """Return the values of all sequences at a step.

        Raises
        ------
        InvalidInput
            If a value is not finite.
        """
        return {name: sequence(step) for name, sequence in self.sequences.items()}

    def check(self, until: int, since: int = 0) -> None:
        """Check that all values from step `since` up to before `until` are finite; raises InvalidInput."""
        check_steps(until, "end of the steps")
        for name, sequence in self.sequences.items():
            # Chunk by chunk: all values of a long training would take a gigabyte.
            for start in range(since, until, CHUNK):
                try:
                    sequence.values(start, min(start + CHUNK, until))
                except InvalidInput as error:
                    raise InvalidInput(f"hyper-parameter {name!r}: {error}", **error.facts) from error

    def bits_at(self, step: int) -> bytes:
        """Return the bits of all values at a step."""
        return b"".join(bits(sequence, step, step + 1).tobytes() for sequence in self.sequences.values())

    def key(self, steps: int) -> str:
        """Return a name for the first `steps` steps, equal exactly for configurations that are bit-identical there.

        Returns
        -------
        str
            32 hexadecimal digits, the same in every process and on every machine.
        """
        check_steps(steps, "steps")
        # Digests of whole chunks are chained and cached; only the rest is hashed at each call.
        whole, rest = divmod(steps, CHUNK)
        digest = self._chained(whole)
        if rest:
            start = whole * CHUNK
            parts = [bits_digest(sequence, start, steps) for sequence in self.sequences.values()]
            digest = _linked(digest, rest, parts)
        return digest.hex()

    def _chained(self, chunks: int) -> bytes:
        """Return a digest of the first `chunks` chunks."""
        chain = self._chain
        for chunk in range(len(chain) - 1, chunks):
            chain.append(
                _linked(chain[-1], CHUNK, [chunk_digest(sequence, chunk) for sequence in self.sequences.values()])
            )
        return chain[chunks]

    def common_steps(self, other: Configuration, most: int) -> int:
        """Return the number of steps from the first on that are equal in both, at most `most`.

        Examples
        --------
        >>> from daskevo.tuning import Constant, Cosine, warmup
        >>> one, two = (Configuration({"lr": warmup(0.0, 500, Cosine(0.1, 0.0, n))}) for n in (100, 200))
        >>> one.common_steps(two, 100_000)
        501
        """
        if self.header != other.header:
            return 0
        chunk = 0
        # From the front, because most trials diverge early and later chunks then need not be computed.
        while chunk * CHUNK < most and self._chained(chunk + 1) == other._chained(chunk + 1):
            chunk += 1
        start = chunk * CHUNK
        if start >= most:
            return most
        stop = min(start + CHUNK, most)
        for name, sequence in self.sequences.items():
            # Sequences that are written alike are equal; only others need their values compared.
            if sequence != other.sequences[name]:
                differs = chunk_bits(sequence, chunk) != chunk_bits(other.sequences[name], chunk)
                if differs[: stop - start].any():
                    stop = start + int(np.argmax(differs))
        return stop

    def to_json(self) -> JSON:
        """Return the configuration as data."""
        return {
            "sequences": {name: sequence.to_json() for name, sequence in self.sequences.items()},
            "constants": self.constants,
            "unit": self.unit,
        }

    @classmethod
    def from_json(cls, value: JSON) -> Configuration:
        """Read what `to_json` wrote; raises CorruptRecord on anything else."""
        try:
            match value:
                case {"sequences": dict() as sequences, "constants": dict() as constants, "unit": str() as unit}:
                    read = {name: sequence_from_json(sequence) for name, sequence in sequences.items()}
                    return cls(read, constants, unit)  # type: ignore[arg-type]
        except InvalidInput as error:
            raise CorruptRecord(f"not a configuration as daskevo writes it: {error}") from error
        raise CorruptRecord(f"expected a configuration, found {repr(value)[:200]}")


def _linked(digest: bytes, steps: int, parts: list[bytes]) -> bytes:
    linked = blake2b(digest, digest_size=16, person=SCHEME)
    # With the number of steps: a short last part must not be taken for a whole chunk.
    linked.update(steps.to_bytes(8, "little"))
    for part in parts:
        linked.update(part)
    return linked.digest()
