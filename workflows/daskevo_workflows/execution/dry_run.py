"""A run of a strategy with the accounts of a real one, without a cluster or training: what it asks is looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daskevo.errors import InvalidInput
from daskevo.runs import Book, identity
from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.space import ModelSpace
from daskevo.types import Objective

LABEL = "dry"


@dataclass(frozen=True)
class DryRun:
    """What came of a run.

    Parameters
    ----------
    requests, reports:
        In the order in which they were asked and told, duplicates included.
    stop:
        Why it ended: a word and a sentence.
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
    """Run a strategy as a search does: same budget, same duplicates.

    Parameters
    ----------
    strategy:
        Is started here.
    evaluations:
        Finished evaluations wanted; candidates with an architecture that was evaluated before are duplicates, and
        spend nothing.
    architecture:
        Gives what a request's model is to its training: vertex ids, and all that they leave out.
    evaluate:
        Gives the report of a request that is no duplicate.
    at_once:
        Requests under way together, as with so many trainers; reports come in the order of requests.

    Raises
    ------
    InvalidInput
        If the numbers aren't from 1, or the seed below 0.
    """
    if evaluations < 1 or at_once < 1 or seed < 0:
        raise InvalidInput(
            f"evaluations={evaluations}, at_once={at_once}, seed={seed}: use 1 or more evaluations and at once, and a "
            "seed from 0"
        )
    book = Book(objectives, evaluations, LABEL)
    strategy.start(space, objectives, seed)
    stop = book.stop_reason()
    while stop is None:
        view = View(min(at_once, book.wanted), book.next_number, LABEL, book.asked, book.pending)
        answer = strategy.ask(view)
        if isinstance(answer, Stop):
            stop = answer.reason, answer.message
            break
        if not answer:
            stop = "waiting", f"strategy {strategy.name!r} waits for reports, and none is under way"
            break
        requests = answer[: view.wanted]
        book.ask(requests)
        for request in requests:
            name = identity(request, architecture(request))
            book.identify(request.number, name)
            known = book.done.get(name)
            report = evaluate(request) if known is None else book.duplicate(request.number, known)
            book.report(report)
            strategy.tell(request, report)
            strategy.leave()
        stop = book.stop_reason()
    return DryRun(tuple(book.requests.values()), tuple(book.reports.values()), stop)
