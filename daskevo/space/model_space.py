"""What every model space offers, and what follows from that for all of them: drawing, mutating, crossing over.

A space is known by one thing: `draw`, which makes a candidate by asking for one choice after another. Random draws,
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
from typing import Any, Literal, TypeAlias

import numpy as np

from daskevo.errors import CandidateRejected, CorruptRecord, InvalidInput
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.size import Size
from daskevo.types import JSON

Pick = Callable[[Choice], int]
"""Answers a choice: the index of the option to take."""

TRIES = 100
"""Draws in a row that a space may reject before none is taken to be possible."""
LISTED = 10_000
"""Candidates that are made one by one to draw uniformly among them."""
Over: TypeAlias = Literal["choices", "candidates"]
"""What a draw is uniform over."""


class ModelSpace(ABC):
    """All candidates of a problem.

    Implementations have a `name`, give `size`, `draw`, `choices_of`, `enumerate` and `to_json`; they pass
    :func:`daskevo.testing.check_space`.
    """

    name: str
    """A name for people and records."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """How many candidates there are, and how far that is known."""

    def size_until(self, enough: int) -> Size:
        """Return the size, ``at least`` one more than `enough` where counting further would take long."""
        return self.size

    @abstractmethod
    def draw(self, pick: Pick) -> Candidate:
        """Make a candidate, asking `pick` for one choice after another, in graph order.

        Raises
        ------
        CandidateRejected
            If what was picked makes no valid candidate, with the reason.
        InvalidInput
            If `pick` answers with an index that the choice doesn't have.
        """

    @abstractmethod
    def choices_of(self, candidate: Candidate) -> tuple[Choice, ...]:
        """Return the choices that a candidate answers, in the order in which they are asked.

        Raises
        ------
        InvalidInput
            If it isn't of this space.
        CandidateRejected
            If the space rejects it.
        """

    @abstractmethod
    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        """Yield every valid candidate once, the last choice changing fastest.

        Raises
        ------
        InvalidInput
            If there are more than `most`: at once where the size is known, else when that many have been yielded.
        """

    @abstractmethod
    def to_json(self) -> JSON:
        """Return what tells the space from another, as a JSON value: a run is resumed only with an equal one."""

    def __eq__(self, other: object) -> bool:
        # As text, which tells options such as 1, 1.0 and True apart.
        return type(other) is type(self) and _text(other) == _text(self)

    def __hash__(self) -> int:
        return hash(self.name)

    def build(self, candidate: Candidate) -> Any:
        """Return what a space that makes models itself makes of a candidate.

        Raises
        ------
        NotImplementedError
            If the space doesn't: then the problem does.
        """
        raise NotImplementedError(f"space {self.name!r} makes no models: the problem's build() does")

    def check(self, candidate: Candidate) -> None:
        """See that a candidate is of this space; raises as `choices_of` does."""
        self.choices_of(candidate)

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

    def values(self, candidate: Candidate) -> dict[str, JSON]:
        """Return choice name -> the option taken, in copies that may be changed.

        Raises
        ------
        InvalidInput
            If the candidate isn't of this space.
        """
        return {
            choice.name: copy.deepcopy(choice.options[index])
            for choice, index in zip(self.choices_of(candidate), candidate.values, strict=True)
        }

    def candidate(self, values: Mapping[str, JSON]) -> Candidate:
        """Return the candidate that takes these options, given for every choice by name.

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
            ``choices``: the options of each choice are equally likely. ``candidates``: so are all candidates. Where all
            have the same choices (a `Space`) the two are the same; where they depend on each other, candidates
            with few choices are more likely under the first. Then the second makes each candidate once, the
            first time.

        Raises
        ------
        InvalidInput
            If draws can't be uniform over candidates: choices depend on each other, and there are more than 10,000
            candidates, or no bound.
        CandidateRejected
            If so many draws in a row were rejected that there seems to be no valid one; with the last reason.
        """
        if over not in ("choices", "candidates"):
            raise InvalidInput(f"over={over!r:.40}: use 'choices' or 'candidates'")
        if over == "candidates":
            return self._evenly(rng)
        return self._tried(lambda: self.draw(lambda choice: drawn(choice, rng)))

    def _evenly(self, rng: np.random.Generator) -> Candidate:
        """Return any candidate, all of them equally likely."""
        if not self._listed:
            return self.sample(rng)  # which says why there are none
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
        """Return a candidate that takes another option, drawn uniformly, at one choice.

        Later choices keep their options as far as they are still asked; new ones are drawn uniformly.

        Parameters
        ----------
        beta:
            The odds of the last choice against the first; in between they are spread evenly in graph order, as in
            the scripts published with paper 000. Above 1, late choices change more often and prefixes stay long.
            Choices with one option are never drawn.

        Raises
        ------
        InvalidInput
            If the candidate isn't of this space, `beta` isn't positive, or no choice has another option.
        CandidateRejected
            If so many mutations in a row were rejected that there seems to be no valid one; with the last reason.
        """
        choices = self.choices_of(candidate)
        if not (isinstance(beta, (int, float)) and math.isfinite(beta) and beta > 0):
            raise InvalidInput(f"beta is {beta!r:.40}, expected a positive number")
        places = [place for place, choice in enumerate(choices) if len(choice.options) > 1]
        if not places:
            raise InvalidInput(f"space {self.name!r} holds a single candidate, so none can be mutated into another")
        odds = np.linspace(1.0, beta, len(choices)).tolist()
        ends = list(accumulate(odds[place] for place in places))

        def mutation() -> Candidate:
            # The product may round up to the last end.
            place = places[min(bisect_right(ends, rng.random() * ends[-1]), len(places) - 1)]
            option = int(rng.integers(len(choices[place].options) - 1))
            return self.change(candidate, place, option + (option >= candidate.values[place]), rng)

        return self._tried(mutation)

    def change(self, candidate: Candidate, place: int, option: int, rng: np.random.Generator) -> Candidate:
        """Return a candidate that takes another option at one place, and is the same elsewhere as far as it can be.

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
        """Return a candidate that takes each option from one of two (uniform crossover); what neither has is drawn.

        Raises
        ------
        InvalidInput
            If one isn't of this space.
        CandidateRejected
            If so many in a row were rejected that there seems to be no valid one; with the last reason.
        """
        sources = [Taken(self.choices_of(parent), parent.values) for parent in (one, other)]

        def pick(choice: Choice) -> int:
            first = int(rng.integers(2))
            for source in (sources[first], sources[1 - first]):
                if (index := source.find(choice)) is not None:
                    return index
            return drawn(choice, rng)

        return self._tried(lambda: self.draw(pick))

    def repair(self, candidate: Candidate, rng: np.random.Generator) -> Candidate:
        """Return the candidate if it is valid, else a valid one that keeps most of its options.

        Parameters
        ----------
        candidate:
            Any; it may be of an older version of the space, if it has names.

        Raises
        ------
        CandidateRejected
            If none was found; with the last reason.
        """
        named = dict(zip(candidate.names, candidate.values, strict=True)) if candidate.names else None
        reason: CandidateRejected | None = None
        for attempt in range(TRIES):
            # The first try keeps all that it can, later ones less and less.
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
        """Return the first candidate made that isn't rejected."""
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
    """Finds what a candidate took: by the choice's name, the same option."""

    def __init__(self, choices: Sequence[Choice], values: Sequence[int]) -> None:
        self._taken = {choice.name: (choice, index) for choice, index in zip(choices, values, strict=True)}

    def find(self, choice: Choice) -> int | None:
        """Return the option's index; None if the candidate has no such choice, or the choice no such option."""
        if (known := self._taken.get(choice.name)) is None:
            return None
        there, index = known
        return index if there is choice else choice.find(there.options[index])


class KeptAnswers(Taken):
    """Answers choices as a candidate did; what it doesn't have is drawn."""

    def __init__(self, choices: Sequence[Choice], values: Sequence[int], rng: np.random.Generator) -> None:
        super().__init__(choices, values)
        self._rng = rng

    def __call__(self, choice: Choice) -> int:
        index = self.find(choice)
        return drawn(choice, self._rng) if index is None else index
