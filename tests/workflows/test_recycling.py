"""Trainers that have trained their share are restarted; one that is a provider too is not, and the run says so once."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.client.query_futures import TASK_PREFIX
from daskevo.errors import NoTrainer
from daskevo_workflows.execution import trainer_upkeep
from daskevo_workflows.execution.running_task import RunningTask
from daskevo_workflows.execution.running_tasks import RunningTasks
from daskevo_workflows.execution.time_limits import EvaluationLimit
from daskevo_workflows.execution.trainers import DELIVERED, Trainer, Trainers


class Topics:
    """What `RunningTasks` needs of a client before anything is submitted."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.holders: dict[str, list[str]] = {}
        self.scheduler = self

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        pass

    def processing(self, workers: list[str]) -> dict[str, list[str]]:
        return {workers[0]: self.tasks}

    def has_what(self, workers: list[str]) -> dict[str, list[str]]:
        return {workers[0]: [key for key, holders in self.holders.items() if workers[0] in holders]}

    def who_has(self, keys: list[str]) -> dict[str, list[str]]:
        return {key: self.holders[key] for key in keys}

    def sync(self, function: Any, **arguments: Any) -> Any:
        return function(**arguments)

    def identity(self, n_workers: int) -> dict[str, Any]:
        worker = {"name": "t", "resources": {"evaluation": 1.0}, "nanny": "tcp://n", "status": "running"}
        return {"workers": {"tcp://t": worker}}

    def cancel(self, futures: list[Any], force: bool) -> None:
        pass

    def unsubscribe_topic(self, topic: str) -> None:
        pass


