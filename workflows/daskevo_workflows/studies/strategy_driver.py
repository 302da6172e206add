"""A strategy that leads a study: asked and told in the thread that has it run."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

from daskevo.errors import InvalidInput
from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.search.repeat import repeating
from daskevo.space import ModelSpace
from daskevo.tuning import ConfigurationSpace
from daskevo.types import ModelId, Objective
from daskevo_workflows.execution.deadline import WALLTIME, At, Deadline, moment_of
from daskevo_workflows.execution.progress import say_failure
from daskevo_workflows.execution.request_fields import check_numbers, refuse_fields
from daskevo_workflows.execution.run_deadline import grace_s
from daskevo_workflows.studies.accounts import Figures
from daskevo_workflows.studies.closing_copies import copy_all, time_to_copy
from daskevo_workflows.studies.controller import Controller
from daskevo_workflows.studies.study_record import Ledger

AT_ONCE = 64
"""Requests of a strategy that are under way together, if nobody says otherwise."""

TICK_S = 1.0

REFUSED: Mapping[str, str] = {
    "repeat": "a study trains everything with its one seed: daskevo_workflows.nas.search trains a candidate several "
    "times, or open a study for each seed",
    "training": "a study trains with what its space says: make it a constant of the space, such as "
    "daskevo.tuning.grid(batch_size=[Constant(32)]), and give the length as until_step",
    "sequence": "a study trains with the sequences of its space: let the candidate choose among them",
    "ancestor": "a study's trials begin with fresh weights: leave it None, use `continues` to go on with an earlier "
    "trial, or daskevo_workflows.nas.search to inherit",
    "priority": "a study trains first what the longest path needs: leave it 0, or ask later for what can wait",
}
"""Fields of a request that a study can't honour, and what to do instead."""

FAILURES = 20
"""So many failures, and no more than that finished: the problem is to blame, not the trials."""


def why_budget_is_over(finished: int, failures: int, evaluations: int | None) -> tuple[str, str] | None:
    """Return why a strategy is not asked any more, as a word and a sentence; None if it is.

    Parameters
    ----------
    finished, failures:
        Of its requests.
    evaluations:
        How many may finish; None: as many as it asks.
    """
    if evaluations is not None and finished >= evaluations:
        return "finished", f"{finished} evaluations finished"
    if failures >= max(FAILURES, finished):
        return "failures", f"{failures} trials failed, {finished} finished"
    return None


def nothing_left(strategy: Strategy, answer: Stop | None = None) -> tuple[str, str]:
    """Return why a strategy asks for nothing more, by what it answered, or because it asked for nothing."""
    if answer is None:
        return "exhausted", f"the strategy {strategy.name!r} has nothing more to ask"
    return "exhausted" if answer.reason == "exhausted" else "finished", answer.message


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """A study at one moment.

    Parameters
    ----------
    finished, failures, pending:
        Requests of the strategy.
    evaluations:
        How many may finish; None: as many as it asks.
    best_quality:
        Of the study, in the objective's own direction.
    figures:
        Of the study.
    first_failure:
        Which trial of this strategy failed first, and why; empty while there is none.
    """

    finished: int
    failures: int
    pending: int
    evaluations: int | None
    best_quality: float | None
    figures: Figures
    first_failure: str = ""

    @property
    def counts(self) -> tuple[int, ...]:
        """What makes a line worth another one."""
        return self.finished, self.failures

    @property
    def is_over(self) -> bool:
        return not self.pending and self.finished > 0


class LedStudy(Protocol):
    """What a strategy's part needs of its study."""

    controller: Controller
    space: ConfigurationSpace
    objective: Objective
    origin: str
    seed: int
    asking: threading.Lock

    def steps(self, steps: int | None) -> int:
        """Return how many steps a request trains that doesn't say."""

    def ask(
        self, requests: Sequence[Request], done: Callable[[Request, Report | BaseException], None] | None = None
    ) -> list[Future[Mapping[str, float]]]:
        """Ask for requests; `done` is called with what came of each."""

    def withdraw(self, number: int) -> None:
        """Take a request back."""

    def figures(self) -> Figures:
        """Return the study's figures so far."""


