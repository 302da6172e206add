"""Convert spaces in which all candidates have the same choices to the package ConfigSpace, and back.

For use with samplers, surrogates or analyses made for ConfigSpace. The package is needed only when a function that
makes or reads a ConfigurationSpace is called: ``pip install 'daskevo[configspace]'``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.product import COUNTED, Space, check_static
from daskevo.types import JSON

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from ConfigSpace.hyperparameters import Hyperparameter

CLAUSES = 1_000
"""Maximum number of rejected candidates, each a forbidden clause: ConfigSpace checks all clauses at each draw."""


def to_configuration_space(space: Space) -> ConfigurationSpace:
    """Return a space as a ConfigurationSpace.

    Ordered numbers become an ordinal hyperparameter, texts and booleans a categorical one, a single option a constant;
    other options (None, lists, mixed types) are represented by their JSON text. `candidate_of` reads its
    configurations, `configuration_of` makes their values. Rejected candidates become forbidden clauses.

    Raises
    ------
    InvalidInput
        If ConfigSpace isn't installed; if choices of the space depend on each other (a `Builder`); or if the space
        rejects more than 1,000 candidates, or has too many to count those.

    Examples
    --------
    >>> space = Space("tiny", (Choice("units", (16, 32, 64)), Choice("activation", ("relu", None))))
    >>> found = to_configuration_space(space)
    >>> found["units"].sequence
    (16, 32, 64)
    >>> space.values(candidate_of(space, found.get_default_configuration()))
    {'units': 16, 'activation': 'relu'}
    """
    check_static(space, "say it in ConfigSpace's own conditions")
    _check_installed()
    from ConfigSpace import ConfigurationSpace, ForbiddenAndConjunction, ForbiddenEqualsClause

    rejected, valid = _rejected(space)
    found = ConfigurationSpace(name=space.name)
    # ConfigSpace requires a default that isn't forbidden.
    found.add([hyperparameter_of(choice, default) for choice, default in zip(space.choices, valid.values, strict=True)])
    clauses: list[Any] = []
    for candidate in rejected:
        values = _configuration(space, candidate)
        equals = [ForbiddenEqualsClause(found[name], value) for name, value in values.items()]
        clauses.append(ForbiddenAndConjunction(*equals) if len(equals) > 1 else equals[0])
    found.add(clauses)
    return found


def from_configuration_space(found: ConfigurationSpace, name: str | None = None) -> Space:
    """Return a ConfigurationSpace as a space, with hyperparameters in its (alphabetical) order.

    Forbidden clauses become the space's `reject`.

    Parameters
    ----------
    name:
        Name of the space; None: the ConfigurationSpace's.

    Raises
    ------
    InvalidInput
        If a hyperparameter is a real number, has values that are not JSON, or depends on another; define such a space
        with :class:`daskevo.space.Builder`.
    """
    if found.conditions:
        child = found.conditions[0].child.name
        raise InvalidInput(
            f"hyperparameter {child!r} depends on another, and all candidates of a Space have the same choices: say it "
            "in a daskevo.space.Builder"
        )
    values = {each.name: values_of(each) for each in found.values()}
    choices = [Choice(each, tuple(known)) for each, known in values.items()]
    by_name = {choice.name: choice for choice in choices}

    def reject(options: Mapping[str, JSON]) -> str | None:
        # Clauses compare with the original values; options are their JSON equivalents.
        given = {each: values[each][by_name[each].index(option)] for each, option in options.items()}
        for clause in found.forbidden_clauses:
            if clause.is_forbidden_value(given):
                return f"forbidden: {clause}"
        return None

    return Space(name or found.name or "configspace", choices, reject if found.forbidden_clauses else None)


def configuration_of(space: Space, candidate: Candidate) -> dict[str, Any]:
    """Return a candidate's values in `to_configuration_space(space)`, by hyperparameter.

    Raises
    ------
    InvalidInput
        If the candidate isn't of the space.
    CandidateRejected
        If the space rejects it.

    Examples
    --------
    >>> space = Space("tiny", (Choice("units", (16, 32)), Choice("activation", ("relu", None))))
    >>> configuration_of(space, space.candidate({"units": 32, "activation": None}))
    {'units': 32, 'activation': 'null'}
    """
    check_static(space, "it has no ConfigurationSpace")
    space.check(candidate)
    return _configuration(space, candidate)


def candidate_of(space: Space, configuration: Mapping[str, Any]) -> Candidate:
    """Return the candidate of a configuration of `to_configuration_space(space)`, or of its values by name.

    Raises
    ------
    InvalidInput
        If a choice is missing, or doesn't have the value.
    CandidateRejected
        If the space rejects it.

    Examples
    --------
    >>> space = Space("tiny", (Choice("units", (16, 32)), Choice("activation", ("relu", None))))
    >>> candidate_of(space, {"units": 32, "activation": "null"}).values
    (1, 1)
    """
    check_static(space, "it has no ConfigurationSpace")
    if missing := [choice.name for choice in space.choices if choice.name not in configuration]:
        raise InvalidInput(f"a configuration of space {space.name!r} has no {missing[:10]!r:.200}")
    found: list[int] = []
    for choice in space.choices:
        known, value = configured(choice), configuration[choice.name]
        # Looked up rather than converted, because a value from a table may have another numeric type.
        if value not in known:
            raise InvalidInput(f"choice {choice.name!r} of space {space.name!r} has no {value!r:.80}")
        found.append(known.index(value))
    candidate = Candidate(tuple(found))
    space.check(candidate)
    return candidate


def hyperparameter_of(choice: Choice, default: int = 0) -> Hyperparameter[Any, Any]:
    """Return a choice as a hyperparameter.

    Parameters
    ----------
    default:
        Index of the option that is its default.
    """
    from ConfigSpace import CategoricalHyperparameter, Constant, OrdinalHyperparameter

    values = configured(choice)
    if len(values) == 1:
        return Constant(choice.name, values[0])
    kind = OrdinalHyperparameter if _are_numbers(choice.options) and choice.is_ordered else CategoricalHyperparameter
    return kind(choice.name, values, default_value=values[default])


def configured(choice: Choice) -> list[Any]:
    """Return what represents each option of a choice in ConfigSpace: the option, or its JSON text."""
    options = list(choice.options)
    if all(isinstance(option, str) for option in options) or _are_numbers(options):
        return options
    if len(options) > 1 and all(isinstance(option, bool) for option in options):
        return options
    return [json.dumps(option, sort_keys=True) for option in options]


def values_of(hyperparameter: Hyperparameter[Any, Any]) -> list[Any]:
    """Return the values of a finite hyperparameter, in order.

    Raises
    ------
    InvalidInput
        If it is a real number.
    """
    from ConfigSpace import CategoricalHyperparameter, Constant, OrdinalHyperparameter
    from ConfigSpace.hyperparameters import IntegerHyperparameter

    found: Sequence[Any]
    match hyperparameter:
        case CategoricalHyperparameter():
            found = hyperparameter.choices
        case OrdinalHyperparameter():
            found = hyperparameter.sequence
        case Constant():
            found = (hyperparameter.value,)
        case IntegerHyperparameter():
            found = range(int(hyperparameter.lower), int(hyperparameter.upper) + 1)
        case _:
            raise InvalidInput(
                f"hyperparameter {hyperparameter.name!r} takes any real number: list the values that may be taken"
            )
    return [plain_value(value) for value in found]


def plain_value(value: Any) -> Any:
    """Return a value without numpy's types, which JSON can't carry."""
    return value.item() if isinstance(value, np.generic) else value


def _rejected(space: Space) -> tuple[list[Candidate], Candidate]:
    """Return the candidates that a space rejects, and one that it doesn't."""
    product = Space(space.name, space.choices)
    if space.reject is None:
        return [], next(product.enumerate(product.size.count or 0))
    rejected: list[Candidate] = []
    if (product.size.count or 0) <= COUNTED:
        valid = dict.fromkeys(space.enumerate())
        if not valid:
            raise InvalidInput(f"space {space.name!r} rejects all of its {product.size} candidates")
        rejected = [candidate for candidate in product.enumerate() if candidate not in valid]
        if len(rejected) <= CLAUSES:
            return rejected, next(iter(valid))
    many = f"{len(rejected)} of its" if rejected else "an unknown number of its"
    raise InvalidInput(
        f"space {space.name!r} rejects {many} {product.size} candidates, and ConfigSpace takes a clause for each, "
        f"{CLAUSES} here at most: give the same space without `reject`, and let candidate_of(space, configuration) say "
        "what is rejected"
    )


def _configuration(space: Space, candidate: Candidate) -> dict[str, Any]:
    return {
        choice.name: configured(choice)[index] for choice, index in zip(space.choices, candidate.values, strict=True)
    }


def _are_numbers(options: Sequence[JSON]) -> bool:
    return {type(option) for option in options} in ({int}, {float})


def _check_installed() -> None:
    if find_spec("ConfigSpace") is None:
        raise InvalidInput("this needs ConfigSpace, which isn't installed here: pip install 'daskevo[configspace]'")