class Events:
    """What `RunningTasks` needs of a record before anything is submitted."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def event(self, kind: str, message: str, *arguments: Any, **facts: Any) -> None:
        self.seen.append((kind, message))

    def unit_ended(self, key: str, state: str) -> None:
        self.seen.append((key, state))


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("provider", [False, True])
def test_a_trainer_that_is_a_provider_is_kept_and_that_is_said_once(provider: bool, paused: bool) -> None:
    events, restarted = Events(), []
    flights = RunningTasks(Topics(), None, events, EvaluationLimit(None, lambda count, steps: []), None, 3)  # type: ignore[arg-type]
    flights.trainers.restart = lambda name: bool(restarted.append(name)) or True  # type: ignore[method-assign,func-returns-value]
    flights.trainers.present["t"] = Trainer("t", "tcp://t", 1, True, paused=paused, provider=provider)
    flights.tasks.upkeep.recycle("t")
    assert (events.seen == []) == (not paused)
    flights.trainers.evaluations["t"] = 3
    for _ in range(3):
        flights.tasks.upkeep.recycle("t")
    assert bool(restarted) == (not provider)
    if provider:
        ((kind, message),) = events.seen
        assert kind == "not recycled"
        assert "t paused" in message if paused else "t after 3 evaluations" in message
    else:
        assert {kind for kind, _ in events.seen} == {"recycled"}


def due(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[Topics, RunningTasks, Events, list[str]]:
    """A trainer that is due for its restart, and what is done about it."""
    monkeypatch.setattr(trainer_upkeep, "ASKED_EVERY_S", 0.0)
    client, events, restarted = Topics(), Events(), list[str]()
    flights = RunningTasks(client, None, events, EvaluationLimit(None, lambda count, steps: []), None, 3)  # type: ignore[arg-type]
    flights.trainers.restart = lambda name: bool(restarted.append(name)) or True  # type: ignore[method-assign,func-returns-value]
    flights.trainers.present["t"] = Trainer("t", "tcp://t", 1, **{"nanny": True, **fields})
    flights.trainers.evaluations["t"] = 3
    return client, flights, events, restarted


def test_where_others_have_tasks_or_results_a_restart_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    client, flights, events, restarted = due(monkeypatch)
    flights.trainers.take("t", "ours")
    flights.trainers.give_back("t", "ours", evaluated=True)
    client.holders = {"ours": ["tcp://t"], "everywhere": ["tcp://t", "tcp://u"], "theirs": ["tcp://t"]}
    client.holders |= {f"{TASK_PREFIX}best-1": ["tcp://t"], f"{DELIVERED}1": ["tcp://t"]}
    client.tasks = ["theirs too"]
    for _ in range(3):
        flights.tasks.upkeep.recycle("t")
    assert restarted == []
    ((kind, message),) = events.seen
    assert kind == "not recycled"
    assert "t after 4 evaluations is not restarted, because others have 1 task and 1 result there" in message
    client.tasks = []
    flights.tasks.upkeep.recycle("t")
    assert restarted == []
    del client.holders["theirs"]
    flights.tasks.upkeep.recycle("t")
    assert restarted == ["t"]


@pytest.mark.parametrize("fields", [{"provider": True}, {"nanny": False}, {}])
def test_paused_trainers_that_nobody_restarts_are_none(monkeypatch: pytest.MonkeyPatch, fields: Any) -> None:
    client, flights, _, restarted = due(monkeypatch, paused=True, running=False, **fields)
    client.holders = {"theirs": ["tcp://t"]}
    flights.tasks.upkeep.recycle("t")
    flights.tasks.upkeep.check_any(0.0)
    with pytest.raises(NoTrainer, match="Dask has paused t, which is not restarted, because"):
        flights.tasks.upkeep.check_any(trainer_upkeep.NO_TRAINER_S + 1.0)
    assert restarted == []
    # What it is busy with may free memory.
    flights.trainers.take("t", "ours")
    flights.tasks.upkeep.check_any(2 * trainer_upkeep.NO_TRAINER_S + 2.0)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_hanging_evaluation_ends_its_trainer_once_others_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Where it has the only thread, tasks of others only wait behind it, and run elsewhere afterwards."""
    client, flights, _, restarted = due(monkeypatch, threads=threads)
    future = type("Future", (), {"cancel": lambda self, force: None})()
    client.tasks = ["theirs"]
    if threads == 1:
        assert "was restarted" in flights.tasks.upkeep.end(future, "t", "ours", "evaluation 1")
        assert restarted == ["t"]
        return
    flights.trainers.take("t", "ours")
    assert "has 1 task and 0 results of others" in flights.tasks.upkeep.end(future, "t", "ours", "evaluation 1")
    assert flights.trainers.slots == 0
    flights.tasks.upkeep.check_any(0.0)
    assert restarted == []
    client.tasks = []
    flights.tasks.upkeep.check_any(1.0)
    assert restarted == ["t"]


@pytest.mark.parametrize(
    ("said", "patience_s", "ends"),
    [
        (["begun"], 0.1, True),
        (["begun"], 0.0, False),
        (["begun", "over"], 600.0, False),
        ([], 600.0, False),
    ],
)
def test_what_goes_on_when_a_run_ends_is_ended_with_its_process(
    said: list[str], patience_s: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query of its batch is the run's own, and may have been left on this trainer alone."""
    client, flights, events, restarted = due(monkeypatch)
    client.holders = {f"{TASK_PREFIX}best-1": ["tcp://t"]}
    released: list[Any] = []
    future = type("Future", (), {"cancel": lambda self, force: None, "release": lambda self: released.append(self)})()
    unit, request = SimpleNamespace(key="ours"), SimpleNamespace(number=7)
    trainer = flights.trainers.present["t"]
    task = RunningTask(key="ours", trainer=trainer, future=future, request=request, unit=unit)  # type: ignore[arg-type]
    flights.tasks.running["ours"] = task
    flights.trainers.take("t", "ours")
    for what in said:
        flights.post(partial(flights.tasks._hear, {"key": "ours", "what": what, "worker": "t"}))
    flights.close(patience_s)
    assert restarted == ["t"] * ends
    given_up = [("given up", "its trainer t was restarted")] * ends
    assert events.seen == [*given_up, ("ours", "cancelled")]
    # Otherwise its result would stay on the trainer as long as the client is there.
    assert released


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
