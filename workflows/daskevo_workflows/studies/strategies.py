"""Strategies of studies by the words that the command line knows them by."""

from __future__ import annotations

from daskevo.errors import InvalidInput
from daskevo.search import (
    AsynchronousHalving,
    Grid,
    Hyperband,
    MedianStopping,
    PopulationBasedTraining,
    Random,
    Strategy,
    SuccessiveHalving,
)
from daskevo.tuning import ConfigurationSpace

WORDS = ("grid", "random", "halving", "hyperband", "asha", "median", "pbt")


def strategy_of(
    word: str,
    space: ConfigurationSpace,
    *,
    steps: int,
    first: int = 1,
    eta: int = 4,
    population: int | None = None,
    candidates: int | None = None,
) -> Strategy:
    """Return a strategy of a study, made with a few settings.

    Parameters
    ----------
    word:
        One of `WORDS`.
    space:
        Of the study: clones of ``pbt`` change its sequences only.
    steps:
        Of a whole training.
    first:
        Steps of the first rung; for ``median`` and ``pbt`` the steps after which a trial is looked at, each time.
    eta:
        One of so many goes on at each rung, of ``halving``, ``hyperband`` and ``asha``.
    population:
        Members of ``pbt``, 10 if None.
    candidates:
        How many begin, of ``halving``, ``asha`` and ``median``; None: as the strategy has it.

    Raises
    ------
    InvalidInput
        If there is no such word, the rungs don't end at `steps`, or a setting is for another strategy.
    """
    for name, value, words in (
        ("population", population, ("pbt",)),
        ("candidates", candidates, ("halving", "asha", "median")),
    ):
        if value is not None and word not in words:
            raise InvalidInput(f"{name} is for {', '.join(words)}, and the strategy is {word}: leave it out")
    match word:
        case "grid":
            return Grid()
        case "random":
            return Random()
        case "halving":
            return SuccessiveHalving(first, steps, eta, candidates=candidates, rounds=1)
        case "hyperband":
            return Hyperband(first, steps, eta, rounds=1)
        case "asha":
            return AsynchronousHalving(first, steps, eta, candidates=candidates)
        case "median":
            return MedianStopping(first, steps, candidates=candidates)
        case "pbt":
            only = getattr(space, "tuned", None)
            names = None if only is None else sorted(only)
            return PopulationBasedTraining(first, steps, population=population or 10, only=names, rounds=1)
    raise InvalidInput(f"there is no strategy {word!r:.60} of studies; there are {', '.join(WORDS)}")
