"""Optuna's samplers as strategies: tree-structured Parzen estimators (TPE), Gaussian processes.

Optuna is needed only when such a strategy is created: ``pip install optuna``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.search.drawing import Seen, is_spent, one_by_one, unseen
from daskevo.search.pareto import ranks_of
from daskevo.search.recent_models import KeepsLatest
from daskevo.search.requests import Report, Request, Stop, View
from daskevo.space import Candidate, Choice, ModelSpace
from daskevo.types import JSON, Objective

NEEDS: Mapping[str, tuple[str, ...]] = {"tpe": ("optuna",), "gp": ("optuna", "scipy", "torch")}
"""Samplers, and the packages that each needs."""
DRAWS: Mapping[str, int] = {"tpe": 10, "gp": 3}
"""Suggestions that may be known or rejected before a random candidate is drawn; one takes some milliseconds, or a
tenth of a second with Gaussian processes."""


class Optuna(KeepsLatest):
    """Let one of Optuna's samplers suggest each option from the qualities of all candidates so far.

    Parameters
    ----------
    sampler:
        ``tpe`` (Bergstra et al. 2011), or ``gp``, which needs SciPy and PyTorch.
    startup:
        Random candidates before the sampler's model is used.
    keep:
        Number of latest finished models kept in the repository to inherit from; None keeps all.

    Notes
    -----
    Choices whose options are ordered numbers are passed as integers, so that neighbours inform each other; others as
    categories. Pending requests are passed as running trials, and all objectives are passed.

    The study is created anew for each answer, from the reports, with a sampler seeded by the request; so a resumed run
    repeats exactly. This costs 0.3 ms per finished evaluation with 18 choices.

    Raises
    ------
    InvalidInput
        If a package is missing; the message says which.
    """

    def __init__(self, sampler: Literal["tpe", "gp"] = "tpe", startup: int = 10, keep: int | None = 50) -> None:
        super().__init__(keep)
        if sampler not in NEEDS:
            raise InvalidInput(f"sampler={sampler!r:.40}: use one of {', '.join(map(repr, NEEDS))}")
        if startup < 1:
            raise InvalidInput(f"startup={startup}: use 1 or more")
        # Looked for, not imported: importing PyTorch takes seconds.
        if missing := [package for package in NEEDS[sampler] if find_spec(package) is None]:
            raise InvalidInput(
                f"the strategy optuna({sampler}) needs {' and '.join(missing)}, not installed here: "
                f"pip install {' '.join(missing)}"
            )
        self.sampler = sampler
        self.startup = startup

    @property
    def name(self) -> str:
        return f"optuna {self.sampler}"

    @property
    def settings(self) -> JSON:
        return {"sampler": self.sampler, "startup": self.startup, "keep": self.keep}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._objectives = tuple(objectives)
        self._trials: list[Any] = []

    def tell(self, request: Request, report: Report) -> None:
        super().tell(request, report)
        metrics = {**report.metrics, self._objectives[0].metric: report.own_quality}
        # Optuna refuses a completed trial that lacks a value or has one that is not a number.
        if ranks_of(self._objectives, metrics) is not None:
            values = [objective.quality(metrics) for objective in self._objectives]
            self._trials.append(self._trial(request.candidate, values))

    def _trial(self, candidate: Candidate, values: Sequence[float | None] | None) -> Any:
        """Return a trial: completed if it has values, otherwise running."""
        from optuna.trial import TrialState, create_trial

        distributions = {_name(choice): _distribution(choice) for choice in self._space.choices_of(candidate)}
        return create_trial(
            state=TrialState.RUNNING if values is None else TrialState.COMPLETE,
            params=dict(zip(distributions, candidate.values, strict=True)),
            distributions=distributions,
            values=values,
        )

    def ask(self, view: View) -> list[Request] | Stop:
        with _quiet():
            running = [self._trial(request.candidate, None) for request in view.pending]

            def make(offset: int, rng: np.random.Generator, seen: Seen) -> Request | Stop:
                candidate = self._suggested(running, seen, rng) or unseen(
                    self._space, partial(self._space.sample, rng), seen, rng
                )
                if isinstance(candidate, Stop):
                    return candidate
                # Later suggestions of this answer must know about it.
                running.append(self._trial(candidate, None))
                return view.request(offset, candidate)

            return one_by_one(view, self._seed, make)

    def _suggested(self, running: Sequence[Any], seen: Seen, rng: np.random.Generator) -> Candidate | None:
        # Seeds of Optuna's samplers have 32 bits.
        study = self._study(int(rng.integers(2**31)))
        study.add_trials([*self._trials, *running])
        for _ in range(DRAWS[self.sampler]):
            trial = study.ask()
            try:
                candidate = self._space.draw(partial(_suggest, trial))
            except CandidateRejected:
                continue
            if candidate not in seen:
                return candidate
            if is_spent(self._space, seen):
                return None
        return None

    def _study(self, seed: int) -> Any:
        import optuna

        sampler: Any
        if self.sampler == "gp":
            sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=self.startup)
        else:
            # `constant_liar` counts running trials as bad ones: trainers that ask at the same time get different
            # suggestions.
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=self.startup, constant_liar=True)
        directions = ["maximize" if objective.direction == "max" else "minimize" for objective in self._objectives]
        return optuna.create_study(sampler=sampler, directions=directions)


def _name(choice: Choice) -> str:
    # Optuna identifies a parameter by its name alone, but two choices of one name may have different options.
    return f"{choice.name} ({'up to ' if choice.is_ordered else 'of '}{len(choice.options)})"


def _distribution(choice: Choice) -> Any:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if choice.is_ordered:
        return IntDistribution(0, len(choice.options) - 1)
    return CategoricalDistribution(range(len(choice.options)))


def _suggest(trial: Any, choice: Choice) -> int:
    last = len(choice.options) - 1
    if choice.is_ordered:
        return int(trial.suggest_int(_name(choice), 0, last))
    return int(trial.suggest_categorical(_name(choice), range(last + 1)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's log of each study and its warnings about experimental features in this block."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
