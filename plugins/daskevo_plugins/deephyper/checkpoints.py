"""What DeepHyper reads back from results.csv for a search that goes on (``checkpoint_restart``), as it was written.

A file of commas says less than was written into it: as soon as one evaluation failed, all objectives come back as
texts, which DeepHyper takes for failures or leaves out; the option "null", as `to_hp_problem` writes None, comes back
as NaN, and "16" as a number.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from ConfigSpace import CategoricalHyperparameter, Constant, OrdinalHyperparameter
from deephyper.evaluator import HPOJob

from daskevo.space.configurations import plain_value, values_of

MISSING = frozenset({"", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"})
"""Texts that pandas reads as NaN."""


def restore(job: HPOJob, space: Any) -> None:
    """Make the parameters and the objective of a job from results.csv what they were.

    Parameters
    ----------
    space:
        The ConfigurationSpace of its search.
    """
    job.args = {name: parameter(space[name], value) for name, value in job.args.items()}
    found = job.output["objective"]
    several = isinstance(found, (tuple, list))
    job.output["objective"] = [_number(value) for value in found] if several else _number(found)


def parameter(hyperparameter: Any, value: Any) -> object:
    """Return the value of a hyperparameter that came back from a file as `value`."""
    value = plain_value(value)
    if not isinstance(hyperparameter, (CategoricalHyperparameter, OrdinalHyperparameter, Constant)):
        return value
    options = values_of(hyperparameter)
    # A value that is no option (any more) is left as it is: the search itself says what it thinks of it.
    return next((option for option in options if _is_same(option, value)), value)


def _is_same(option: Any, value: Any) -> bool:
    if isinstance(option, str):
        return option in MISSING if isinstance(value, float) and math.isnan(value) else option == str(value)
    # "16" and 16.0 both stand for the option 16.
    number = _number(value)
    return option == value or (isinstance(number, float) and math.isclose(option, number, rel_tol=1e-12))


def _number(value: Any) -> Any:
    """Return a number that came back as a text; any other text as it is."""
    with suppress(TypeError, ValueError):
        return float(value)
    return value
