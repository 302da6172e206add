"""Trainers that say when they leave, and evaluations that they would not end before."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.deploy.roles import ENDS, EVALUATION
from daskevo_workflows.execution.trainers import Trainers


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Client:
    """Whose scheduler knows these workers: name -> metrics."""

    def __init__(self, **workers: dict[str, Any]) -> None:
        self.workers = workers
        self.scheduler = SimpleNamespace(identity=self._identity)

    def sync(self, function: Callable[..., Any], **options: Any) -> Any:
        return function(**options)

    def _identity(self, n_workers: int) -> dict[str, Any]:
        return {
            "workers": {
                f"tcp://{name}": {"name": name, "resources": {EVALUATION: 1}, "nanny": "tcp://n", "metrics": metrics}
                for name, metrics in self.workers.items()
            }
        }


def trainers(seconds: float | None, clock: Clock, **workers: dict[str, Any]) -> Trainers:
    found = Trainers(Client(**workers), lambda name, error: None, lambda: seconds, clock)
    found.refresh()
    return found


def free(found: Trainers) -> list[str]:
    return [str(trainer.name) for trainer in found.free()]


def test_who_leaves_too_early_is_given_nothing() -> None:
    clock = Clock()
    found = trainers(60.0, clock, early={ENDS: 1200.0}, late={ENDS: 9000.0}, never={})
    assert free(found) == ["early", "late", "never"]
    clock.now = 1150.0
    found.refresh()
    assert free(found) == ["late", "never"]
    assert found.slots == 3


def test_what_takes_longer_than_a_life_is_begun_by_the_new(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    found = trainers(10_000.0, clock, short={ENDS: 1600.0})
    assert free(found) == ["short"]
    clock.now = 1300.0
    assert free(found) == []


def test_before_anything_has_finished_all_are_given_something_but_those_at_their_end() -> None:
    clock = Clock()
    found = trainers(None, clock, short={ENDS: 1010.0})
    assert free(found) == ["short"]
    clock.now = 1008.0
    assert free(found) == []


@pytest.mark.parametrize("said", [None, "tomorrow", True, -1.0])
def test_a_metric_that_is_no_moment_is_no_end(said: Any) -> None:
    assert free(trainers(60.0, Clock(), odd={ENDS: said})) == ["odd"]
