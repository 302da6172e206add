"""Run a strategy without a cluster or training: results are looked up, budget and duplicates are as in a real run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daskevo.errors import InvalidInput
from daskevo.runs import RunState, identity
from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.space import ModelSpace
from daskevo.types import Objective
from daskevo_workflows.execution.request_fields import check_numbers

LABEL = "dry"


@dataclass(frozen=True)
class DryRun:
    """The results of a dry run.

    Parameters
    ----------
    requests, reports:
        In the order of asking and reporting, including duplicates.
    stop:
        Reason for its end: a word and a sentence.
    """

    requests: Sequence[Request]
    reports: Sequence[Report]
    stop: tuple[str, str]


def run_dry(
    strategy: Strategy,
    space: ModelSpace,
    objectives: Sequence[Objective],
    evaluations: int,
    seed: int,
    *,
    architecture: Callable[[Request], Sequence[bytes]],
    evaluate: Callable[[Request], Report],
    at_once: int = 1,
) -> DryRun:
    """Run a strategy as a search would, with the same budget and duplicates.

    Parameters
    ----------
    strategy:
        Started by this function.
    evaluations:
        Number of finished evaluations wanted; candidates whose architecture was evaluated before are duplicates, and
        don't count.
    architecture:
        Returns what training depends on in a request's model: vertex ids, and everything that they leave out.
    evaluate:
        Returns the report of a request that is not a duplicate.
    at_once:
        Number of pending requests, as with that many trainers; reports come in the order of requests, those of a
        higher priority first.

    Raises
    ------
    InvalidInput
        If a number is below 1, or the seed below 0, or the strategy numbers its requests otherwise than the view.
    """
    if evaluations < 1 or at_once < 1 or seed < 0:
        raise InvalidInput(
            f"evaluations={evaluations}, at_once={at_once}, seed={seed}: use 1 or more evaluations and at once, and a "
            "seed from 0"
        )
    run_state = RunState(objectives, evaluations, LABEL)
    strategy.start(space, objectives, seed)
    stop = run_state.stop_reason()
    while stop is None:
        view = View(min(at_once, run_state.wanted), run_state.next_number, LABEL, run_state.asked, run_state.pending)
        answer = strategy.ask(view)
        if isinstance(answer, Stop):
            stop = answer.reason, answer.message
            break
        if not answer:
            stop = "waiting", f"strategy {strategy.name!r} waits for reports, and none is under way"
            break
        requests = answer[: view.wanted]
        check_numbers(strategy, view, requests)
        run_state.ask(requests)
        for request in sorted(requests, key=lambda request: -request.priority):
            name = identity(request, architecture(request))
            run_state.identify(request.number, name)
            known = run_state.done.get(name)
            report = evaluate(request) if known is None else run_state.duplicate(request.number, known)
            run_state.report(report)
            strategy.tell(request, report)
            strategy.leave()
        stop = run_state.stop_reason()
    return DryRun(tuple(run_state.requests.values()), tuple(run_state.reports.values()), stop)
