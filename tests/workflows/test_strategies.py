"""Strategies in a search: repeats, filters, what is spent and what is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import InvalidInput, RunMismatch
from daskevo.search import (
    AgedEvolution,
    Deduplicate,
    Filter,
    MultiObjectiveEvolution,
    Random,
    Repeat,
    Report,
    Request,
    Stop,
    View,
)
from daskevo_workflows import nas
from daskevo_workflows.execution.size_limits import check_size_limits


@pytest.mark.long
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


@pytest.mark.long
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


class Impatient(AgedEvolution):
    """Gives up whatever is pending when the second report comes, and again when the fifth does."""

    def start(self, *arguments: Any) -> None:
        super().start(*arguments)
        self.pending: set[int] = set()
        self.told = 0
        self.unwanted: list[int] = []

    def ask(self, view: View) -> list[Request] | Stop:
        answer = super().ask(view)
        self.pending |= set() if isinstance(answer, Stop) else {request.number for request in answer}
        return answer

    def tell(self, request: Request, report: Report) -> None:
        super().tell(request, report)
        self.pending.discard(request.number)
        self.told += 1
        if self.told in (2, 5):
            self.unwanted = sorted(self.pending)

    def stop(self) -> list[int]:
        unwanted, self.unwanted = self.unwanted, []
        return unwanted


def test_what_a_strategy_gives_up_spends_no_budget_and_leaves_nothing(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny(FIRST=(4, 8, 12, 16, 20), SECOND=(3, 6, 9, 12))
    result = nas.search(
        problem, Impatient(4, 2), repository=repository, evaluations=10, run=tmp_path / "run", keep_best=1
    )
    assert result.stop[0] == "finished"
    given_up = [report for report in result.reports if report.failure is not None]
    assert given_up
    assert {report.failure.kind for report in given_up if report.failure is not None} == {"stopped"}
    assert result.summary()["evaluations"] == 10
    there = {model.model_id for model in repository.models()}
    assert there == {*result.population(), result.best(1)[0].model_id}
    assert repository.verify().clean


def test_a_model_that_is_put_as_its_evaluation_is_given_up_is_released(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Its put may be on the way when the search asks for it, and be published after the report."""
    import keras

    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    put: list[str] = []

    class Overtaken(Impatient):
        def tell(self, request: Request, report: Report) -> None:
            super().tell(request, report)
            if report.failure is not None:
                label = f"population:{request.model_id.rpartition('-')[0]}"
                # One of them is another candidate's, as where a run's folder was restored from an older copy.
                candidate = request.candidate.to_json() if put else None
                extra = {"candidate": candidate}
                put.append(repository.add(model, model_id=request.model_id, labels=[label], extra=extra))

    problem = tiny(FIRST=(4, 8, 12, 16, 20), SECOND=(3, 6, 9, 12))
    result = nas.search(
        problem, Overtaken(4, 2), repository=repository, evaluations=10, run=tmp_path / "run", keep_best=1
    )
    assert len(put) > 1
    there = {found.model_id for found in repository.models()}
    assert there == {*result.population(), result.best(1)[0].model_id, put[0]}


def test_a_front_of_accuracy_and_size(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    objective = ["max val_accuracy", "min parameters", "min own_bytes", "min flops", "min depth", "max seconds"]
    arguments: dict[str, Any] = {"repository": repository, "objective": objective, "run": tmp_path / "run"}
    nas.search(tiny(), MultiObjectiveEvolution(3), evaluations=4, keep_best=2, **arguments)
    # It goes on where it stopped, and knows its front again.
    problem = next(tmp_path.glob("tiny*.py"))
    result = nas.search(problem, MultiObjectiveEvolution(3), evaluations=8, keep_best=2, **arguments)
    reports = {report.model_id: report for report in result.reports if report.status == "finished"}
    assert len(reports) == 8
    for report in reports.values():
        assert report.metrics["parameters"] == report.parameters
        assert report.metrics["own_bytes"] == report.own_bytes
        assert report.metrics["flops"] > 2 * report.metrics["depth"] == 6
        assert report.metrics["seconds"] > 0
    front = {found.model_id for found in result.front()}

    def ranks(name: str) -> list[float]:
        return [goal.rank(reports[name].metrics[goal.metric]) for goal in result.objectives]

    def dominates(one: str, other: str) -> bool:
        pairs = list(zip(ranks(one), ranks(other), strict=True))
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    assert front == {name for name in reports if not any(dominates(other, name) for other in reports)}
    held = {model.model_id for model in repository.models() if f"best:{result.info.label}" in model.labels}
    assert held <= front
    # Whoever dominates those that are kept takes their places alone: what was dropped before may be retired.
    assert 1 <= len(held) <= 2
    assert "parameters=" in repr(result.front()[0])
    assert result.front()[0].quality == max(report.quality or 0 for report in reports.values())


def test_a_strategy_that_refuses_the_space_leaves_no_run(repository: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a grid takes 100000 candidates at most"):
        nas.search("flights", "grid", repository=repository, objective="max val_accuracy", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("objective", [[], "", ["max a", "max a"], "min own_bytes", 5, ["max"]])
def test_objectives_that_are_none(repository: Any, tiny: Callable[..., Path], tmp_path: Path, objective: Any) -> None:
    with pytest.raises(InvalidInput):
        nas.search(tiny(), repository=repository, objective=objective, run=tmp_path / "run")


def test_models_outside_of_limits_are_rejected_and_spend_no_budget(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Dense 4 -> 3 -> 2 has 59 values, 8 -> 3 -> 2 has 107, 4 -> 6 -> 2 has 80, 8 -> 6 -> 2 has 140."""
    limits = {"parameters": (60, 120), "depth": (None, 3)}
    result = nas.search(tiny(), Random(), repository=repository, evaluations=30, run=tmp_path / "run", limits=limits)
    assert result.stop[0] == "exhausted"
    finished = [report for report in result.reports if report.status == "finished"]
    assert sorted(report.parameters for report in finished) == [80, 80, 107, 107]
    reasons = {report.failure.message for report in result.reports if report.failure is not None}
    assert reasons == {
        "its parameters would be 59, and the search's limit is at least 60",
        "its parameters would be 140, and the search's limit is at most 120",
    }
    assert {report.failure.kind for report in result.reports if report.failure is not None} == {"rejected"}
    summary = result.summary()
    assert (summary["failures"], summary["rejected"]) == (0, sum(r.status == "failed" for r in result.reports))
    with pytest.raises(RunMismatch, match="limits"):
        nas.search(next(tmp_path.glob("tiny*.py")), Random(), repository=repository, run=tmp_path / "run")


@pytest.mark.parametrize(
    "limits",
    [
        {"seconds": (None, 1)},
        {"parameters": 5},
        {"parameters": (1, 2, 3)},
        {"parameters": (2, 1)},
        {"flops": (None, math.nan)},
        {"depth": ("1", None)},
        5,
    ],
)
def test_limits_that_are_none(limits: Any) -> None:
    with pytest.raises(InvalidInput):
        check_size_limits(limits)
