"""The contract of search strategies, for ours and for yours: call :func:`check_strategy` in a test."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Literal

from daskevo.search import Failure, FailureKind, Report, Request, Stop, Strategy, View
from daskevo.space import Builder, Candidate, Choice, Choose, ModelSpace, Space
from daskevo.types import Objective

SPACE = Space("s", tuple(Choice(f"c{number}", (0, 1, 2, 3)) for number in range(5)))
TINY = Space("t", tuple(Choice(f"c{number}", (0, 1)) for number in range(3)))


def _chain(choose: Choose) -> None:
    for number in range(choose("layers", (1, 2, 3))):
        if choose(f"kind {number}", ("dense", "none")) == "dense":
            choose(f"units {number}", (8, 16, 32))


CONDITIONAL = Builder("chains", _chain)
"""Which choices there are depends on those made before; 4 + 4**2 + 4**3 candidates."""
MAX, MIN = Objective.parse("max q"), Objective.parse("min q")


class StrategyRun:
    """Drives a strategy as a run does, without a cluster.

    Parameters
    ----------
    strategy:
        Is started here.
    space, objectives, seed:
        Of the run.

    Attributes
    ----------
    requests, pending, asked:
        What was asked for, what has no report yet, the candidates.
    left:
        Models that left the population.
    told:
        Requests with their reports, in order.
    stop:
        The strategy's last word, if it had nothing more to ask for.
    """

    def __init__(
        self,
        strategy: Strategy,
        space: ModelSpace = SPACE,
        objectives: Objective | Sequence[Objective] = MAX,
        seed: int = 0,
    ) -> None:
        self.strategy, self.space, self.seed = strategy, space, seed
        self.objectives = (objectives,) if isinstance(objectives, Objective) else tuple(objectives)
        strategy.start(space, self.objectives, seed)
        self.requests: list[Request] = []
        self.asked: set[Candidate] = set()
        self.pending: list[Request] = []
        self.left: list[str] = []
        self.told: list[tuple[Request, Report]] = []
        self.stop: Stop | None = None

    def ask(self, wanted: int = 1) -> list[Request]:
        answer = self.strategy.ask(View(wanted, len(self.requests), "run", self.asked, list(self.pending)))
        if isinstance(answer, Stop):
            self.stop = answer
            return []
        assert [request.number for request in answer] == list(
            range(len(self.requests), len(self.requests) + len(answer))
        )
        kept = {None, *self.strategy.population()}
        assert all(request.continues in kept for request in answer), "a model that is to be continued must be kept"
        self.requests += answer
        self.pending += answer
        self.asked |= {request.candidate for request in answer}
        return answer

    def tell(
        self,
        request: Request,
        quality: float | None,
        status: Literal["finished", "failed", "duplicate"] = "finished",
        kind: FailureKind = "not finite",
        **metrics: float,
    ) -> None:
        self.pending.remove(request)
        failure = Failure(kind, "") if status == "failed" else None
        known = {} if quality is None else {"q": quality, **metrics}
        report = Report(request.number, request.model_id, status, quality=quality, failure=failure, metrics=known)
        self.told.append((request, report))
        self.strategy.tell(request, report)
        self.left += self.strategy.leave()

    def go_on_with(self, strategy: Strategy) -> None:
        """Take up another strategy, as a run that was killed does: started, and told again what was told."""
        self.strategy = strategy
        strategy.start(self.space, self.objectives, self.seed)
        for request, report in self.told:
            strategy.tell(request, report)
            # What left before the kill has been released.
            strategy.leave()

    def go(self, evaluations: int, quality: Callable[[Candidate], float] = lambda c: float(sum(c.values))) -> None:
        for _ in range(evaluations):
            for request in self.ask():
                self.tell(request, quality(request.candidate))


def check_strategy(make: Callable[[], Strategy]) -> None:
    """Check what every strategy promises; raises AssertionError on the first promise that is broken.

    Spaces with the same choices for all and conditional ones, small ones to their end, both directions, several
    requests at a time with others pending, and failures of every kind.

    Parameters
    ----------
    make:
        Makes a strategy that is not started, with the same settings each time.
    """
    assert isinstance(make(), Strategy), "a part of the Protocol is missing"
    assert make().name
    assert json.loads(json.dumps(make().settings)) == make().settings, "settings must be JSON"
    _check_same_seed(make)
    for space in (SPACE, CONDITIONAL):
        _check_restoring(make, space)
    _check_directions(make)
    _check_batches(make)
    _check_failures(make)
    _check_bookkeeping(make)
    _check_exhaustion(make)


def _check_same_seed(make: Callable[[], Strategy]) -> None:
    first, second = StrategyRun(make(), seed=3), StrategyRun(make(), seed=3)
    first.go(30)
    second.go(30)
    assert first.requests == second.requests, "the same seed and reports must give the same requests"
    again = StrategyRun(first.strategy, seed=3)
    again.go(30)
    assert again.requests == first.requests, "start must leave nothing of an earlier run"


def _check_restoring(make: Callable[[], Strategy], space: ModelSpace) -> None:
    for cut in (0, 5, 17):
        whole, cut_run = StrategyRun(make(), space, seed=1), StrategyRun(make(), space, seed=1)
        for step in range(30):
            for run in (whole, cut_run):
                run.ask(3 - len(run.pending))
                # Of three at a time, in another order than they were asked: as trainers of different speed report.
                request = run.pending[step % len(run.pending)]
                run.tell(request, float(sum(request.candidate.values)))
            if step == cut:
                cut_run.go_on_with(make())
        assert whole.requests == cut_run.requests, "a strategy that is told again must go on exactly"
        assert whole.left == cut_run.left
        assert list(whole.strategy.population()) == list(cut_run.strategy.population())


def _check_directions(make: Callable[[], Strategy]) -> None:
    up, down = StrategyRun(make(), objectives=MAX, seed=2), StrategyRun(make(), objectives=MIN, seed=2)
    up.go(25)
    down.go(25, lambda candidate: -float(sum(candidate.values)))
    assert up.requests == down.requests, "to minimise must be to maximise the negated figure"


def _check_batches(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make(), CONDITIONAL, seed=4)
    for step in range(12):
        wanted = 5 - len(run.pending)
        assert len(run.ask(wanted)) <= wanted, "more was asked for than could start"
        for request in run.pending:
            CONDITIONAL.check(request.candidate)
        run.tell(run.pending[(7 * step) % len(run.pending)], float(step % 3))
    assert len({request.model_id for request in run.requests}) == len(run.requests)


def _check_failures(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make())
    run.go(3)
    before, left = list(run.strategy.population()), list(run.left)
    for quality in (math.nan, math.inf, -math.inf, None):
        for request in run.ask(2):
            run.tell(request, quality, "failed")
    assert list(run.strategy.population()) == before, "what failed must not enter the population, nor push anybody out"
    for request in run.ask(2):
        # Better than all: a strategy that took it would show it.
        run.tell(request, 1e9, "duplicate")
    assert list(run.strategy.population()) == before, "a duplicate is a model that is there already"
    assert run.left == left
    assert run.ask(), "failures must not stop a strategy"


def _check_bookkeeping(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make())
    run.go(60)
    kept = list(run.strategy.population())
    assert len({*kept, *run.left}) == len(kept) + len(run.left), "a model is in the population, or has left once"
    assert {*kept, *run.left} <= {request.model_id for request in run.requests}
    assert run.strategy.leave() == [], "leave must name each model once"


def _check_exhaustion(make: Callable[[], Strategy]) -> None:
    run = StrategyRun(make(), TINY, seed=5)
    for _ in range(100):
        if run.stop is not None:
            break
        for request in run.ask(3):
            run.tell(request, 1.0)
    assert run.stop is not None, "a strategy must stop when a small space has nothing else"
    assert run.stop.reason == "exhausted"
    assert run.stop.message
