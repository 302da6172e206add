"""A recorded run once more: candidates in an order in which each ancestor is there, under its new name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import Random, Replay
from daskevo.testing.strategies import StrategyRun
from daskevo.types import ModelId


def recorded() -> tuple[StrategyRun, list[str | None]]:
    """Return a run of six evaluations, one failed, with ancestors; the second one's report comes last."""
    run = StrategyRun(Random())
    ancestors = [None, 0, 1, 0, None, 3]
    requests = run.ask(6)
    for number in (0, 2, 3, 4, 5, 1):
        run.tell(requests[number], 1.0, "failed" if number == 4 else "finished")
    for place, (request, report) in enumerate(run.told):
        ancestor = ancestors[request.number]
        name = None if ancestor is None else requests[ancestor].model_id
        run.told[place] = request, replace(report, ancestor=name)
    return run, [None if number is None else requests[number].model_id for number in ancestors]


def test_asks_for_what_was_finished_with_the_same_ancestors() -> None:
    run, ancestors = recorded()
    again = StrategyRun(Replay(run.requests, [report for _, report in run.told]))
    order: list[int] = []
    while asked := again.ask(2):
        for request in asked:
            number = next(old.number for old in run.requests if old.candidate == request.candidate)
            old = ancestors[number]
            assert request.ancestor == (None if old is None else again.requests[order.index(int(old[-5:]))].model_id)
            order.append(number)
        for request in asked:
            again.tell(request, 1.0)
    assert order == [0, 1, 2, 3, 5]
    assert again.stop is not None
    assert again.stop.reason == "done"
    assert list(again.strategy.population()) == [request.model_id for request in again.requests]


def test_waits_for_an_ancestor() -> None:
    run, _ = recorded()
    again = StrategyRun(Replay(run.requests, [report for _, report in run.told]))
    first = again.ask(5)
    assert len(first) == 1
    assert again.ask(4) == []
    again.tell(first[0], 1.0)
    assert len(again.ask(4)) == 1


def test_ends_where_an_ancestor_fails_instead_of_waiting_for_ever() -> None:
    run, _ = recorded()
    again = StrategyRun(Replay(run.requests, [report for _, report in run.told]))
    again.tell(again.ask(4)[0], None, "failed", "time limit")
    assert again.ask(4) == []
    assert again.stop is not None
    assert "run-00000, whose training failed in the replay" in again.stop.message


def test_a_run_that_was_not_alone_is_refused() -> None:
    run, _ = recorded()
    reports = [replace(report, ancestor=ModelId("stranger")) for _, report in run.told]
    with pytest.raises(InvalidInput, match="inherited from stranger, which the run has not trained"):
        Replay(run.requests, reports)
