"""Model spaces: named choices in graph order, and candidates as points among their options."""

from __future__ import annotations

import copy
import itertools
import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.types import JSON, check_json

MAX_CHOICES = 10_000
MAX_OPTIONS = 1_000_000
_MAX_NAME_CHARACTERS = 200
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point of a model space, not trained yet.

    Parameters
    ----------
    values:
        The index of the option taken, choice by choice. # (n_choices,)
    """

    values: tuple[int, ...]

    def to_json(self) -> JSON:
        return list(self.values)

    @classmethod
    def from_json(cls, value: JSON) -> Candidate:
        """Read a list of option indices; raises CorruptRecord on anything else.

        Whether they lie in a given space is what :meth:`Space.decode` checks.
        """
        if (
            isinstance(value, list)
            and len(value) <= MAX_CHOICES
            and all(type(index) is int and 0 <= index < MAX_OPTIONS for index in value)
        ):
            return cls(tuple(value))
        raise CorruptRecord("expected a candidate, a list of option indices from 0, found something else")


@dataclass(frozen=True)
class Choice:
    """One decision of a model space.

    Parameters
    ----------
    name:
        What the problem's `build` knows it by.
    options:
        JSON values, no two of them equal; tuples are kept as lists, as they come back from any record.

    Raises
    ------
    InvalidInput
        If there is no option, one twice, or one that JSON can't carry.
    """

    name: str
    options: tuple[JSON, ...]

    def __post_init__(self) -> None:
        if type(self.name) is not str or not 1 <= len(self.name) <= _MAX_NAME_CHARACTERS:
            raise InvalidInput(
                f"a choice needs a name of 1 to {_MAX_NAME_CHARACTERS} characters, not {self.name!r:.80}"
            )
        check_json(self.name, "name of a choice")
        if not isinstance(self.options, Sequence) or isinstance(self.options, str) or not self.options:
            raise InvalidInput(f"choice {self.name!r} needs its options as a tuple of at least one")
        if len(self.options) > MAX_OPTIONS:
            raise InvalidInput(f"choice {self.name!r} has {len(self.options)} options, of {MAX_OPTIONS} allowed")
        options = tuple(_lists(option) for option in self.options)
        check_json(list(options), f"options of choice {self.name!r}", values=10 * MAX_OPTIONS)
        # Frozen, so this is the way to keep the lists made of tuples.
        object.__setattr__(self, "options", options)
        if len(self._indices) < len(options):
            raise InvalidInput(f"two options of choice {self.name!r} are equal; each may stand once")

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {_canonical(option): index for index, option in enumerate(self.options)}

    def index(self, option: JSON) -> int:
        """Return the index of an option.

        Raises
        ------
        InvalidInput
            If the choice doesn't have it.
        """
        option = _lists(option)
        check_json(option, f"option for choice {self.name!r}")
        try:
            return self._indices[_canonical(option)]
        except KeyError:
            shown = ", ".join(map(repr, self.options[:5])) + (", ..." if len(self.options) > 5 else "")
            raise InvalidInput(f"choice {self.name!r} has no option {option!r:.80}; it has {shown:.300}") from None


@dataclass(frozen=True)
class Space:
    """All candidates of a problem: the product of its choices.

    Parameters
    ----------
    name:
        A name for people and records.
    choices:
        In graph order: choices that shape layers near the inputs come first, so that a mutation of a late choice
        leaves a long prefix.

    Raises
    ------
    InvalidInput
        If two choices share a name or there is none.

    Examples
    --------
    >>> space = Space("tiny", (Choice("units", (16, 32)), Choice("activation", ("relu", "tanh", None))))
    >>> space.size
    6
    >>> rng = np.random.default_rng(0)
    >>> candidate = space.sample(rng)
    >>> space.values(candidate)
    {'units': 32, 'activation': 'tanh'}
    >>> space.mutate(candidate, rng) != candidate
    True
    """

    name: str
    choices: tuple[Choice, ...]

    def __post_init__(self) -> None:
        if type(self.name) is not str or not 1 <= len(self.name) <= _MAX_NAME_CHARACTERS:
            raise InvalidInput(f"a space needs a name of 1 to {_MAX_NAME_CHARACTERS} characters, not {self.name!r:.80}")
        check_json(self.name, "name of a space")
        object.__setattr__(self, "choices", tuple(self.choices))
        if not 1 <= len(self.choices) <= MAX_CHOICES:
            raise InvalidInput(f"space {self.name!r} has {len(self.choices)} choices, of 1 to {MAX_CHOICES} allowed")
        for choice in self.choices:
            if not isinstance(choice, Choice):
                raise InvalidInput(f"space {self.name!r} is made of Choice objects, not of {type(choice).__name__}")
        for name, times in Counter(choice.name for choice in self.choices).items():
            if times > 1:
                raise InvalidInput(
                    f"space {self.name!r} has two choices named {name!r}; names are how `build` tells them"
                )

    @cached_property
    def size(self) -> int:
        """Number of candidates, exact."""
        return math.prod(len(choice.options) for choice in self.choices)

    @property
    def size_text(self) -> str:
        """The size for people: exact up to a million, then as a power of ten such as ``1.5e19``."""
        # Neither float nor str takes integers of any length.
        return str(self.size) if self.size <= 1_000_000 else f"{Decimal(self.size):.1e}".replace("+", "")

    def values(self, candidate: Candidate) -> dict[str, JSON]:
        """Return choice name -> the option taken, in copies that may be changed.

        Raises
        ------
        InvalidInput
            If the candidate isn't of this space.
        """
        self.check(candidate)
        return {
            choice.name: copy.deepcopy(choice.options[index])
            for choice, index in zip(self.choices, candidate.values, strict=True)
        }

    def candidate(self, values: Mapping[str, JSON]) -> Candidate:
        """Return the candidate that takes these options, given for every choice by name.

        Raises
        ------
        InvalidInput
            If a choice is missing or unknown, or doesn't have the option.
        """
        names = [choice.name for choice in self.choices]
        if set(values) != set(names):
            missing = [name for name in names if name not in values]
            unknown = [name for name in values if name not in set(names)]
            raise InvalidInput(
                f"a candidate of space {self.name!r} takes one option for every choice: "
                f"missing {missing[:10]!r:.200}, unknown {unknown[:10]!r:.200}"
            )
        return Candidate(tuple(choice.index(values[choice.name]) for choice in self.choices))

    def check(self, candidate: Candidate) -> None:
        """Raise InvalidInput unless the candidate is of this space."""
        if len(candidate.values) != len(self.choices):
            raise InvalidInput(
                f"the candidate takes {len(candidate.values)} options, "
                f"space {self.name!r} has {len(self.choices)} choices"
            )
        for choice, index in zip(self.choices, candidate.values, strict=True):
            if type(index) is not int or not 0 <= index < len(choice.options):
                raise InvalidInput(
                    f"the candidate takes option {index!r:.40} of choice {choice.name!r}, "
                    f"which has options 0 to {len(choice.options) - 1}"
                )

    def decode(self, value: JSON) -> Candidate:
        """Read a candidate of this space from a record.

        Raises
        ------
        CorruptRecord
            If it is none, or one of another space.
        """
        candidate = Candidate.from_json(value)
        try:
            self.check(candidate)
        except InvalidInput as error:
            raise CorruptRecord(f"a recorded candidate doesn't fit: {error}") from error
        return candidate

    def sample(self, rng: np.random.Generator) -> Candidate:
        """Return a candidate drawn uniformly."""
        return Candidate(tuple(int(rng.integers(len(choice.options))) for choice in self.choices))

    def mutate(self, candidate: Candidate, rng: np.random.Generator, beta: float = 1.0) -> Candidate:
        """Return a copy that takes another option, drawn uniformly, at exactly one choice.

        Parameters
        ----------
        beta:
            The odds of the last choice against the first; in between they are spread evenly in graph order, as in
            the scripts published with paper 000. Above 1, late choices change more often and prefixes stay long.
            Choices with one option are never drawn.

        Raises
        ------
        InvalidInput
            If the candidate isn't of this space, `beta` isn't positive, or the space has a single candidate.
        """
        self.check(candidate)
        if not (isinstance(beta, (int, float)) and math.isfinite(beta) and beta > 0):
            raise InvalidInput(f"beta is {beta!r:.40}, expected a positive number")
        if self.size == 1:
            raise InvalidInput(f"space {self.name!r} holds a single candidate, so none can be mutated into another")
        odds = np.linspace(1.0, beta, len(self.choices)).tolist()
        places = [index for index, choice in enumerate(self.choices) if len(choice.options) > 1]
        ends = list(accumulate(odds[place] for place in places))
        # The product may round up to the last end.
        drawn = min(bisect_right(ends, rng.random() * ends[-1]), len(places) - 1)
        place = places[drawn]
        taken = candidate.values[place]
        option = int(rng.integers(len(self.choices[place].options) - 1))
        changed = option + (option >= taken)
        return Candidate((*candidate.values[:place], changed, *candidate.values[place + 1 :]))

    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        """Yield every candidate once, the last choice changing fastest.

        Raises
        ------
        InvalidInput
            At once, if there are more than `most`.
        """
        if self.size > most:
            raise InvalidInput(
                f"space {self.name!r} has {self.size_text} candidates, more than the {most} that may be enumerated"
            )
        return map(Candidate, itertools.product(*(range(len(choice.options)) for choice in self.choices)))

    def to_json(self) -> JSON:
        """Return the space as a JSON value; equal spaces give equal text, so that a record can tell its own."""
        return {"name": self.name, "choices": [[choice.name, list(choice.options)] for choice in self.choices]}

    @classmethod
    def from_json(cls, value: JSON) -> Space:
        """Read what `to_json` wrote; raises CorruptRecord on anything else."""
        try:
            match value:
                case {"name": name, "choices": list() as choices} if len(value) == 2:
                    return cls(name, tuple(_choice(choice) for choice in choices))
        except InvalidInput as error:
            raise CorruptRecord(f"not a model space as daskevo writes it: {error}") from error
        raise CorruptRecord("not a model space as daskevo writes it: the record is malformed")


def _choice(value: JSON) -> Choice:
    match value:
        case [name, list() as options]:
            return Choice(name, tuple(options))
    raise CorruptRecord("not a model space as daskevo writes it: a choice is malformed")


def _lists(option: object, depth: int = 0) -> object:
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"an option nests deeper than {_MAX_DEPTH} levels, the most that is allowed")
    if isinstance(option, (tuple, list)):
        return [_lists(part, depth + 1) for part in option]
    if isinstance(option, dict):
        return {key: _lists(part, depth + 1) for key, part in option.items()}
    return option


def _canonical(option: JSON) -> str:
    # Python holds 1 == True == 1.0; JSON text tells them apart.
    return json.dumps(option, sort_keys=True)
