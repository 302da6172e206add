"""Strategies in a search: repeats, filters, what is spent and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from daskevo.search import AgedEvolution, Deduplicate, Filter, Random, Repeat
from daskevo_workflows import nas


def test_repeats_are_evaluations_of_their_own(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """The same architecture, trained from scratch with another seed each time; one model of each candidate stays."""
    result = nas.search(
        tiny(), Repeat(Random(), 2), repository=repository, evaluations=6, run=tmp_path / "run", keep_best=1
    )
    reports = {report.number: report for report in result.reports}
    assert [report.status for report in reports.values()] == ["finished"] * 6
    assert not any(report.transferred for report in reports.values())
    pairs: dict[Any, list[int]] = {}
    for request in result.requests:
        pairs.setdefault(request.candidate, []).append(request.number)
    assert sorted(map(len, pairs.values())) == [2, 2, 2]
    losses = [[reports[number].metrics["loss"] for number in pair] for pair in pairs.values()]
    assert all(one != other for one, other in losses)
    assert len(result.population()) == 3


def test_wrapped_candidates_with_one_graph_spend_no_budget(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Of 24 candidates the filter leaves 12, of 4 architectures; the search says that there are no more."""
    strategy = Deduplicate(Filter(AgedEvolution(4, 2), lambda choices: choices["second"] == 3, "second = 3"))
    result = nas.search(tiny(IDLE=(0, 1, 2)), strategy, repository=repository, evaluations=24, run=tmp_path / "run")
    assert result.stop[0] == "exhausted"
    assert "second = 3" in result.stop[1]
    counts = result.summary()
    assert (counts["evaluations"], counts["duplicates"], counts["failures"]) == (4, 8, 0)
