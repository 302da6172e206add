"""Parts of an evaluation that need no cluster: metrics, callbacks, trainers' slots."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidProblem, SchedulerUnreachable
from daskevo.runs import RunState
from daskevo.search import Failure, Report, Request
from daskevo.space import Candidate
from daskevo.types import ModelId, Objective
from daskevo_workflows.evaluation.evaluate import _quality
from daskevo_workflows.evaluation.failures import Failed
from daskevo_workflows.evaluation.training import Stopwatch, finite, fresh, train
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.trainers import Trainers, kill_process
from daskevo_workflows.problems import refer


def test_metrics_become_json_numbers() -> None:
    metrics = {
        "a": np.float32(0.5),
        "b": float("nan"),
        "c": "text",
        "d": np.array(2),
        "e": float("-inf"),
        "f": None,
        "g": np.ones(3),
        "i": np.ones(1),
        "h": 10**400,
    }
    assert finite(metrics) == {"a": 0.5, "b": None, "d": 2.0, "e": None, "h": None}
    assert Objective.parse("max h").quality(metrics) is None


@pytest.mark.parametrize("direction", ["max", "min"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "bad", [0.7], np.array([0.7]), True, 10**400])
def test_what_is_no_finite_number_is_no_quality(direction: str, value: Any) -> None:
    with pytest.raises(Failed, match="not a finite number") as raised:
        _quality(Objective.parse(f"{direction} q"), {"q": value, "other": 1.0})
    assert raised.value.kind == "not finite"


def test_a_metric_that_nobody_gave_is_a_fault_of_the_problem() -> None:
    assert _quality(Objective.parse("min q"), {"q": np.float32(0.5)}) == 0.5
    with pytest.raises(InvalidProblem, match="did you mean 'min parameters'"):
        _quality(Objective.parse("min parameter"), {"q": 0.5})


def test_callbacks_are_fresh() -> None:
    class Callback:
        used = 0

    given_one = Callback()
    (copied,) = fresh([given_one])
    copied.used = 5
    assert given_one.used == 0
    assert fresh(lambda: (given_one,)) == [given_one]


class Client:
    """Answers as a Dask client does, and restarts workers under another address."""

    def __init__(self) -> None:
        self.workers: dict[str, dict[str, Any]] = {}
        self.scheduler = self

    def sync(self, function: Any, **arguments: Any) -> Any:
        return function(**arguments)

    def identity(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        return {"workers": self.workers}

    def run(self, function: Any, workers: list[str], nanny: bool) -> None:
        assert function is kill_process
        assert nanny
        if workers == ["tcp://2"]:
            raise OSError("no such nanny")
        (address,) = workers
        self.workers[f"{address}0"] = self.workers.pop(address)

    def add(self, address: str, name: Any, slots: int = 1, **fields: Any) -> None:
        resources = {"evaluation": slots} if slots else {"provider": 1}
        self.workers[address] = {"name": name, "resources": resources, "nanny": "tcp://n", "status": "running"} | fields


def test_slots_of_trainers() -> None:
    client = Client()
    client.add("tcp://1", "trainer-1", 2)
    client.add("tcp://2", 0)
    client.add("tcp://3", "provider-0", 0)
    client.add("tcp://4", "paused", status="paused")
    client.add("tcp://5", "leaving", status="closed")
    trainers = Trainers(client, lambda name, error: None)
    trainers.refresh()
    assert set(trainers.present) == {"trainer-1", "0", "paused"}
    assert trainers.present["0"].name == 0
    assert [str(trainer.name) for trainer in trainers.free()] == ["0", "trainer-1", "trainer-1"]
    trainers.take("trainer-1", "a")
    assert [str(trainer.name) for trainer in trainers.free()] == ["0", "trainer-1"]
    trainers.give_back("trainer-1", "a", evaluated=True)
    assert trainers.evaluations["trainer-1"] == 1
    # Another process under the same name has evaluated nothing.
    client.workers["tcp://9"] = client.workers.pop("tcp://1")
    trainers.refresh()
    assert trainers.evaluations["trainer-1"] == 0


def test_a_trainer_being_restarted_is_not_free() -> None:
    client, ended = Client(), []
    client.add("tcp://1", "a")
    client.add("tcp://2", "b")
    client.add("tcp://3", "c", nanny=None)
    trainers = Trainers(client, lambda name, error: ended.append((name, type(error))))
    trainers.refresh()
    assert trainers.restart("a")
    assert trainers.restart("b")
    assert not trainers.restart("c")
    assert not trainers.restart("gone")
    assert [trainer.name for trainer in trainers.free()] == ["c"]
    deadline = time.monotonic() + 60
    while len(ended) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(ended) == [("a", type(None)), ("b", OSError)]
    trainers.has_restarted("a")
    assert [trainer.name for trainer in trainers.free()] == ["a", "c"]


def test_a_scheduler_that_is_gone() -> None:
    class Gone(Client):
        def identity(self, n_workers: int) -> dict[str, Any]:
            raise OSError("connection refused")

    with pytest.raises(SchedulerUnreachable, match="connection refused"):
        Trainers(Gone(), lambda name, error: None).refresh()


def test_progress() -> None:
    run_state = RunState(Objective.parse("min loss"), 10, "run")
    run_state.ask(Request(number, ModelId(f"m{number}"), Candidate((number,))) for number in range(4))
    assert Progress.of(run_state, {}, 2).left_s is None
    for number, quality in enumerate((0.5, 0.25)):
        run_state.report(
            Report(number, ModelId(f"m{number}"), "finished", quality=quality, started=0.0, ended=4.0, frozen_share=0.5)
        )
    progress = Progress.of(run_state, {"stored_bytes": 3, "full_copy_bytes": 6, "live_models": 2}, 2)
    assert (progress.finished, progress.evaluations, progress.best_quality) == (2, 10, 0.25)
    assert progress.left_s == 8 * 4.0 / 2
    assert (progress.stored_bytes, progress.full_copy_bytes, progress.mean_frozen_share) == (3, 6, 0.5)
    assert Progress.of(run_state, {}, 0).left_s is None
    assert progress.first_failure == ""
    run_state.report(Report(3, ModelId("m3"), "failed", failure=Failure("error", "ValueError: why")))
    assert Progress.of(run_state, {}, 2).first_failure == "evaluation 3 failed: ValueError: why"


@pytest.mark.parametrize(("until", "steps"), [(None, 4), (1, 1), (4, 4), (6, 6)])
def test_training_ends_at_the_step_that_was_asked_for(until: int | None, steps: int) -> None:
    """64 samples in batches of 16 are 4 steps per epoch; the problem asks for one epoch."""
    problem = refer(Path(__file__).with_name("tiny.py")).load()
    model = problem.build(problem.space().values(problem.space().sample(np.random.default_rng(0))))
    metrics, taken = train(problem, model, problem.data(), Stopwatch(), until_step=until)
    assert taken == steps
    assert int(model.optimizer.iterations) == steps
    assert 0 <= metrics["val_accuracy"] <= 1


def test_a_problem_may_fit_in_its_own_way() -> None:
    problem: Any = refer(Path(__file__).with_name("tiny.py")).load()
    model = problem.build(problem.space().values(problem.space().sample(np.random.default_rng(0))))
    asked: list[Any] = []

    class Own:
        epochs, batch_size = 2, 16
        compile, score = staticmethod(problem.compile), staticmethod(problem.score)

        def fit(self, model: Any, x: Any, y: Any, **options: Any) -> Any:
            asked.append(sorted(options))
            return model.fit(x[:16], y[:16], **options)

    _, taken = train(Own(), model, problem.data(), Stopwatch())  # type: ignore[arg-type]
    assert asked == [["batch_size", "callbacks", "epochs", "verbose"]]
    assert taken == 2
