"""Submit ready candidates to free trainers: plan them as units, record the plan, then submit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daskevo.repository import Repository
from daskevo.runs import RunRecord, RunState, Unit, plan
from daskevo.search import Request
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.execution.candidates import Candidates
from daskevo_workflows.execution.running_tasks import RunningTasks
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.problems.reference import ProblemReference


class Submission:
    """Submits ready candidates to free trainers.

    Parameters
    ----------
    candidates:
        The ready candidates.
    tasks:
        Submits them to the cluster, and knows which trainers are free.
    reference, repository, settings:
        Passed on to trainers in each assignment.
    record, run_state:
        Of the run.
    rows:
        Data keys of the data that trainers may train with; none: any.
    """

    def __init__(
        self,
        candidates: Candidates,
        tasks: RunningTasks,
        reference: ProblemReference,
        repository: Repository,
        settings: SearchSettings,
        record: RunRecord,
        run_state: RunState,
        rows: tuple[str, ...] = (),
    ) -> None:
        self.attempts: dict[int, int] = {}
        """Number of submissions of each request, by number."""
        self._candidates = candidates
        self._tasks = tasks
        self._reference = reference
        self._repository = repository
        self._settings = settings
        self._record = record
        self._run_state = run_state
        self._rows = rows
        self._planned: dict[int, Unit] = {}

    def close(self) -> None:
        """Record that units planned ahead won't be submitted."""
        for unit in self._planned.values():
            self._record.unit_ended(unit.key, "cancelled")

    @property
    def planned(self) -> int:
        """Number of evaluations planned ahead, which wait for a trainer."""
        return len(self._planned)

    def room(self, ended: int = 0) -> int:
        """Return the number of further evaluations that the budget allows.

        Parameters
        ----------
        ended:
            Evaluations that have ended and are not reported yet; each of them may count against the budget.
        """
        return self._run_state.evaluations - self._run_state.counts["finished"] - len(self._tasks) - ended

    def plan_ahead(self) -> None:
        """Record units of ready candidates in advance, so that submitting them need not wait for the disk.

        An evaluation planned here queries for its best match itself when it begins, so it finds the latest models.
        """
        batch = [request for request in self._candidates.ready if request.number not in self._planned]
        if batch:
            units = plan(
                [replace(request, ancestor=None) for request in batch], self.attempts, self._run_state.recent_seconds()
            )
            self._planned.update((unit.numbers[0], unit) for unit in units)
            self._record_units(batch, units, {})

    def _is_matched(self, request: Request) -> bool:
        """Tell whether a request takes part in its batch's query for the best match."""
        return self._settings.transfer.source == "best match" and request.number not in self._tasks.unmatched

    def _record_units(self, batch: Sequence[Request], units: Sequence[Unit], workers: Mapping[str, str]) -> None:
        # Recorded before anything is submitted: a resumed run must know the id of every model that may have been put.
        self._record.planned(
            {request.number: self._run_state.identities[request.number] for request in batch}, units, workers
        )

    def submit(self, ended: int = 0) -> None:
        """Submit ready candidates to free trainers (`ended`: see :meth:`room`)."""
        free = self._tasks.trainers.free()
        ready = self._candidates.ready
        batch = [ready.popleft() for _ in range(max(0, min(len(free), self.room(ended), len(ready))))]
        if not batch:
            return
        new = [request for request in batch if request.number not in self._planned]
        matched = [request if self._is_matched(request) else replace(request, ancestor=None) for request in new]
        units = [*plan(matched, self.attempts, self._run_state.recent_seconds())] if new else []
        # Those planned ahead are recorded already; only their trainer is new.
        ahead = [self._planned.pop(request.number) for request in batch if request.number in self._planned]
        keys = {unit.numbers[0]: unit.key for unit in [*units, *ahead] if unit.kind == "evaluate"}
        places = free[: len(batch)]
        workers = {keys[request.number]: str(place.name) for request, place in zip(batch, places, strict=True)}
        for unit in ahead:
            self._record.unit_placed(unit.key, workers[unit.key])
        if new:
            self._record_units(new, units, workers)
        assignments = [
            EvaluationAssignment(
                key=keys[request.number],
                request=request,
                problem=self._reference,
                repository=self._repository,
                seed=self._settings.seed,
                objective=self._run_state.objective,
                others=self._run_state.objectives[1:],
                transfer=self._settings.transfer,
                labels=(self._run_state.population_label,),
                callbacks=self._settings.callbacks,
                epochs=self._settings.epochs,
                rows=self._rows,
                graph=self._candidates.graphs[request.number],
            )
            for request in batch
        ]
        self._tasks.submit([*units, *ahead], assignments, places, self._candidates.graphs)
        for request in batch:
            self.attempts[request.number] = self.attempts.get(request.number, 0) + 1
