"""Architecture spaces as configuration spaces, so that studies can train architectures in parts.

The choices of a candidate are a constant of its configuration. Trainings of different architectures share no step; the
same architecture with the same sequences is the same trajectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.space import UNBOUNDED, Candidate, Choice, ModelSpace, Pick, Size, Space
from daskevo.space.model_space import Over
from daskevo.tuning.configuration import Configuration, Unit
from daskevo.tuning.spaces import GridSpace
from daskevo.tuning.step_sequence import StepSequence
from daskevo.types import JSON

if TYPE_CHECKING:
    import keras

ARCHITECTURE = "architecture.choices"
"""Name of the constant that holds the architecture: choice name -> option."""


class ArchitectureSpace(ModelSpace):
    """Architectures, each trained with given sequences, or with all points of a grid; see :func:`architectures`.

    Attributes
    ----------
    tuned:
        Names of the choices that are not part of the model.
    unit:
        Unit of a step of the sequences.
    """

    def __init__(self, space: ModelSpace, sequences: Mapping[str, StepSequence] | GridSpace, unit: Unit) -> None:
        self.name = space.name
        self._space = space
        self._grid = sequences if isinstance(sequences, GridSpace) else None
        self._fixed = None if isinstance(sequences, GridSpace) else Configuration(sequences, unit=unit)
        self.unit: Unit = unit if self._grid is None else self._grid.unit
        self.tuned: frozenset[str] = frozenset() if self._grid is None else self._grid.tuned
        if self._grid is not None:
            names = {choice.name for choice in self._grid.choices}
            if ARCHITECTURE in names:
                raise InvalidInput(
                    f"{ARCHITECTURE!r} holds what is chosen for the model: name the hyper-parameter else"
                )
            if isinstance(space, Space):
                self._check_apart(choice.name for choice in space.choices)

    def __repr__(self) -> str:
        return f"ArchitectureSpace({self.name!r}, {self.size} candidates)"

    def split(self, candidate: Candidate) -> tuple[Candidate, Candidate | None]:
        """Split a candidate into its architecture and its grid point (None without a grid).

        Raises
        ------
        InvalidInput
            If it can't belong to this space.
        """
        if self._grid is None:
            return candidate, None
        last = len(candidate.values) - len(self._grid.choices)
        named = tuple(choice.name for choice in self._grid.choices)
        if last < 0 or (candidate.names and candidate.names[last:] != named):
            raise InvalidInput(
                f"the candidate is not of space {self.name!r}: it doesn't end with options of {', '.join(named)}"
            )
        return Candidate(candidate.values[:last], candidate.names[:last]), Candidate(candidate.values[last:])

    def _joined(self, architecture: Candidate, point: Candidate) -> Candidate:
        assert self._grid is not None
        self._check_apart(architecture.names)
        names = tuple(choice.name for choice in self._grid.choices) if architecture.names else ()
        return Candidate(architecture.values + point.values, architecture.names + names)

    def _check_apart(self, names: Iterable[str]) -> None:
        assert self._grid is not None
        if both := set(names).intersection(choice.name for choice in self._grid.choices):
            raise InvalidInput(
                f"{sorted(both)!r:.200} are choices of the architecture and hyper-parameters of the grid: rename one"
            )

    def configuration(self, candidate: Candidate) -> Configuration:
        architecture, point = self.split(candidate)
        chosen = {ARCHITECTURE: self._space.values(architecture)}
        if point is None:
            assert self._fixed is not None
            return Configuration(self._fixed.sequences, chosen, self.unit)
        assert self._grid is not None
        trained = self._grid.configuration(point)
        return Configuration(trained.sequences, {**trained.constants, **chosen}, self.unit)

    @property
    def size(self) -> Size:
        return self._with_grid(self._space.size)

    def size_until(self, enough: int) -> Size:
        points = 1 if self._grid is None else max(1, self._grid.size.count or 1)
        return self._with_grid(self._space.size_until(enough // points))

    def _with_grid(self, size: Size) -> Size:
        """Return the size of the space of pairs, given the number of architectures."""
        if self._grid is None or size is UNBOUNDED or size.count is None:
            return size
        points = self._grid.size
        assert points.count is not None
        kinds = {size.kind, points.kind} - {"exact"}
        if len(kinds) > 1:  # a bound from below, and one from above
            return size
        return Size(kinds.pop() if kinds else "exact", size.count * points.count)

    def draw(self, pick: Pick) -> Candidate:
        # The architecture first: `split` cuts the grid's choices, whose number is fixed, off the end.
        architecture = self._space.draw(pick)
        if self._grid is None:
            return architecture
        return self._joined(architecture, self._grid.draw(pick))

    def choices_of(self, candidate: Candidate) -> tuple[Choice, ...]:
        architecture, point = self.split(candidate)
        choices = self._space.choices_of(architecture)
        if point is None:
            return choices
        assert self._grid is not None
        return choices + self._grid.choices_of(point)

    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        if self._grid is None:
            return self._space.enumerate(most)
        points = list(self._grid.enumerate(most))
        several = self._space.enumerate(most // max(1, len(points)))
        return (self._joined(architecture, point) for architecture in several for point in points)

    def sample(self, rng: np.random.Generator, over: Over = "choices") -> Candidate:
        architecture = self._space.sample(rng, over)
        return architecture if self._grid is None else self._joined(architecture, self._grid.sample(rng, over))

    def mutate(self, candidate: Candidate, rng: np.random.Generator, beta: float = 1.0) -> Candidate:
        """Return a candidate with a mutated architecture, or with another grid point.

        Which of the two is drawn, in proportion to the number of choices with more than one option.

        Raises
        ------
        InvalidInput, CandidateRejected
            As :meth:`daskevo.space.ModelSpace.mutate`.
        """
        architecture, point = self.split(candidate)
        if point is None:
            return self._space.mutate(candidate, rng, beta)
        assert self._grid is not None
        places, others = (
            sum(len(choice.options) > 1 for choice in choices)
            for choices in (self._space.choices_of(architecture), self._grid.choices_of(point))
        )
        # So that with a beta of 1 all choices of the two parts are as likely to change.
        if others and rng.random() * (places + others) >= places:
            return self._joined(architecture, self._grid.mutate(point, rng, beta))
        return self._joined(self._space.mutate(architecture, rng, beta), point)

    def build(self, candidate: Candidate) -> keras.Model:
        return self._space.build(self.split(candidate)[0])

    def to_json(self) -> JSON:
        trained = self._fixed if self._grid is None else self._grid
        assert trained is not None
        return {
            "name": self.name,
            "architectures": self._space.to_json(),
            "trained": trained.to_json(),
            "unit": self.unit,
        }


def architectures(
    space: ModelSpace, sequences: Mapping[str, StepSequence] | GridSpace, *, unit: Unit = "epoch"
) -> ArchitectureSpace:
    """Return an architecture space as a configuration space, for a study.

    Candidates, and how they are drawn, mutated, crossed over and listed, are those of `space`.

    Parameters
    ----------
    space:
        A problem's space: choices, a `build(choose)`, or mutators.
    sequences:
        Sequences, by name, that all architectures are trained with; or a grid, and then architectures and
        hyper-parameters over time are tuned together, a candidate being a pair. Constants of a grid are passed to
        `compile`, and to `build` if that takes choices by name.
    unit:
        Unit of a step of the sequences; a grid has its own.

    Raises
    ------
    InvalidInput
        If `space` is already a configuration space, or a choice and a hyper-parameter have the
        same name.

    Notes
    -----
    Equal choices are the same trajectory in all trials. Different choices are different trajectories, even if they give
    the same architecture graph, and both are trained. (`nas.search`, which builds each candidate before training,
    reports the second one as a duplicate.)

    Examples
    --------
    >>> from daskevo.space import Choice, Space
    >>> from daskevo.tuning import Constant, MultiStep, grid
    >>> layers = Space("layers", (Choice("units", (16, 32)), Choice("activation", ("relu", "tanh"))))
    >>> space = architectures(layers, {"batch_size": Constant(32)})
    >>> space.configuration(next(space.enumerate())).constants
    {'architecture.choices': {'units': 16, 'activation': 'relu'}}
    >>> rates = grid(learning_rate=[Constant(0.1), MultiStep(0.1, (4,), 0.1)], unit="epoch")
    >>> str(architectures(layers, rates).size)
    '8'
    """
    if not isinstance(space, ModelSpace) or hasattr(space, "configuration"):
        raise InvalidInput(f"{type(space).__name__} is no space of architectures: give that of a problem")
    if not isinstance(sequences, GridSpace | Mapping):
        raise InvalidInput(f"sequences are a mapping from names or a grid, not {type(sequences).__name__}")
    return ArchitectureSpace(space, sequences, unit)
