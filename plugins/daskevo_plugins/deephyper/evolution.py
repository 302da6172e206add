"""Aged evolution as a search of DeepHyper's: every child differs from its parent, and from all that were asked for."""

from __future__ import annotations

import itertools
import json
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from deephyper.evaluator import HPOJob, MaximumJobsSpawnReached
from deephyper.hpo import Search

from daskevo.errors import InvalidInput
from daskevo_plugins.deephyper.configurations import Configurations
from daskevo_plugins.deephyper.living_models import LivingPopulation, OnLeave

logger = logging.getLogger(__name__)

DRAWS = 200
"""Draws of known configurations in a row before a space is taken to be nearly exhausted."""
ENUMERABLE = 100_000
"""Configurations that may be listed one by one to find one that was not asked for."""


class AgedEvolutionSearch(LivingPopulation, Search):  # type: ignore[misc]
    """Mutate the best of a random sample of the population; the oldest leaves.

    DeepHyper's own RegularizedEvolution draws the changed value anew, the old one among others: of 600 children 203
    were copies of their parents. Here a mutation changes the configuration, newly active hyperparameters are drawn, and
    no configuration is asked for twice.

    Parameters
    ----------
    problem:
        An HpProblem; conditions, forbidden clauses, a constraint and a sampling function are followed.
    population_size:
        Members kept. Until there are so many, configurations are random.
    sample_size:
        Members drawn, without replacement, to pick a parent from.
    beta:
        How much likelier the hyperparameter that was added last is to be mutated than the first, linear in between.
    on_leave:
        Called with the id of each model that leaves the population, such as ``run_function.release``.
    random_state, log_dir, verbose, stopper, checkpoint_history_to_csv, solution_selection, checkpoint_restart:
        As DeepHyper takes them.

    Attributes
    ----------
    exhausted:
        Why the search ended early: the space holds nothing new. None otherwise.

    Notes
    -----
    Failures don't enter the population, nor push anybody out. The column ``m:parent`` of the result has the model whose
    configuration was mutated; the run function of `transfer_run_function` stores it with the model.

    Raises
    ------
    InvalidInput
        If the sizes can't be used; by `search`, if the run function gives several objectives.
    """

    def __init__(
        self,
        problem: Any,
        random_state: Any = None,
        log_dir: str = ".",
        verbose: int = 0,
        stopper: Any = None,
        checkpoint_history_to_csv: bool = True,
        solution_selection: Any = None,
        checkpoint_restart: bool = False,
        population_size: int = 100,
        sample_size: int = 10,
        beta: float = 1.0,
        on_leave: OnLeave | None = None,
    ) -> None:
        if not 1 <= sample_size <= population_size:
            raise InvalidInput(
                f"a sample of {sample_size!r:.40} from a population of {population_size!r:.40}: use "
                "1 <= sample_size <= population_size"
            )
        if not (np.isfinite(beta) and beta > 0):
            raise InvalidInput(f"beta={beta!r:.40}: use a number above 0 (1 mutates all hyperparameters alike)")
        super().__init__(
            problem,
            random_state,
            log_dir,
            verbose,
            stopper,
            checkpoint_history_to_csv,
            solution_selection,
            checkpoint_restart,
            on_leave=on_leave,
        )
        self.population_size = population_size
        self.sample_size = sample_size
        self.beta = float(beta)
        self.exhausted: str | None = None
        self._configurations = Configurations(self._problem, self._random_state)
        # Beside `_models` of the base class, which has their models: both drop the oldest, so places agree.
        self._population: deque[tuple[dict[str, Any], float]] = deque(maxlen=population_size)
        self._seen: set[str] = set()
        self._parents: dict[str, str | None] = {}
        self._asked = self._told = 0

    def launched(self, job: HPOJob) -> None:
        parent = self._parents.pop(_key(job.args), None)
        if parent is not None:
            job.metadata["parent"] = parent
            # Where the run function sees it.
            job.storage.store_job_metadata(job.id, "parent", parent)

    def _ask(self, n: int = 1) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for _ in range(n):
            found = self._unseen()
            if found is None:
                break
            made.append(found)
            self._asked += 1
        if made:
            return made
        self.exhausted = (
            f"all {len(self._seen)} configurations that were found have been asked for: the space is exhausted"
        )
        logger.warning("%s", self.exhausted)
        # DeepHyper's way out of a search that asks for nothing more; it gathers what is under way.
        raise MaximumJobsSpawnReached(self.exhausted)

    def _unseen(self) -> dict[str, Any] | None:
        for configuration, parent in self._proposals():
            key = _key(configuration)
            if key not in self._seen:
                self._seen.add(key)
                self._parents[key] = parent
                return configuration
        return None

    def _proposals(self) -> Iterator[tuple[dict[str, Any], str | None]]:
        # Random configurations fill the population first; those under way count, so that workers don't overfill it.
        is_full = len(self._population) + max(0, self._asked - self._told) >= self.population_size
        if is_full and self._population:
            parent = self._parent()
            for _ in range(DRAWS):
                child = self._configurations.mutated(self._population[parent][0], self.beta)
                if child is not None:
                    yield child, self._models[parent] if parent < len(self._models) else None
        for _ in range(DRAWS):
            drawn = self._configurations.drawn()
            if drawn is not None:
                yield drawn, None
        # At last, since it takes seconds: random draws find what is left of a nearly exhausted space only by luck.
        listed = list(itertools.islice(self._configurations.listed(ENUMERABLE), ENUMERABLE))
        for index in self._random_state.permutation(len(listed)):
            yield listed[index], None

    def _parent(self) -> int:
        size = min(self.sample_size, len(self._population))
        drawn: Sequence[int] = self._random_state.choice(len(self._population), size=size, replace=False)
        # Of equal ones the youngest.
        return max((int(index) for index in drawn), key=lambda index: (self._population[index][1], index))

    def _tell(self, results: Sequence[tuple[dict[str, Any], Any]]) -> None:
        for configuration, objective in results:
            self._told += 1
            self._seen.add(_key(configuration))
            if isinstance(objective, (tuple, list)):
                raise InvalidInput("AgedEvolution takes one objective: return one number, or use CBO")
            # DeepHyper's failures are texts.
            if not isinstance(objective, str):
                self._population.append((dict(configuration), float(objective)))


def _key(configuration: dict[str, Any]) -> str:
    # As text, since values may be lists, which can't be in a set.
    return json.dumps(configuration, sort_keys=True, default=str)


AgedEvolution = AgedEvolutionSearch
"""As users import it from `daskevo_plugins.deephyper`."""
