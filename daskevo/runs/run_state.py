"""The state of a run in memory: budget, duplicates, failures, the best models, due label changes, when to stop.

Pure: requests and reports in, decisions out. The executor carries them out and the record stores them; on resume the
state is filled again from the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from daskevo.runs.first_evaluations import FirstEvaluations, without_firsts
from daskevo.runs.leaders import Leaders
from daskevo.search import Report, Request
from daskevo.space import Candidate
from daskevo.types import ModelId, Objective

IN_VAIN = 500
"""Candidates in a row that are duplicates or rejected before the space counts as exhausted."""


@dataclass(frozen=True, slots=True)
class LabelChange:
    """One label to add (``hold``) or remove (``release``)."""

    action: str
    label: str
    model_id: ModelId


class RunState:
    """Counts and decides for one run.

    Parameters
    ----------
    objectives:
        What counts as better; with several, the first one is the quality.
    evaluations:
        Finished evaluations wanted in total, including those of earlier sessions.
    label:
        The run's name in its labels: ``population:<label>`` and ``best:<label>``.
    keep_best:
        Number of best models that stay in the repository even if they leave the population; with several objectives,
        models of the front (see :class:`daskevo.runs.leaders.Leaders`).
    sessions:
        Start times of the run's sessions, in seconds since the epoch, in order.
    """

    def __init__(
        self,
        objectives: Objective | Sequence[Objective],
        evaluations: int,
        label: str,
        keep_best: int = 5,
        sessions: Sequence[float] = (),
    ) -> None:
        self.objectives = (objectives,) if isinstance(objectives, Objective) else tuple(objectives)
        self.objective = self.objectives[0]
        self.evaluations = evaluations
        self.population_label = f"population:{label}"
        self.best_label = f"best:{label}"
        self.requests: dict[int, Request] = {}
        self.numbers: dict[ModelId, int] = {}
        """Request numbers by model id."""
        self.reports: dict[int, Report] = {}
        self.identities: dict[int, str] = {}
        self.done: dict[str, int] = {}
        self.asked: set[Candidate] = set()
        self.counts = {"finished": 0, "failed": 0, "duplicate": 0}
        self.rejected = self.stopped = 0
        self.first_failure: Report | None = None
        self.in_vain = 0
        # Kept up to date, since they are read for each request: a scan of all requests would make a search quadratic.
        self._pending: dict[int, Request] = {}
        self._next_number = 0
        self._firsts = FirstEvaluations(sessions)
        self._leaders = Leaders(self.objectives, keep_best)

    def ask(self, requests: Iterable[Request]) -> None:
        """Add requests of the strategy."""
        for request in requests:
            self.requests[request.number] = request
            self.numbers[request.model_id] = request.number
            self.asked.add(request.candidate)
            self._next_number = max(self._next_number, request.number + 1)
            if request.number not in self.reports:
                self._pending[request.number] = request

    def identify(self, number: int, identity: str) -> None:
        """Store what a request computes (see :func:`daskevo.runs.planner.identity`)."""
        self.identities[number] = identity

    @property
    def pending(self) -> list[Request]:
        """Requests without a report, in the order in which they were asked."""
        return [request for _, request in sorted(self._pending.items())]

    @property
    def next_number(self) -> int:
        return self._next_number

    @property
    def wanted(self) -> int:
        """Number of further requests that the budget allows: every pending one may still finish."""
        return max(0, self.evaluations - self.counts["finished"] - (len(self.requests) - len(self.reports)))

    @property
    def failures_allowed(self) -> int:
        return max(20, self.evaluations)

    @property
    def failures(self) -> int:
        """Evaluations that failed. Rejected and stopped ones don't count: they were not evaluated to the end."""
        return self.counts["failed"] - self.rejected - self.stopped

    def stop_reason(self) -> tuple[str, str] | None:
        """Return why the run ends now (a word and a sentence), or None to go on."""
        if self.counts["finished"] >= self.evaluations:
            return "finished", f"{self.counts['finished']} evaluations finished"
        if self.failures >= self.failures_allowed:
            last = next(report.failure for report in reversed(self.reports.values()) if _has_failed(report))
            assert last is not None
            return "failures", (
                f"{self.failures} evaluations failed, {self.counts['finished']} of {self.evaluations} finished; "
                f"the last failure: {last.message}"
            )
        if self.in_vain >= IN_VAIN:
            last = next((report.failure for report in reversed(self.reports.values()) if _is_rejected(report)), None)
            rejected, why = ("", "") if last is None else (", or was rejected", f"; the last rejection: {last.message}")
            return "exhausted", (
                f"each of the last {self.in_vain} candidates is trained as an earlier one was{rejected}: the space has "
                f"no more models to offer than the {self.counts['finished']} evaluated{why}"
            )
        return None

    def duplicate(self, number: int, original: int) -> Report:
        """Return the report of a request whose training is already known: it reuses the score and spends no budget."""
        known = self.reports[original]
        # It took no time and stored nothing, so that sums over all reports stay right.
        return replace(known, number=number, status="duplicate", duplicate_of=original, seconds={}, own_bytes=0)

    def report(self, report: Report) -> list[LabelChange]:
        """Add a report; return the label changes of the best models, labels to add before labels to remove.

        A report for an unknown or already reported request changes nothing (messages may arrive twice).
        """
        if report.number not in self.requests or report.number in self.reports:
            return []
        self.reports[report.number] = report
        self._pending.pop(report.number, None)
        self._firsts.add(report)
        self.counts[report.status] += 1
        if self.first_failure is None and _has_failed(report):
            self.first_failure = report
        # Rejected candidates count as failed in the record, but not against the limit of failures.
        rejected = _is_rejected(report)
        self.rejected += rejected
        self.stopped += report.failure is not None and report.failure.kind == "stopped"
        self.in_vain = self.in_vain + 1 if rejected or report.status == "duplicate" else 0
        identity = self.identities.get(report.number)
        # Failures of the machine are not reusable: the same training may succeed elsewhere.
        reusable = report.status == "finished" or (report.failure is not None and report.failure.of_the_candidate)
        if identity is not None and reusable and report.status != "duplicate":
            # The first result stays the one that duplicates refer to.
            self.done.setdefault(identity, report.number)
        moves = self._leaders.add(report, self._same_candidate_before(report.number))
        return [
            LabelChange(action, self.best_label, self.reports[number].model_id)
            for action, numbers in (("hold", moves.entered), ("release", moves.dropped))
            for number in numbers
        ]

    def _same_candidate_before(self, number: int) -> int | None:
        """Return the request that a request continues, if it is no clone: a clone is another candidate."""
        request = self.requests[number]
        before = None if request.continues is None else self.numbers.get(request.continues)
        return before if before is not None and self.requests[before].candidate == request.candidate else None

    def left(self, models: Sequence[ModelId]) -> list[LabelChange]:
        """Return the label changes for models that left the population."""
        return [LabelChange("release", self.population_label, name) for name in models]

    def best(self, k: int | None = None) -> list[Report]:
        """Return the best finished reports, best first by the first objective."""
        return [self.reports[number] for number in self._leaders.best(k)]

    def front(self) -> list[Report]:
        """Return the finished reports that no other dominates, best first by the first objective."""
        return [self.reports[number] for number in self._leaders.front()]

    def kept(self) -> list[Report]:
        """Return the reports whose models are kept in the repository as the best."""
        return [self.reports[number] for number in self._leaders.kept]

    @property
    def mean_frozen_share(self) -> float:
        """Mean share of frozen vertices of the finished evaluations, 0 to 1; those without transfer count as 0."""
        shares = [report.frozen_share for report in self.reports.values() if report.status == "finished"]
        return sum(shares) / len(shares) if shares else 0.0

    def recent_seconds(self) -> float | None:
        """Return the mean seconds of the last 20 finished evaluations on their trainers.

        The first evaluation of each trainer is left out if there are others: it imports Keras and prepares the data.
        """
        recent = [_seconds(report) for report in without_firsts(self._timed(20), self._firsts)]
        return sum(recent) / len(recent) if recent else None

    def part_steps(self, number: int) -> int | None:
        """Return the steps that a request trains; None where it doesn't say how far it trains."""
        request = self.requests[number]
        if request.until_step is None:
            return None
        before = None if request.continues is None else self.requests[self.numbers[request.continues]]
        return request.until_step - ((before.until_step or 0) if before is not None else 0)

    def finished_seconds(self, count: int, steps: int | None = None) -> list[float]:
        """Return the seconds of the last `count` finished evaluations, looking at recent reports only.

        Parameters
        ----------
        steps:
            Seconds are those of so many steps, in proportion: the parts of a training may be of any length.
        """
        reports = self._timed(count)
        if steps is None:
            return [_seconds(report) for report in reports]
        return [_seconds(report) * steps / (self.part_steps(report.number) or steps) for report in reports]

    def _timed(self, count: int) -> list[Report]:
        return [
            report
            # Twice as many as wanted, since some failed or are duplicates; looking further back would cost too much per
            # report.
            for report in reversed(list(islice(reversed(self.reports.values()), 2 * count)))
            if report.status == "finished" and report.started is not None and report.ended is not None
        ][-count:]


def _seconds(report: Report) -> float:
    assert report.started is not None
    assert report.ended is not None
    return report.ended - report.started


def _is_rejected(report: Report) -> bool:
    return report.failure is not None and report.failure.kind == "rejected"


def _has_failed(report: Report) -> bool:
    return report.failure is not None and report.failure.kind not in ("rejected", "stopped")
