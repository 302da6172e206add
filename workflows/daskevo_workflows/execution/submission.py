"""From what is ready to what is with a trainer: planned as units, recorded, submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daskevo.repository import Repository
from daskevo.runs import Book, RunRecord, Unit, plan
from daskevo.search import Request
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.execution.candidates import Candidates
from daskevo_workflows.execution.running_tasks import RunningTasks
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.problems.reference import ProblemReference


class Submission:
    """Gives free trainers what is ready.

    Parameters
    ----------
    candidates:
        What is ready.
    tasks:
        Where it goes.
    reference, repository, settings:
        What trainers are told.
    record, book:
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
        book: Book,
        rows: tuple[str, ...] = (),
    ) -> None:
        self.attempts: dict[int, int] = {}
        """How often a request was submitted, by number."""
        self._candidates = candidates
        self._tasks = tasks
        self._reference = reference
        self._repository = repository
        self._settings = settings
        self._record = record
        self._book = book
        self._rows = rows
        self._planned: dict[int, Unit] = {}

    def close(self) -> None:
        """Note that what was planned ahead won't be submitted."""
        for unit in self._planned.values():
            self._record.unit_ended(unit.key, "cancelled")

    @property
    def planned(self) -> int:
        """Evaluations that have been planned ahead, and wait for a trainer."""
        return len(self._planned)

    def room(self, ended: int = 0) -> int:
        """Return how many more evaluations the budget allows.

        Parameters
        ----------
        ended:
            Evaluations that are over and not reported yet: each may be one of those that the budget counts.
        """
        return self._book.evaluations - self._book.counts["finished"] - len(self._tasks) - ended

    def plan_ahead(self) -> None:
        """Record the units of what is ready, so that nothing has to wait for the disk when it is submitted.

        An evaluation planned here asks for its best match itself when it begins, and finds what was put until then.
        """
        batch = [request for request in self._candidates.ready if request.number not in self._planned]
        if batch:
            units = plan(
                [replace(request, ancestor=None) for request in batch], self.attempts, self._book.recent_seconds()
            )
            self._planned.update((unit.numbers[0], unit) for unit in units)
            self._record_units(batch, units, {})

    def _is_matched(self, request: Request) -> bool:
        """Tell whether a request's batch is asked for its ancestor, if it may inherit from any."""
        return self._settings.transfer.source == "best match" and request.number not in self._tasks.unmatched

    def _record_units(self, batch: Sequence[Request], units: Sequence[Unit], workers: Mapping[str, str]) -> None:
        # In the record before anything is submitted: whatever dies, the model's name is known.
        self._record.planned(
            {request.number: self._book.identities[request.number] for request in batch}, units, workers
        )

    def submit(self, ended: int = 0) -> None:
        """Submit what is ready to free trainers (`ended`: see :meth:`room`)."""
        free = self._tasks.trainers.free()
        ready = self._candidates.ready
        batch = [ready.popleft() for _ in range(max(0, min(len(free), self.room(ended), len(ready))))]
        if not batch:
            return
        new = [request for request in batch if request.number not in self._planned]
        matched = [request if self._is_matched(request) else replace(request, ancestor=None) for request in new]
        units = [*plan(matched, self.attempts, self._book.recent_seconds())] if new else []
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
                objective=self._book.objective,
                others=self._book.objectives[1:],
                transfer=self._settings.transfer,
                labels=(self._book.population_label,),
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
