"""An evaluation reserves what it inherits while its candidate is built: what happens when that turns out otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daskevo.search import Report, Request
from daskevo.types import ModelId, Objective
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.evaluate import evaluate
from daskevo_workflows.problems import refer
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


def graph_of(problem: Path, choices: dict[str, Any]) -> Any:
    from daskevo.models import flatten, shape_only

    with shape_only():
        return flatten(refer(problem).load().build(choices)).graph


CHOICES = {"first": 8, "activation": "relu", "second": 3, "idle": 0}


def assign(problem: Path, repository: Any, number: int, **choices: Any) -> EvaluationAssignment:
    """Return an assignment with the graph of the candidate that it names."""
    reference, wanted = refer(problem), CHOICES | choices
    name = ModelId(f"m-{number}")
    return EvaluationAssignment(
        key=f"early-{repository.scope}-{time.monotonic_ns()}-{number}",
        request=Request(number, name, reference.load().space().candidate(wanted)),
        problem=reference,
        repository=repository,
        seed=number,
        objective=Objective.parse("max val_accuracy"),
        labels=("population:test",),
        graph=graph_of(problem, wanted),
    )


def submitted(client: Any, assignment: EvaluationAssignment) -> Any:
    return client.submit(evaluate, assignment, key=assignment.key, resources={"evaluation": 1}, pure=False)


def evaluated(client: Any, assignment: EvaluationAssignment) -> Report:
    report: Report = submitted(client, assignment).result(timeout=120)
    return report


def cancel(client: Any, future: Any) -> None:
    """Cancel an evaluation, and wait until its trainer knows of it."""
    future.cancel()
    wait_until(lambda: not any(client.run(is_under_way, future.key).values()))


def is_under_way(key: str, dask_worker: Any) -> bool:
    task = dask_worker.state.tasks.get(key)
    return task is not None and task.state == "executing"


def at_rest(repository: Any) -> None:
    wait_until(lambda: repository.stats()["live_attempts"] == repository.stats()["unsettled"] == 0)
    assert repository.verify().clean


def test_reservations_that_come_to_nothing(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    good = tiny()
    first = evaluated(client, assign(good, repository, 0))
    assert (first.status, first.ancestor) == ("finished", None)
    second = evaluated(client, assign(good, repository, 1, second=6))
    assert (second.status, second.ancestor, second.prefix) == ("finished", "m-0", 2)
    assert set(second.seconds) >= {"query", "inherit"}

    # The graph is that of another candidate: what was reserved for it does not fit the model that is built.
    mistaken = replace(assign(good, repository, 2, first=4), graph=graph_of(good, CHOICES | {"second": 6, "first": 8}))
    third = evaluated(client, mistaken)
    assert (third.status, third.ancestor, third.prefix) == ("finished", None, 1)
    at_rest(repository)

    # build() fails on the trainer only.
    failing = replace(assign(good, repository, 3, second=6), problem=refer(tiny(FAULTS={6: "build"})))
    fourth = evaluated(client, failing)
    assert fourth.failure is not None
    assert fourth.failure.kind == "build"
    at_rest(repository)

    # Cancelled while build() goes on, with its ancestor's tensors reserved.
    marks = tmp_path / "marks"
    marks.mkdir()
    stuck = replace(
        assign(good, repository, 4, second=6),
        problem=refer(tiny(FAULTS={6: "wait in build"}, MARKS=str(marks))),
    )
    references = repository.stats()["references"]
    future = submitted(client, stuck)
    wait_until(lambda: (marks / "building").exists() and repository.stats()["references"] > references)
    cancel(client, future)
    (marks / "go on").touch()
    at_rest(repository)
    assert repository.status("m-3").state == repository.status("m-4").state == "unknown"
    assert {model.model_id for model in repository.models()} == {"m-0", "m-1", "m-2"}
