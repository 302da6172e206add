"""Configuration spaces: hyper-parameters as model spaces, so that all strategies work on them.

A candidate is a point of the space; the options of a choice are sequences (as JSON) or constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from daskevo.errors import InvalidInput
from daskevo.space import Builder, Candidate, Choice, Choose, Space
from daskevo.space.builder import source_digest
from daskevo.tuning.configuration import Configuration, Unit
from daskevo.tuning.step_sequence import StepSequence, sequence_from_json
from daskevo.types import JSON

Option = StepSequence | JSON


@runtime_checkable
class ConfigurationSpace(Protocol):
    """A model space whose candidates stand for configurations."""

    def configuration(self, candidate: Candidate) -> Configuration:
        """Return the configuration of a candidate.

        Raises
        ------
        InvalidInput
            If the candidate does not belong to this space.
        """


class GridSpace(Space):
    """A product of hyper-parameters; see :func:`grid`."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, list[Option]],
        where: Callable[[dict[str, Any]], bool] | None = None,
        unit: Unit = "optimizer step",
    ) -> None:
        self.unit = unit
        self.tuned = frozenset(name for name, some in options.items() if _are_sequences(name, some))
        choices = [Choice(name, tuple(map(_encoded, some))) for name, some in options.items()]

        def reject(values: dict[str, JSON]) -> str | None:
            assert where is not None
            trial = self._decoded(values)
            try:
                # The user's function gets sequences, as it was given them, not their JSON.
                is_there = where(trial)
            except Exception as error:
                raise InvalidInput(
                    f"the condition of the grid raised {type(error).__name__}: {error} for {trial}"
                ) from error
            return None if is_there else "the condition of the grid says so"

        super().__init__(name, choices, None if where is None else reject)
        if not self.tuned:
            raise InvalidInput("a grid has at least one hyper-parameter that is a sequence, such as Constant(0.1)")
        self._made({choice.name: choice.options[0] for choice in self.choices})  # names and unit are as they may be

    def _decoded(self, values: Mapping[str, JSON]) -> dict[str, Any]:
        return {name: sequence_from_json(value) if name in self.tuned else value for name, value in values.items()}

    def _made(self, values: Mapping[str, JSON]) -> Configuration:
        return _configuration(self._decoded(values), self.unit)

    def configuration(self, candidate: Candidate) -> Configuration:
        return self._made(self.values(candidate))

    def to_json(self) -> JSON:
        return {**super().to_json(), "unit": self.unit}


def grid(
    *,
    where: Callable[[dict[str, Any]], bool] | None = None,
    unit: Unit = "optimizer step",
    name: str = "grid",
    **options: Iterable[Option],
) -> GridSpace:
    """Return the space of all combinations of hyper-parameters.

    Parameters
    ----------
    where:
        Takes hyper-parameters by name; returns whether a combination belongs to the space (paper 002, section 5.3).
    unit:
        Unit of a step of the sequences.
    options:
        Options by hyper-parameter: sequences, or constants, which are part of the model.

    Raises
    ------
    InvalidInput
        If options are not a list, or mix sequences and constants, or there are no sequences; later, if `where` raises.

    Examples
    --------
    The space of the paper's figure 5.2: four trials.

    >>> from daskevo.tuning import Constant, Exponential, MultiStep
    >>> space = grid(
    ...     learning_rate=[Constant(0.1), Exponential(0.1, 0.95)],
    ...     batch_size=[Constant(128), MultiStep(128, (40,), 2)],
    ...     optimizer=["sgd"],
    ... )
    >>> str(space.size)
    '4'
    >>> [space.configuration(candidate).at(40)["batch_size"] for candidate in space.enumerate()]
    [128.0, 256.0, 128.0, 256.0]
    """
    several = {}
    for key, some in options.items():
        if isinstance(some, (str, Mapping)) or not isinstance(some, Iterable):
            raise InvalidInput(f"the options of {key!r} are {some!r:.80}: give a list, such as [{some!r:.40}]")
        several[key] = list(some)
    return GridSpace(name, several, where, unit)


class ConditionalSpace(Builder):
    """Hyper-parameters defined by a function; see :func:`conditional`."""

    def __init__(
        self, name: str, function: Callable[[Choose], Mapping[str, Option]], unit: Unit = "optimizer step"
    ) -> None:
        self.unit = unit
        self._function = function
        super().__init__(name, self._chosen)

    def _chosen(self, choose: Choose) -> Configuration:
        def decoding(name: str, options: Iterable[Any]) -> Any:
            several = list(options)
            sequences = _are_sequences(name, several)
            chosen = choose(name, tuple(map(_encoded, several)))
            return sequence_from_json(chosen) if sequences else chosen

        made = self._function(decoding)
        if not isinstance(made, Mapping):
            raise InvalidInput(
                f"the function of space {self.name!r} returned {type(made).__name__}: it returns hyper-parameters by "
                "name, such as {'learning_rate': Constant(0.1)}"
            )
        return _configuration(made, self.unit)

    def configuration(self, candidate: Candidate) -> Configuration:
        made: Configuration = super().build(candidate)
        return made

    def to_json(self) -> JSON:
        return {**super().to_json(), "builder": source_digest(self._function), "unit": self.unit}


def conditional(
    function: Callable[[Choose], Mapping[str, Option]], *, unit: Unit = "optimizer step", name: str = "conditional"
) -> ConditionalSpace:
    """Return the space of a function that makes choices, which may depend on each other.

    Parameters
    ----------
    function:
        Takes ``choose(name, options)`` and returns hyper-parameters by name; options are sequences or constants. It
        must depend on nothing else.
    unit:
        Unit of a step of the sequences.

    Examples
    --------
    >>> from daskevo.tuning import Constant, MultiStep
    >>> def trials(choose):
    ...     rate = choose("start", (0.1, 0.2))
    ...     if choose("decays", (False, True)):
    ...         return {"learning_rate": MultiStep(rate, (choose("milestone", (40, 60)),), 0.1)}
    ...     return {"learning_rate": Constant(rate)}
    >>> str(conditional(trials).size)
    '6'
    """
    return ConditionalSpace(name, function, unit)


def _configuration(values: Mapping[str, Option], unit: Unit) -> Configuration:
    sequences = {name: value for name, value in values.items() if isinstance(value, StepSequence)}
    constants = {name: value for name, value in values.items() if name not in sequences}
    return Configuration(sequences, constants, unit)


def _are_sequences(name: str, options: list[Option]) -> bool:
    sequences = sum(isinstance(option, StepSequence) for option in options)
    if sequences not in (0, len(options)):
        raise InvalidInput(
            f"the options of {name!r} are partly sequences and partly constants: write Constant(...) for a value that "
            "stays, so that all are sequences"
        )
    return sequences > 0


def _encoded(option: Option) -> JSON:
    return option.to_json() if isinstance(option, StepSequence) else option
