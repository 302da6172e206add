"""Submit ready candidates to free trainers: plan them as units, record the plan, then submit it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from daskevo.repository import Repository
from daskevo.runs import RunRecord, RunState, plan
from daskevo.search import Request
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.execution.candidates import Candidates
from daskevo_workflows.execution.running_tasks import PlannedEvaluation, RunningTasks
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
    leaving:
        Returns the run's models whose last label is to be removed.
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
        leaving: Callable[[], Collection[str]],
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
        self._leaving = leaving
        self._rows = rows
        self._planned: dict[int, PlannedEvaluation] = {}

    def close(self) -> None:
        """Record that units planned ahead won't be submitted; queries that nobody waits for any more are dropped."""
        for planned in self._planned.values():
            self._record.unit_ended(planned.unit.key, "cancelled")
        self._planned.clear()

    def drop(self, number: int) -> None:
        """Forget a request that is not to be evaluated, so that nothing waits for its choice."""
        if (planned := self._planned.pop(number, None)) is not None:
            self._record.unit_ended(planned.unit.key, "cancelled")

    @property
    def planned(self) -> int:
        """Number of evaluations planned ahead, which wait for a trainer."""
        return len(self._planned)

    @property
    def choosing(self) -> frozenset[str]:
        """Keys of the evaluations, running or planned, that may still inherit from a model that their query named."""
        named = (planned.unit.key for planned in self._planned.values() if planned.matches is not None)
        return self._tasks.choosing.union(named)

    def room(self, ended: int = 0) -> int:
        """Return the number of further evaluations that the budget allows.

        Parameters
        ----------
        ended:
            Evaluations that have ended and are not reported yet; each of them may count against the budget.
        """
        return self._run_state.evaluations - self._run_state.counts["finished"] - len(self._tasks) - ended

    def plan_ahead(self) -> None:
        """Plan and match ready candidates in advance, so that a trainer waits neither for the disk nor for a query."""
        self._plan([request for request in self._candidates.ready if request.number not in self._planned])

    def _plan(self, batch: Sequence[Request]) -> None:
        """Record the units of a batch, then submit its query."""
        if not batch:
            return
        matched = [request if self._is_matched(request) else replace(request, ancestor=None) for request in batch]
        units = plan(matched, self.attempts, self._run_state.recent_seconds(), self._record.session)
        # Recorded before anything is submitted: a resumed run must know the id of every model that may have been put.
        self._record.planned({request.number: self._run_state.identities[request.number] for request in batch}, units)
        # A plan has at most one match unit.
        match = next((unit for unit in units if unit.kind == "match"), None)
        matches = None if match is None else self._tasks.match(match, self._candidates.graphs, self._excluded())
        positions = {} if match is None or matches is None else {n: at for at, n in enumerate(match.numbers)}
        for unit in units:
            if unit.kind == "evaluate":
                (number,) = unit.numbers
                found = matches if number in positions else None
                self._planned[number] = PlannedEvaluation(unit, found, positions.get(number, 0))

    def _is_matched(self, request: Request) -> bool:
        """Tell whether a request takes part in its batch's query for the best match."""
        return self._settings.transfer.source == "best match" and request.number not in self._tasks.unmatched

    def _excluded(self) -> set[str]:
        """Return the run's own models that must be no match, although they may be in the repository now.

        Whether they are depends on how fast trainers and providers are. Without them an ancestor follows from the order
        of reports alone, so that a run on one trainer can be repeated.
        """
        return {*(request.model_id for request in self._run_state.pending), *self._leaving()}

    def submit(self, ended: int = 0) -> None:
        """Submit ready candidates to free trainers (`ended`: see :meth:`room`)."""
        free = self._tasks.trainers.free()
        ready = self._candidates.ready
        batch = [ready.popleft() for _ in range(max(0, min(len(free), self.room(ended), len(ready))))]
        self._plan([request for request in batch if request.number not in self._planned])
        for request, place in zip(batch, free, strict=False):
            planned = self._planned.pop(request.number)
            self._record.unit_placed(planned.unit.key, str(place.name))
            self.attempts[request.number] = self.attempts.get(request.number, 0) + 1
            steps = self._run_state.part_steps(request.number)
            self._tasks.submit(planned, self._assignment(planned.unit.key, request), place, steps)

    def _assignment(self, key: str, request: Request) -> EvaluationAssignment:
        return EvaluationAssignment(
            key=key,
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
            unit=self._settings.unit,
            keeps_state=self._settings.most_steps is None or (request.until_step or 0) < self._settings.most_steps,
            graph=self._candidates.graphs[request.number],
        )
