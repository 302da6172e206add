"""Trainers that have trained their share are restarted; one that is a provider too is not, and the run says so once."""

from __future__ import annotations

from typing import Any

import pytest

from daskevo_workflows.in_flight import Flights
from daskevo_workflows.limits import EvaluationLimit
from daskevo_workflows.trainers import Trainer, Trainers


class Topics:
    """What `Flights` needs of a client before anything is submitted."""

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        pass


class Events:
    """What `Flights` needs of a record before anything is submitted."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def event(self, kind: str, message: str, *arguments: Any, **facts: Any) -> None:
        self.seen.append((kind, message))


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("provider", [False, True])
def test_a_trainer_that_is_a_provider_is_kept_and_that_is_said_once(provider: bool, paused: bool) -> None:
    events, restarted = Events(), []
    flights = Flights(Topics(), None, events, EvaluationLimit(None, lambda count: []), 3)  # type: ignore[arg-type]
    flights.trainers.restart = lambda name: bool(restarted.append(name)) or True  # type: ignore[method-assign,func-returns-value]
    flights.trainers.present["t"] = Trainer("t", "tcp://t", 1, True, paused=paused, provider=provider)
    flights.upkeep.recycle("t")
    assert (events.seen == []) == (not paused)
    flights.trainers.evaluations["t"] = 3
    for _ in range(3):
        flights.upkeep.recycle("t")
    assert bool(restarted) == (not provider)
    if provider:
        ((kind, message),) = events.seen
        assert kind == "not recycled"
        assert "t paused" in message if paused else "t after 3 evaluations" in message
    else:
        assert {kind for kind, _ in events.seen} == {"recycled"}


class Known:
    """What `Trainers` needs of a client: the scheduler's list of workers."""

    scheduler = type("Scheduler", (), {"identity": None})

    def __init__(self) -> None:
        self.workers: dict[str, dict[str, Any]] = {}

    def sync(self, identity: Any, n_workers: int) -> dict[str, Any]:
        return {"workers": self.workers}


def test_who_leaves_in_good_order_is_told_from_who_dies() -> None:
    client = Known()
    trainers = Trainers(client, lambda name, error: None)
    worker = {"name": "t", "resources": {"evaluation": 1.0}, "nanny": "tcp://n", "status": "running", "last_seen": 1.0}
    client.workers = {"tcp://a": worker, "tcp://b": {**worker, "name": "u"}}
    assert set(trainers.refresh()) == {"t", "u"}
    client.workers = {"tcp://a": {**worker, "status": "closing"}}
    assert not trainers.refresh()
    assert trainers.left == {"tcp://a"}