class Leading:
    """One strategy's part of a study.

    Parameters
    ----------
    strategy:
        Started here, and told again what it was told before.
    evaluations, steps, at_once:
        See :meth:`daskevo_workflows.studies.study.Study.run`.
    """

    def __init__(
        self,
        study: LedStudy,
        ledger: Ledger,
        strategy: Strategy,
        evaluations: int | None,
        steps: int | None,
        at_once: int,
    ) -> None:
        for name, value in (("at_once", at_once), ("evaluations", evaluations), ("steps", steps)):
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidInput(f"{name}={value!r:.40}: use a whole number from 1")
        if not isinstance(strategy, Strategy) or isinstance(strategy, type):
            raise InvalidInput(f"{strategy!r:.80} is no strategy: see daskevo.search.Strategy for its parts")
        if (repeat := repeating(strategy)) is not None:
            raise InvalidInput(
                f"the strategy {strategy.name!r} evaluates each candidate {repeat.times} times, and {REFUSED['repeat']}"
            )
        space = study.space
        assert isinstance(space, ModelSpace)
        self._study, self._ledger, self._strategy = study, ledger, strategy
        self._evaluations, self._steps, self._at_once = evaluations, steps, at_once
        self._done: queue.SimpleQueue[tuple[Request, Report | BaseException]] = queue.SimpleQueue()
        self._pending: dict[int, Request] = {}
        self._futures: dict[int, Future[Any]] = {}
        self._finished = self._failures = 0
        self._first_failure: Report | None = None
        self._leaving: list[ModelId] = []
        strategy.start(space, (study.objective,), study.seed)
        settings = {"settings": strategy.settings, "steps": steps}
        self.prefix, before = study.controller.call(lambda: ledger.begun(strategy.name, settings))
        requests, reports = study.controller.call(lambda: ledger.of(self.prefix)) if before else ([], [])
        self._asked = {request.candidate for request in requests}
        by_number = {request.number: request for request in requests}
        for report in reports:
            self._tell(by_number.pop(report.number), report)
        self._say_who_left()
        self._left = list(by_number.values())
        for request in self._left:
            refuse_fields(strategy, request, REFUSED)

    def go(
        self,
        time_limit_s: float | None,
        on_progress: Callable[[StudyProgress], None] | None,
        deadline: At = None,
    ) -> tuple[str, str]:
        """Go on until it ends; return why, as a word and a sentence."""
        began = time.monotonic()
        self._submit(self._left)
        try:
            while True:
                stop = self._ask()
                if on_progress is not None:
                    on_progress(self.progress())
                if stop is not None and not self._pending:
                    return stop
                if time_limit_s is not None and time.monotonic() - began > time_limit_s:
                    return "time limit", f"the time limit of {time_limit_s:g} s is over"
                if (stop := self._out_of_time(deadline)) is not None:
                    return stop
                self._take()
        finally:
            for number in self._futures:
                self._study.withdraw(number)

    def _out_of_time(self, deadline: At) -> tuple[str, str] | None:
        """Return why it is time to end, once what is being trained has been kept; None: it is not."""
        at = moment_of(deadline)
        if at is None:
            return None
        ends, now = Deadline(at, grace_s()), time.time()
        controller, origin = self._study.controller, self._study.origin
        if not time_to_copy(controller, origin, ends, now):
            return None
        works, kept = copy_all(controller, origin, ends, now)
        left_s = max(0.0, at - now)
        return WALLTIME, f"its time is nearly over: {left_s:.0f} s were left; of {works} trainings {kept} were kept"

    def progress(self) -> StudyProgress:
        best = self._study.controller.call(lambda: self._ledger.run_state.best(1))
        return StudyProgress(
            self._finished,
            self._failures,
            len(self._pending),
            self._evaluations,
            best[0].quality if best else None,
            self._study.figures(),
            say_failure("trial", self._first_failure),
        )

    def _ask(self) -> tuple[str, str] | None:
        """Ask for more, if there is room; return why no more is asked."""
        over = why_budget_is_over(self._finished, self._failures, self._evaluations)
        if over is not None:
            return over
        budget = self._at_once if self._evaluations is None else self._evaluations - self._finished
        wanted = min(self._at_once, budget) - len(self._pending)
        with self._study.asking:
            number = self._study.controller.call(lambda: self._ledger.next_number)
            view = View(max(0, wanted), number, self.prefix, self._asked, list(self._pending.values()))
            answer = self._strategy.ask(view)
            if isinstance(answer, Stop):
                return nothing_left(self._strategy, answer)
            check_numbers(self._strategy, view, answer[: max(0, wanted)])
            requests = [self._until(request) for request in answer[: max(0, wanted)]]
            self._asked.update(request.candidate for request in requests)
            self._submit(requests)
        if not requests and not self._pending:
            return nothing_left(self._strategy)
        return None

    def _until(self, request: Request) -> Request:
        """Have a request say how far it trains, and inherit nothing: what it continues is on its trajectory.

        Raises
        ------
        InvalidInput
            If it asks for what a study can't do.
        """
        refuse_fields(self._strategy, request, REFUSED)
        until = request.until_step or self._study.steps(self._steps)
        return replace(request, until_step=until, ancestor=None)

    def _submit(self, requests: list[Request]) -> None:
        for request in requests:
            self._pending[request.number] = request
        futures = self._study.ask(requests, lambda request, outcome: self._done.put((request, outcome)))
        self._futures.update(zip((request.number for request in requests), futures, strict=True))

    def _take(self) -> None:
        """Wait for reports, tell the strategy, and take back what it gives up."""
        try:
            request, outcome = self._done.get(timeout=TICK_S)
            while True:
                del self._pending[request.number], self._futures[request.number]
                if isinstance(outcome, BaseException):
                    raise outcome
                self._tell(request, outcome)
                request, outcome = self._done.get_nowait()
        except queue.Empty:
            self._say_who_left()
        for number in self._strategy.stop():
            if number in self._futures:
                self._futures[number].cancel()

    def _tell(self, request: Request, report: Report) -> None:
        stopped = report.failure is not None and report.failure.kind == "stopped"
        self._finished += report.status == "finished"
        if report.status == "failed" and not stopped:
            self._failures += 1
            self._first_failure = self._first_failure or report
        self._strategy.tell(request, report)
        self._leaving += self._strategy.leave()

    def _say_who_left(self) -> None:
        if self._leaving:
            left, self._leaving = self._leaving, []
            self._study.controller.call(lambda: self._ledger.leave(left))
