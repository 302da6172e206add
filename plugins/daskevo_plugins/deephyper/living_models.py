"""Which models a search still needs: DeepHyper's own searches, that say which models left.

DeepHyper tells a search configurations and objectives, and not which job they are of. So the jobs are queued as they
are gathered, in which order they are told, and the search's `tell` takes them from there.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deephyper.evaluator import Evaluator, HPOJob
from deephyper.evaluator.callback import Callback
from deephyper.hpo import CBO as _CBO
from deephyper.hpo import RandomSearch as _RandomSearch
from deephyper.hpo import RegularizedEvolution as _RegularizedEvolution

from daskevo.errors import InvalidInput
from daskevo_plugins.deephyper.checkpoints import restore

if TYPE_CHECKING:
    import pandas as pd

OnLeave = Callable[[str], object]
"""Called with the id of a model that the search needs no longer."""


class _Watch(Callback):  # type: ignore[misc]
    """Tells a search of the jobs that its evaluator gathers, and launches."""

    def __init__(self, search: LivingModels) -> None:
        self._search = search

    def on_launch(self, job: HPOJob) -> None:
        self._search.launched(job)

    def on_done(self, job: HPOJob) -> None:
        self._search.gathered.append(job)

    def on_done_other(self, job: HPOJob) -> None:
        self._search.gathered.append(job)


class LivingModels:
    """The part of a search that knows which models it needs; stands before the search in a class' bases.

    A run function names its model in the metadata ``model_id``, as `transfer_run_function` does. A failed evaluation's
    model, if it named one, leaves at once.

    Parameters
    ----------
    on_leave:
        Called with a model's id when it leaves, such as ``run_function.release``.
    """

    history: Any
    _evaluator: Evaluator
    _problem: Any

    def __init__(self, *arguments: Any, on_leave: OnLeave | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.gathered: deque[HPOJob] = deque()
        self._on_leave = on_leave
        self._watch = _Watch(self)
        self._reloading = False

    @property
    def living_models(self) -> list[str]:
        """Ids of the models that the search needs."""
        raise NotImplementedError

    def _enter(self, objective: Any, model_id: str | None) -> Sequence[str | None]:
        """Take in a finished evaluation's model; return who leaves for it."""
        raise NotImplementedError

    def launched(self, job: HPOJob) -> None:
        """Hear of a job before it runs."""

    def check_evaluator(self, evaluator: Any) -> None:
        super().check_evaluator(evaluator)  # type: ignore[misc]
        if self._watch not in self._evaluator._callbacks:
            # Here, and removed after each search: `search` may be given another evaluator, and one evaluator may serve
            # two searches.
            self._evaluator._callbacks.append(self._watch)

    def search(self, *arguments: Any, **options: Any) -> pd.DataFrame:
        """Search as DeepHyper does; in the end the search has been told of every evaluation in the frame."""
        try:
            found = super().search(*arguments, **options)  # type: ignore[misc]
        finally:
            if getattr(self, "_evaluator", None) is not None and self._watch in self._evaluator._callbacks:
                self._evaluator._callbacks.remove(self._watch)
        # DeepHyper leaves out the evaluations that were under way when the last one was asked for.
        rest = list(self.gathered)
        if rest:
            self.tell([(job.args, job.objective) for job in rest])
        return found

    def reload_checkpoint(self) -> None:
        self._reloading = True
        try:
            super().reload_checkpoint()  # type: ignore[misc]
        finally:
            self._reloading = False

    def tell(self, results: Sequence[tuple[dict[str, Any], Any]]) -> None:
        jobs: list[HPOJob] = []  # none if it is told by hand, without an evaluator
        if self._reloading:
            # Out of a file nothing was gathered; the history has the jobs in the order in which they are told.
            jobs = self.history.jobs[-len(results) :]
            for job in jobs:
                restore(job, self._problem.space)
            results = [(job.args, job.objective) for job in jobs]
        elif len(self.gathered) >= len(results):
            jobs = [self.gathered.popleft() for _ in results]
        super().tell(results)  # type: ignore[misc]
        for (_, objective), job in zip(results, jobs, strict=False):
            model_id = job.metadata.get("model_id")
            model_id = model_id if isinstance(model_id, str) else None  # a CSV file says NaN for none
            left = [model_id] if isinstance(objective, str) else self._enter(objective, model_id)
            for leaver in left:
                if leaver is not None and self._on_leave is not None:
                    self._on_leave(leaver)


class LivingPopulation(LivingModels):
    """Keeps the models of the last `population_size` evaluations that did not fail, as evolution does."""

    population_size: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._models: deque[str | None] = deque()

    @property
    def living_models(self) -> list[str]:
        """Ids of the population's models, oldest first."""
        return [model_id for model_id in self._models if model_id is not None]

    def _enter(self, objective: Any, model_id: str | None) -> Sequence[str | None]:
        self._models.append(model_id)
        return [self._models.popleft()] if len(self._models) > self.population_size else []


class LivingBest(LivingModels):
    """Keeps the models of the best evaluations, of equal ones the earlier; of several objectives, all.

    Parameters
    ----------
    keep:
        How many.
    """

    def __init__(self, *arguments: Any, keep: int = 10, **options: Any) -> None:
        if type(keep) is not int or keep < 1:
            raise InvalidInput(f"keep={keep!r:.40}: use a whole number from 1")
        super().__init__(*arguments, **options)
        self.keep = keep
        self._best: list[tuple[float, int, str | None]] = []
        self._entered = 0

    @property
    def living_models(self) -> list[str]:
        """Ids of the best models, best first."""
        return [model_id for _, _, model_id in self._best if model_id is not None]

    def _enter(self, objective: Any, model_id: str | None) -> Sequence[str | None]:
        self._entered += 1
        if isinstance(objective, (tuple, list)):
            self._best.append((0.0, self._entered, model_id))
            return []
        bisect.insort(self._best, (-float(objective), self._entered, model_id))
        return [self._best.pop()[2]] if len(self._best) > self.keep else []


class RegularizedEvolution(LivingPopulation, _RegularizedEvolution):  # type: ignore[misc]
    """DeepHyper's regularised evolution, with `on_leave` for the models that leave its population.

    Parameters
    ----------
    on_leave:
        Called with a model's id when it leaves, such as ``run_function.release``. All others: DeepHyper's.
    """


class CBO(LivingBest, _CBO):  # type: ignore[misc]
    """DeepHyper's Bayesian optimisation, that keeps the models of the best `keep` evaluations.

    Parameters
    ----------
    keep:
        How many models stay.
    on_leave:
        Called with a model's id when it leaves, such as ``run_function.release``. All others: DeepHyper's.
    """


class RandomSearch(LivingBest, _RandomSearch):  # type: ignore[misc]
    """DeepHyper's random search, that keeps the models of the best `keep` evaluations (parameters as of `CBO`)."""
