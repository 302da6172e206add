"""A space with the same choices for all candidates: the product of their options."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from daskevo.errors import CandidateRejected, CorruptRecord, InvalidInput
from daskevo.space.candidate import MAX_CHOICES, Candidate
from daskevo.space.choice import Choice, check_space_name
from daskevo.space.model_space import ModelSpace, Pick
from daskevo.space.size import Size
from daskevo.types import JSON

COUNTED = 100_000
"""Maximum number of candidates of a space with a condition that are counted one by one (about a second)."""


class Space(ModelSpace):
    """All candidates of a problem: the product of its choices.

    Parameters
    ----------
    name:
        A name for people and records.
    choices:
        In graph order: choices that affect layers near the inputs first, so that mutating a late choice leaves a long
        prefix.
    reject:
        Returns why a candidate, given as choice name -> option, is not allowed; None if it is. It must always give the
        same answer.

    Raises
    ------
    InvalidInput
        If two choices have the same name or there is none.

    Examples
    --------
    >>> space = Space("tiny", (Choice("units", (16, 32)), Choice("activation", ("relu", "tanh", None))))
    >>> str(space.size)
    '6'
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> candidate = space.sample(rng)
    >>> space.values(candidate)
    {'units': 32, 'activation': 'tanh'}
    >>> space.mutate(candidate, rng) != candidate
    True
    """

    def __init__(
        self, name: str, choices: Iterable[Choice], reject: Callable[[dict[str, JSON]], str | None] | None = None
    ) -> None:
        self.name = check_space_name(name, "space")
        self.choices = tuple(choices)
        self.reject = reject
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

    def __repr__(self) -> str:
        return f"Space({self.name!r}, {len(self.choices)} choices, {self.size} candidates)"

    @cached_property
    def size(self) -> Size:
        product = math.prod(len(choice.options) for choice in self.choices)
        if self.reject is None:
            return Size("exact", product)
        # Each candidate would have to be tried to know how many are rejected.
        if product > COUNTED:
            return Size("at most", product)
        return Size("exact", sum(1 for _ in self._all()))

    def _evenly(self, rng: np.random.Generator) -> Candidate:
        # A draw answers all choices, and a rejected one is repeated as a whole, which is already uniform.
        return self.sample(rng)

    def draw(self, pick: Pick) -> Candidate:
        candidate = Candidate(tuple(map(pick, self.choices)))
        self.check(candidate)
        return candidate

    def choices_of(self, candidate: Candidate) -> tuple[Choice, ...]:
        if len(candidate.values) != len(self.choices) or candidate.names:
            raise InvalidInput(
                f"the candidate takes {len(candidate.values)} options{' by name' if candidate.names else ''}, "
                f"space {self.name!r} has {len(self.choices)} choices, the same for every candidate"
            )
        for choice, index in zip(self.choices, candidate.values, strict=True):
            if type(index) is not int or not 0 <= index < len(choice.options):
                raise InvalidInput(
                    f"the candidate takes option {index!r:.40} of choice {choice.name!r}, "
                    f"which has options 0 to {len(choice.options) - 1}"
                )
        if (reason := self._rejects(candidate)) is not None:
            raise CandidateRejected(f"space {self.name!r} rejects the candidate: {reason}", reason=reason)
        return self.choices

    def _rejects(self, candidate: Candidate) -> str | None:
        if self.reject is None:
            return None
        taken = zip(self.choices, candidate.values, strict=True)
        return self.reject({choice.name: choice.options[index] for choice, index in taken})

    def _all(self) -> Iterator[Candidate]:
        every = map(Candidate, itertools.product(*(range(len(choice.options)) for choice in self.choices)))
        return (candidate for candidate in every if self._rejects(candidate) is None)

    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        if self.size.count is None or self.size.count > most:
            raise InvalidInput(
                f"space {self.name!r} has {self.size} candidates, more than the {most} that may be enumerated"
            )
        return self._all()

    def to_json(self) -> JSON:
        """Return the space as a JSON value; equal spaces give equal text, so a record can recognise its own."""
        return {"name": self.name, "choices": [[choice.name, list(choice.options)] for choice in self.choices]}

    @classmethod
    def from_json(cls, value: JSON) -> Space:
        """Read what `to_json` wrote (without a condition); raises CorruptRecord on anything else."""
        try:
            match value:
                # No other keys: spaces that write more, such as grids of hyper-parameters, read their options in
                # another way.
                case {"name": name, "choices": list() as choices} if len(value) == 2:
                    return cls(name, tuple(_choice(choice) for choice in choices))
        except InvalidInput as error:
            raise CorruptRecord(f"not a model space as daskevo writes it: {error}") from error
        raise CorruptRecord("not a model space as daskevo writes it: the record is malformed")


def check_static(space: object, why: str) -> None:
    """Check that all candidates of a space have the same choices.

    Parameters
    ----------
    why:
        What is not possible otherwise, for the message.

    Raises
    ------
    InvalidInput
    """
    if not isinstance(space, Space):
        name = getattr(space, "name", "")
        raise InvalidInput(f"{type(space).__name__} {name!r:.80} is no space with the same choices for all: {why}")


def _choice(value: JSON) -> Choice:
    match value:
        case [name, list() as options]:
            return Choice(name, tuple(options))
    raise CorruptRecord("not a model space as daskevo writes it: a choice is malformed")
