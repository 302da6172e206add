"""The interface of model spaces, with drawing, mutation and crossover for all of them.

A space is defined by one method, `draw`, which makes a candidate by asking for one choice after another. Random draws,
mutations, grids, policies and samplers of other libraries differ only in how they answer.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from daskevo.errors import CandidateRejected, CorruptRecord, InvalidInput
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.size import Size
from daskevo.types import JSON

if TYPE_CHECKING:
    import keras

Pick = Callable[[Choice], int]
"""Answers a choice with the index of an option."""

TRIES = 100
"""Rejected draws in a row after which a space counts as having no valid candidate."""
LISTED = 10_000
"""Largest number of candidates that are listed to draw uniformly from them."""
Over: TypeAlias = Literal["choices", "candidates"]
"""What a draw is uniform over."""


class ModelSpace(ABC):
    """All candidates of a problem.

    Implementations have a `name` and define `size`, `draw`, `choices_of`, `enumerate` and `to_json`;
    :func:`daskevo.testing.check_space` checks them.
    """

    name: str
    """A name for people and records."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """Number of candidates, and how exactly it is known."""

    def size_until(self, enough: int) -> Size:
        """Return the size, or ``at least`` `enough` + 1 if counting further would take long."""
        return self.size

    @abstractmethod
    def draw(self, pick: Pick) -> Candidate:
        """Make a candidate by asking `pick` for one choice after another, in graph order.

        Raises
        ------
        CandidateRejected
            If the picked options make no valid candidate; with the reason.
        InvalidInput
            If `pick` returns an index that the choice doesn't have.
        """

    @abstractmethod
    def choices_of(self, candidate: Candidate) -> tuple[Choice, ...]:
        """Return the choices of a candidate, in the order in which they are asked.

        Raises
        ------
        InvalidInput
            If it doesn't belong to this space.
        CandidateRejected
            If the space rejects it.
        """

    @abstractmethod
    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        """Yield every valid candidate once, the last choice changing fastest.

        Raises
        ------
        InvalidInput
            If there are more than `most`: at once if the size is known, otherwise after that many.
        """

    @abstractmethod
    def to_json(self) -> JSON:
        """Return a JSON description that differs between different spaces; a run is resumed only with an equal one."""

    def __eq__(self, other: object) -> bool:
        # As text, because options such as 1, 1.0 and True are equal in Python but not the same option.
        return type(other) is type(self) and _text(other) == _text(self)

    def __hash__(self) -> int:
        # Equal spaces have equal names; the text that `__eq__` compares takes long to make.
        return hash(self.name)

    def build(self, candidate: Candidate) -> keras.Model:
        """Build the model of a candidate, in spaces that can.

        Raises
        ------
        NotImplementedError
            If the space can't; then the problem's `build` does it.
        """
        raise NotImplementedError(f"space {self.name!r} makes no models: the problem's build() does")

    def check(self, candidate: Candidate) -> None:
        """Check that a candidate belongs to this space; raises like `choices_of`."""
        self.choices_of(candidate)

    def decode(self, value: JSON) -> Candidate:
        """Read a candidate of this space from a record.

        Raises
        ------
        CorruptRecord
            If it is not a candidate, or belongs to another space.
        """
        candidate = Candidate.from_json(value)
        try:
            self.check(candidate)
        except InvalidInput as error:
            raise CorruptRecord(f"a recorded candidate doesn't fit: {error}") from error
        return candidate

    def values(self, candidate: Candidate) -> dict[str, JSON]:
        """Return choice name -> chosen option, as copies that may be changed.

        Raises
        ------
        InvalidInput
            If the candidate doesn't belong to this space.
        """
        return {
            # The user's `build` gets these, and might change a list that all candidates share.
            choice.name: copy.deepcopy(choice.options[index])
            for choice, index in zip(self.choices_of(candidate), candidate.values, strict=True)
        }

    def candidate(self, values: Mapping[str, JSON]) -> Candidate:
        """Return the candidate with the given options, one for every choice by name.

        Raises
        ------
        InvalidInput
            If a choice is missing or unknown, or doesn't have the option.
        CandidateRejected
            If the space rejects it.
        """
        missing: list[str] = []
        met: list[str] = []

        def pick(choice: Choice) -> int:
            met.append(choice.name)
            if choice.name not in values:
                # Going on with any option lists all missing names at once.
                missing.append(choice.name)
                return 0
            return choice.index(values[choice.name])

        made = self.draw(pick)
        unknown = sorted(set(values).difference(met))
        if missing or unknown:
            raise InvalidInput(
                f"a candidate of space {self.name!r} takes one option for every choice: "
                f"missing {missing[:10]!r:.200}, unknown {unknown[:10]!r:.200}"
            )
        return made

    def sample(self, rng: np.random.Generator, over: Over = "choices") -> Candidate:
        """Return a random candidate.

        Parameters
        ----------
        over:
            ``choices``: the options of each choice are equally likely. ``candidates``: all candidates are. If all have
            the same choices (as in a `Space`) both mean the same. If choices depend on each other, the first makes
            candidates with few choices more likely; the second lists all candidates once, at its first use.

        Raises
        ------
        InvalidInput
            If a draw can't be uniform over candidates: choices depend on each other, and there are more than 10,000
            candidates or their number is unknown.
        CandidateRejected
            If too many draws in a row were rejected; with the last reason.
        """
        if over not in ("choices", "candidates"):
            raise InvalidInput(f"over={over!r:.40}: use 'choices' or 'candidates'")
        if over == "candidates":
            return self._evenly(rng)
        return self._tried(lambda: self.draw(lambda choice: drawn(choice, rng)))

    def _evenly(self, rng: np.random.Generator) -> Candidate:
        """Return a random candidate, all of them equally likely."""
        if not self._listed:
            return self.sample(rng)  # raises, and says why there are none
        return self._listed[int(rng.integers(len(self._listed)))]

    @cached_property
    def _listed(self) -> tuple[Candidate, ...]:
        try:
            return tuple(self.enumerate(LISTED))
        except InvalidInput as error:
            raise InvalidInput(
                f"draws from space {self.name!r} can't be uniform over its candidates: choices depend on each other, "
                f"and {LISTED} candidates at most are listed one by one; its size is {self.size}. "
                'over="choices" draws from any space'
            ) from error

    def mutate(self, candidate: Candidate, rng: np.random.Generator, beta: float = 1.0) -> Candidate:
        """Return a candidate with another option, drawn uniformly, at one choice.

        Later choices keep their options if they still exist; new ones are drawn uniformly.

        Parameters
        ----------
        beta:
            Odds of changing the last choice against the first; linear in between, in graph order, as in the scripts
            published with paper 000. Above 1, late choices change more often and prefixes stay long. Choices with a
            single option are never changed.

        Raises
        ------
        InvalidInput
            If the candidate doesn't belong to this space, `beta` isn't positive, or no choice has another option.
        CandidateRejected
            If too many mutations in a row were rejected; with the last reason.
        """
        choices = self.choices_of(candidate)
        if not (isinstance(beta, (int, float)) and math.isfinite(beta) and beta > 0):
            raise InvalidInput(f"beta is {beta!r:.40}, expected a positive number")
        values = candidate.values
        places = [place for place, choice in enumerate(choices) if self._others(choice, values[place])]
        if not places:
            raise InvalidInput(f"space {self.name!r} holds a single candidate, so none can be mutated into another")
        odds = np.linspace(1.0, beta, len(choices)).tolist()
        ends = list(accumulate(odds[place] for place in places))

        def mutation() -> Candidate:
            # The product may round up to the last end.
            place = places[min(bisect_right(ends, rng.random() * ends[-1]), len(places) - 1)]
            options = self._others(choices[place], values[place])
            return self.change(candidate, place, options[int(rng.integers(len(options)))], rng)

        return self._tried(mutation)

    def _others(self, choice: Choice, index: int) -> Sequence[int]:
        """Return the options that a mutation may change an option to."""
        return [option for option in range(len(choice.options)) if option != index]

    def change(self, candidate: Candidate, place: int, option: int, rng: np.random.Generator) -> Candidate:
        """Return a candidate with another option at one place, otherwise as similar as possible.

        Raises
        ------
        CandidateRejected
        """
        choices = self.choices_of(candidate)
        kept = KeptAnswers(choices, candidate.values, rng)
        asked = 0

        def pick(choice: Choice) -> int:
            nonlocal asked
            asked += 1
            return option if asked == place + 1 else kept(choice)

        return self.draw(pick)

    def crossover(self, one: Candidate, other: Candidate, rng: np.random.Generator) -> Candidate:
        """Return a candidate with each option from one of two parents (uniform crossover); missing ones are drawn.

        Raises
        ------
        InvalidInput
            If a parent doesn't belong to this space.
        CandidateRejected
            If too many in a row were rejected; with the last reason.
        """
        sources = [Taken(self.choices_of(parent), parent.values) for parent in (one, other)]

        def pick(choice: Choice) -> int:
            # The preferred parent is drawn anew for each choice; if it lacks the choice, the other one answers.
            first = int(rng.integers(2))
            for source in (sources[first], sources[1 - first]):
                if (index := source.find(choice)) is not None:
                    return index
            return drawn(choice, rng)

        return self._tried(lambda: self.draw(pick))

    def repair(self, candidate: Candidate, rng: np.random.Generator) -> Candidate:
        """Return the candidate if it is valid, otherwise a valid one that keeps most of its options.

        Parameters
        ----------
        candidate:
            Any candidate; with names it may come from an older version of the space.

        Raises
        ------
        CandidateRejected
            If none was found; with the last reason.
        """
        named = dict(zip(candidate.names, candidate.values, strict=True)) if candidate.names else None
        reason: CandidateRejected | None = None
        for attempt in range(TRIES):
            # The first try keeps everything it can; later tries redraw a growing share.
            redrawn = attempt / TRIES
            positions = itertools.count()

            def pick(choice: Choice, redrawn: float = redrawn, positions: Iterator[int] = positions) -> int:
                place = next(positions)
                values = candidate.values[place : place + 1]
                index = next(iter(values), None) if named is None else named.get(choice.name)
                if index is None or index >= len(choice.options) or rng.random() < redrawn:
                    return drawn(choice, rng)
                return index

            try:
                return self.draw(pick)
            except CandidateRejected as error:
                reason = error
        assert reason is not None
        raise reason

    def _tried(self, make: Callable[[], Candidate]) -> Candidate:
        """Return the first candidate that is not rejected, in `TRIES` tries."""
        for _ in range(TRIES - 1):
            try:
                return make()
            except CandidateRejected:
                continue
        try:
            return make()
        except CandidateRejected as error:
            raise CandidateRejected(
                f"space {self.name!r} rejected {TRIES} candidates in a row; the last because {error.reason}",
                reason=error.reason,
            ) from error


def _text(space: ModelSpace) -> str:
    return json.dumps(space.to_json(), sort_keys=True)


def drawn(choice: Choice, rng: np.random.Generator) -> int:
    return int(rng.integers(len(choice.options)))


class Taken:
    """Looks up the option that a candidate took: same choice name, same option."""

    def __init__(self, choices: Sequence[Choice], values: Sequence[int]) -> None:
        self._taken = {choice.name: (choice, index) for choice, index in zip(choices, values, strict=True)}

    def find(self, choice: Choice) -> int | None:
        """Return the option's index; None if the candidate lacks the choice, or the choice lacks the option."""
        if (known := self._taken.get(choice.name)) is None:
            return None
        there, index = known
        # The same object in most spaces, which saves comparing the options as JSON text.
        return index if there is choice else choice.find(there.options[index])


class KeptAnswers(Taken):
    """Answers choices as a candidate did; options that it lacks are drawn."""

    def __init__(self, choices: Sequence[Choice], values: Sequence[int], rng: np.random.Generator) -> None:
        super().__init__(choices, values)
        self._rng = rng

    def __call__(self, choice: Choice) -> int:
        index = self.find(choice)
        return drawn(choice, self._rng) if index is None else index
