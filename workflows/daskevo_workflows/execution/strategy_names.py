"""Search strategies by the names that the command line knows, with default settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.search import (
    AgedEvolution,
    AsynchronousHalving,
    Grid,
    Hyperband,
    MedianStopping,
    MultiObjectiveEvolution,
    NonAgedEvolution,
    Optuna,
    Random,
    Reinforce,
    Strategy,
    SuccessiveHalving,
)

STRATEGIES: Mapping[str, Callable[..., Strategy]] = {
    "random": Random,
    "grid": Grid,
    "evolution": AgedEvolution,
    "non-aged-evolution": NonAgedEvolution,
    "multi-objective": MultiObjectiveEvolution,
    "reinforce": Reinforce,
    "tpe": partial(Optuna, sampler="tpe"),
    "gp": partial(Optuna, sampler="gp"),
    "halving": SuccessiveHalving,
    "hyperband": Hyperband,
    "asha": AsynchronousHalving,
    "median": MedianStopping,
}
"""Strategies by their name on the command line; :func:`strategy_named` makes one."""

IN_PARTS = ("halving", "hyperband", "asha", "median")
"""Strategies that train a candidate in parts, and stop bad ones early."""
IN_ONE_PIECE = tuple(word for word in STRATEGIES if word not in IN_PARTS)
"""Strategies that train each candidate in one piece: of the others each part counts as an evaluation, so results after
as many evaluations don't compare."""

ETA = 3
"""Default of `eta`, as in the papers."""


def strategy_named(word: str, epochs: int, **settings: Any) -> Strategy:
    """Return a strategy, made with its default settings and those given.

    Parameters
    ----------
    word:
        A key of `STRATEGIES`.
    epochs:
        The problem's. A strategy that trains candidates in parts has the first one end after 1 epoch, and the last one
        within these, if that leaves more than one.
    settings:
        Arguments of the strategy's class; `first` is the `every` of median stopping, `steps` the `most` of strategies
        that train in parts.

    Raises
    ------
    InvalidInput
        If there is no such strategy, or it has no such setting or value.
    """
    if word not in STRATEGIES:
        raise InvalidInput(f"there is no strategy {word!r:.60}; there are {', '.join(STRATEGIES)}")
    make = STRATEGIES[word]
    known = inspect.signature(make).parameters
    if "every" in known and "first" in settings:
        settings["every"] = settings.pop("first")
    if word in IN_PARTS and "steps" in settings:
        settings["most"] = settings.pop("steps")
    if strange := next((name for name in settings if name not in known), None):
        theirs = [
            other
            for other, each in STRATEGIES.items()
            if strange in inspect.signature(each).parameters or (strange == "steps" and other in IN_PARTS)
        ]
        raise InvalidInput(
            f"{strange} is a setting of {', '.join(theirs) or 'no strategy'}, and the strategy is {word}: leave it out"
        )
    if "most" in known and known["most"].default is inspect.Parameter.empty:
        first = settings.setdefault("every" if "every" in known else "first", 1)
        if "most" not in settings:
            settings["most"] = _most(word, epochs, first, settings.get("eta", ETA))
    return make(**settings)


def _most(word: str, epochs: int, first: int, eta: int) -> int:
    """Return the last step at which candidates are compared: within the problem's epochs, but not the first one."""
    if word == "median":
        return max(epochs // first, 3) * first
    most = first * eta
    while most * eta <= epochs:
        most *= eta
    return most
