"""A model space defined by base models and mutators. Source: paper 003, section 3.

A candidate is the sequence of choices that make its graph from a base: the base, the option at each place of each
mutator and, if the space evolves, the mutator and its place at each step. So every strategy works on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from daskevo.errors import CandidateRejected, InvalidInput, InvalidMutation
from daskevo.space.builder import Builder, Choose
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.model_graph import ModelGraph
from daskevo.space.model_space import KeptAnswers, drawn
from daskevo.space.mutators import Mutator
from daskevo.space.size import UNBOUNDED, Size
from daskevo.types import JSON

TRIALS = 20
"""Candidates drawn to check that a new space has any, and that each of its mutators applies to some."""
ENOUGH = 5
"""Candidates after which the check ends, if each mutator has applied by then."""
STOP = "stop"
GROW, SHRINK = 0.5, 0.2
MUTATION = "one step at most"
"""How candidates of evolving spaces are mutated. A run from before this was said asks for others after a restart."""


class MutatedGraphs(Builder):
    """A space of model graphs; :class:`daskevo.models.Mutated` is its counterpart for Keras models.

    Parameters
    ----------
    name:
        A name for people and records.
    bases:
        Graphs to start from, by label, or a single one. With several, the base is the first choice.
    mutators:
        Applied in this order, each to all places that match at that time; without a match there is no choice.
    evolve:
        Mutators for the following steps: each step chooses a matching mutator and a place, or to stop.
    steps:
        Maximum number of steps; None: no limit.
    grow, shrink:
        Probabilities with which `mutate` adds a step, or removes the last one, in a space that evolves; otherwise it
        changes an option and keeps the number of steps. Where one of the three is impossible, it is another.
    size:
        The size, if known. None: unbounded if the steps are; otherwise counted, as for any builder.

    Raises
    ------
    InvalidInput
        If there is no base or no mutator, or two mutators have the same name.
    InvalidMutation
        With reason ``no-match`` if a mutator matches nothing in any of twenty drawn candidates; if none of them can be
        made, with the last one's reason, such as ``cycle``. Later, an impossible mutation of a drawn candidate is a
        `CandidateRejected`, since other choices may work.
    """

    def __init__(
        self,
        name: str,
        bases: Mapping[str, ModelGraph] | ModelGraph,
        mutators: Sequence[Mutator] = (),
        *,
        evolve: Sequence[Mutator] = (),
        steps: int | None = None,
        grow: float = GROW,
        shrink: float = SHRINK,
        size: Size | None = None,
        around: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.bases = {"base": bases} if isinstance(bases, ModelGraph) else dict(bases)
        # The history of a candidate is that since its base, whatever was done to make the base.
        self.bases = {label: base.as_base() for label, base in self.bases.items()}
        self.mutators, self.evolve = tuple(mutators), tuple(evolve)
        self.steps, self.grow, self.shrink = steps, grow, shrink
        if size is None and self.evolve and steps is None:
            size = UNBOUNDED
        super().__init__(name, self.make, size=size, around=around)
        self._check_parts()
        self._matched: set[str] = set()
        self._try_out()

    def _check_parts(self) -> None:
        both = (*self.mutators, *self.evolve)
        if not self.bases or not both:
            raise InvalidInput(f"space {self.name!r} needs at least one base and one mutator")
        for mutator in both:
            if not isinstance(mutator, Mutator):
                raise InvalidInput(f"space {self.name!r} is made by Mutator objects, not by {mutator!r:.80}")
            if not hasattr(mutator, "targets"):
                raise InvalidInput(f"mutator {mutator.name!r} has no `targets`: say where it applies")
        for group in (self.mutators, self.evolve):
            names = [mutator.name for mutator in group]
            for name in names:
                if names.count(name) > 1 or name == STOP:
                    raise InvalidInput(
                        f"space {self.name!r} has several mutators named {name!r}, or one named 'stop'; their names "
                        "tell their choices apart: give one another `name`"
                    )
        if self.steps is not None and (type(self.steps) is not int or self.steps < 1):
            raise InvalidInput(f"steps is {self.steps!r:.40}, expected a number from 1, or None for any number")
        if min(self.grow, self.shrink) < 0 or self.grow + self.shrink > 1:
            raise InvalidInput(f"grow {self.grow!r:.40} and shrink {self.shrink!r:.40} are no probabilities together")

    def _try_out(self) -> None:
        """Check that there are candidates, and that each mutator matches in some."""
        for base in self.bases.values():
            self._matched |= {each.name for each in (*self.mutators, *self.evolve) if each.matches(base)}
        # A fixed seed, so that a definition is always accepted or always refused.
        rng = np.random.default_rng(0)
        made, last = 0, None
        every = {each.name for each in (*self.mutators, *self.evolve)}
        for number in range(TRIALS):
            try:
                self.draw(lambda choice, first=number == 0: 0 if first else drawn(choice, rng))  # type: ignore[misc]
                made += 1
            except CandidateRejected as error:
                last = error
            if made >= ENOUGH and every <= self._matched:
                return
        if not made and last is not None:
            # A drawn candidate that can't be made is rejected; if none can be made, the definition itself is wrong.
            raise last.__cause__ if isinstance(last.__cause__, InvalidMutation) else last
        for mutator in (*self.mutators, *self.evolve):
            if mutator.name not in self._matched:
                raise InvalidMutation(
                    f"mutator {mutator.name!r} of space {self.name!r} matches nothing in its bases, nor in {TRIALS} "
                    "candidates drawn: its `targets` say where it applies",
                    reason="no-match",
                    nodes=(),
                )

    # -- making a graph --------------------------------------------------------------------------------------------

    def make(self, choose: Choose) -> ModelGraph:
        """Return the graph made by the choices, with its history."""
        label = choose("base", list(self.bases)) if len(self.bases) > 1 else next(iter(self.bases))
        graph = self.bases[label]
        try:
            for mutator in self.mutators:
                before = len(graph.history)
                graph = mutator.apply(graph, choose)
                if len(graph.history) > before:
                    self._matched.add(mutator.name)
            graph = self._evolved(graph, choose)
        except InvalidMutation as error:
            raise CandidateRejected(str(error), reason=error.reason) from error
        return self.finish(graph, label)

    def _evolved(self, graph: ModelGraph, choose: Choose) -> ModelGraph:
        graph, step = graph.copy(), 0
        while self.evolve and (self.steps is None or step < self.steps):
            step += 1
            places = {each.name: found for each in self.evolve if (found := each.matches(graph))}
            taken = choose(f"step {step}", [STOP, *places])
            if taken == STOP:
                break
            mutator = next(each for each in self.evolve if each.name == taken)
            self._matched.add(mutator.name)
            by_name = {str(match): match for match in places[taken]}
            match = by_name[choose(f"step {step} at", list(by_name))]
            mutator.act(graph, match, choose, f"step {step}: ", f"s{step}.")
        return graph

    def finish(self, graph: ModelGraph, base: str) -> ModelGraph:
        """Return the final graph of a base; subclasses raise CandidateRejected if it is not a valid model."""
        return graph

    def graph(self, candidate: Candidate) -> ModelGraph:
        """Return the graph of a candidate, with its history; raises like `build`."""
        found: ModelGraph = Builder.build(self, candidate)
        return found

    # -- as a space ------------------------------------------------------------------------------------------------

    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        if self._size is UNBOUNDED:
            raise InvalidInput(f"space {self.name!r} is unbounded: it can't be enumerated, only sampled")
        return super().enumerate(most)

    def mutate(self, candidate: Candidate, rng: np.random.Generator, beta: float = 1.0) -> Candidate:
        """Return a candidate one step longer, one step shorter, or with another option and as many steps.

        Like :meth:`ModelSpace.mutate` if the space doesn't evolve; otherwise `grow` and `shrink` are the probabilities.
        A candidate without steps isn't shortened, and one with the maximum isn't lengthened; where nothing but the
        number of steps can change, that changes.

        Raises
        ------
        InvalidInput, CandidateRejected
            As :meth:`ModelSpace.mutate`.
        """
        if not self.evolve:
            return super().mutate(candidate, rng, beta)
        choices, steps = self.choices_of(candidate), _steps(candidate)

        def longer() -> Candidate:
            return self._tried(lambda: self._with_steps(candidate, choices, steps + 1, rng))

        def shorter() -> Candidate:
            return self._with_steps(candidate, choices, steps - 1, rng)

        def varied() -> Candidate:
            return super(MutatedGraphs, self).mutate(candidate, rng, beta)

        possible = {
            longer: self.steps is None or steps < self.steps,
            varied: any(map(self._others, choices, candidate.values)),
            shorter: steps > 0,
        }
        odds = rng.random()
        chosen = longer if odds < self.grow else shorter if odds < self.grow + self.shrink else varied
        if not possible[chosen]:
            chosen = varied
        ways = [way for way in sorted(possible, key=lambda way: way is not chosen) if possible[way]]
        for way in ways[:-1]:
            try:
                return way()
            except CandidateRejected:
                continue
        return ways[-1]()

    def _others(self, choice: Choice, index: int) -> Sequence[int]:
        others = super()._others(choice, index)
        if _step(choice) is None:
            return others
        # To begin or to end a step here would be a mutation by several steps, or by one, which has odds of its own.
        return [option for option in others if option and index]

    def change(self, candidate: Candidate, place: int, option: int, rng: np.random.Generator) -> Candidate:
        """Return a candidate with another option at one place, otherwise as similar as possible: with as many steps.

        Only where the option itself begins a step is there one more, and none from there on where it is to stop.

        Raises
        ------
        CandidateRejected
        """
        choices, steps = self.choices_of(candidate), _steps(candidate)
        if (number := _step(choices[place])) is not None:
            steps = max(steps, number) if option else number - 1
        return self._with_steps(candidate, choices, steps, rng, (place, option))

    def _with_steps(
        self,
        candidate: Candidate,
        choices: Sequence[Choice],
        steps: int,
        rng: np.random.Generator,
        changed: tuple[int, int] | None = None,
    ) -> Candidate:
        """Return a candidate with so many steps, and the option at a place that is `changed`; the rest is kept.

        Raises
        ------
        CandidateRejected
        """
        kept = KeptAnswers(choices, candidate.values, rng)
        asked = 0

        def pick(choice: Choice) -> int:
            nonlocal asked
            asked += 1
            if changed is not None and asked == changed[0] + 1:
                return changed[1]
            if (number := _step(choice)) is None:
                return kept(choice)
            if number > steps:
                return 0  # stop
            if index := kept.find(choice):
                return index
            if len(choice.options) == 1:
                raise CandidateRejected("no mutator of the space matches any more")
            return 1 + int(rng.integers(len(choice.options) - 1))

        return self.draw(pick)

    def to_json(self) -> JSON:
        """Return name, bases, mutators and settings, which identify the space."""
        # Left out where they are the defaults, so that records made before they counted stay equal.
        odds = {} if (self.grow, self.shrink) == (GROW, SHRINK) else {"grow": self.grow, "shrink": self.shrink}
        return {
            "name": self.name,
            "bases": [[label, base.digest()] for label, base in self.bases.items()],
            "mutators": [mutator.to_json() for mutator in self.mutators],
            "evolve": [mutator.to_json() for mutator in self.evolve],
            "steps": self.steps,
            **odds,
            **({"mutation": MUTATION} if self.evolve else {}),
        }


def _step(choice: Choice) -> int | None:
    """Return the number of the step that a choice begins, or stops before; None for any other choice."""
    found = re.fullmatch(r"step (\d+)", choice.name)
    return None if found is None else int(found[1])


def _steps(candidate: Candidate) -> int:
    """Return the number of steps of a candidate."""
    # Not by the end of a name alone: mutators' own choices are called "step 1: ...", and may end in anything.
    return sum(re.fullmatch(r"step \d+ at", name) is not None for name in candidate.names)
