"""Parts of evaluator, storage and callback that decide without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")

import keras
from deephyper.evaluator import JobStatus, RunningJob
from deephyper.evaluator.storage import MemoryStorage
from deephyper.stopper import ConstantStopper

from daskevo.errors import ClusterError, InvalidInput, SchedulerUnreachable
from daskevo_plugins.deephyper import DaskEvaluator, DaskStorage, follow
from daskevo_plugins.deephyper.evaluator import Evaluation, _slots, evaluate
from daskevo_plugins.deephyper.scheduler_storage import KEPT_S, StorageKeeper


def running(parameters: Any = None, stopper: Any = None) -> RunningJob:
    storage = MemoryStorage()
    storage.connect()
    made = RunningJob(storage.create_new_job(storage.create_new_search()), parameters or {}, storage, stopper)
    if stopper is not None:
        stopper.job = made
    is_now(made, JobStatus.RUNNING)
    return made


def is_now(job: RunningJob, status: JobStatus) -> None:
    job.storage.store_job_status(job.id, status.value)


# -- evaluator ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.CANCELLING, JobStatus.CANCELLED])
def test_what_nobody_waits_for_is_not_begun(status: JobStatus) -> None:
    job = running({"x": 2})
    assert evaluate(Evaluation(lambda job, more: job["x"] + more, job, {"more": 1}, True))["objective"] == 3.0
    is_now(job, status)
    assert evaluate(Evaluation(lambda job: 1 / 0, job, {}, True))["objective"] == "F_CANCELLED"


def test_outputs_of_other_jobs_are_left_as_they_are() -> None:
    assert evaluate(Evaluation(lambda job: {"any": None}, running(), {}, False)) == {"any": None}


@pytest.mark.parametrize(
    ("worker", "resources", "slots"),
    [
        ({}, {}, 4),
        ({}, {"GPU": 1}, 0),
        ({"resources": None}, {"GPU": 1}, 0),
        ({"resources": {"GPU": 3}}, {"GPU": 1}, 3),
        ({"resources": {"GPU": 9}}, {"GPU": 1}, 4),
        ({"resources": {"GPU": 3}}, {"GPU": 2}, 1),
        ({"resources": {"GPU": 3, "RAM": 2}}, {"GPU": 1, "RAM": 1}, 2),
        ({"resources": {"GPU": 3}}, {"GPU": 1, "RAM": 0}, 3),
        ({"status": "paused"}, {}, 4),
        ({"status": "closing_gracefully"}, {}, 0),
        ({"status": "closed"}, {}, 0),
    ],
)
def test_evaluations_that_a_worker_takes(worker: dict[str, Any], resources: dict[str, float], slots: int) -> None:
    assert _slots({"nthreads": 4, **worker}, resources) == slots


def test_asynchronous_clients_are_refused() -> None:
    client = SimpleNamespace(asynchronous=True)
    with pytest.raises(InvalidInput, match="synchronous Dask client"):
        DaskEvaluator(abs, client=client)
    with pytest.raises(InvalidInput, match="synchronous Dask client"):
        DaskStorage(client).connect()


# -- storage -----------------------------------------------------------------------------------------------------------


def test_answers_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = DaskStorage(SimpleNamespace(), name="mine")

    def answered(reply: Any) -> Callable[[Any], Any]:
        def sent(message: Any) -> Any:
            if isinstance(reply, Exception):
                raise reply
            return reply

        return sent

    for reply, error in (
        (OSError("gone"), SchedulerUnreachable),
        (TimeoutError(), SchedulerUnreachable),
        (None, ClusterError),
        ({"missing": "mine"}, ClusterError),
        ({"missing": "a.7"}, KeyError),
    ):
        monkeypatch.setattr(storage, "_sent", answered(reply))
        with pytest.raises(error):
            storage.load_all_search_ids()
    monkeypatch.setattr(storage, "_sent", answered({"value": ["a"]}))
    assert storage.load_all_search_ids() == ["a"]


class Later:
    """Stands for the scheduler, whose clock a test can't wait for."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.clients = {"one", "other"}
        self.loop = self
        self.calls: list[tuple[Any, ...]] = []

    def call_later(self, *call: Any) -> None:
        self.calls.append(call)

    def go_on(self) -> None:
        for _, function, *arguments in self.calls:
            function(*arguments)
        self.calls.clear()


def test_a_storage_goes_a_while_after_its_last_client() -> None:
    scheduler, keeper = Later(), StorageKeeper()
    asyncio.run(keeper.start(scheduler))
    (answer,) = scheduler.handlers.values()
    for client in ("one", "other"):
        assert answer("mine", "open", [client]) == {"value": None}
    assert answer("mine", "create_search", ["a"]) == {"value": "a"}
    assert answer("mine", "jobs_of", ["b"]) == {"missing": "b"}
    assert answer("yours", "searches", []) == {"missing": "yours"}
    # One that only broke its connection is back in time.
    keeper.remove_client(scheduler, "stranger")
    assert not scheduler.calls
    keeper.remove_client(scheduler, "one")
    assert scheduler.calls[0][0] == KEPT_S
    scheduler.go_on()
    keeper.remove_client(scheduler, "one")
    scheduler.clients.remove("one")
    scheduler.go_on()
    assert answer("mine", "searches", []) == {"value": ["a"]}
    keeper.remove_client(scheduler, "other")
    scheduler.clients.remove("other")
    scheduler.go_on()
    assert answer("mine", "searches", []) == {"missing": "mine"}


# -- callback ----------------------------------------------------------------------------------------------------------


def following(job: RunningJob, objective: str = "min loss") -> Any:
    made = follow(job, objective)
    made.set_model(keras.Sequential())
    made.model.stop_training = False
    return made


def test_stoppers_see_what_is_minimised_negated() -> None:
    job = running(stopper=ConstantStopper(max_steps=9, stop_step=2))
    callback = following(job)
    callback.on_epoch_end(0, {"loss": 3.0})
    assert (job.stopper.step, job.stopper.objective) == (1, -3.0)
    assert (callback.stopped, callback.model.stop_training) == (None, False)
    callback.on_epoch_end(1, {"loss": 2.0})
    assert (callback.stopped, callback.model.stop_training) == ("stopper", True)
    with pytest.raises(InvalidInput, match=r"tells nothing of 'loss'.*tells of accuracy"):
        callback.on_epoch_end(2, {"accuracy": 0.5})
    with pytest.raises(InvalidInput, match="tells of nothing"):
        callback.on_epoch_end(2)


def test_without_a_stopper_any_metric_will_do() -> None:
    job = running()
    callback = following(job, "max accuracy")
    callback.on_epoch_end(0, {"loss": 3.0})
    callback.on_epoch_end(1, {"accuracy": 0.5})
    assert job.objective == 0.5
    assert callback.stopped is None


def test_training_ends_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    job = running()
    is_now(job, JobStatus.CANCELLING)
    callback = following(job)
    monkeypatch.setattr("daskevo_plugins.deephyper.keras_callback.LOOK_S", 1e6)
    callback.on_train_batch_end(0)  # it is too early to look
    assert callback.stopped is None
    monkeypatch.setattr("daskevo_plugins.deephyper.keras_callback.LOOK_S", 0.0)
    callback.on_train_batch_end(1)
    assert (callback.stopped, callback.model.stop_training) == ("time", True)
    at_the_end = following(job)
    at_the_end.on_epoch_end(0, {"loss": 1.0})
    assert at_the_end.stopped == "time"
    goes_on = following(running())
    goes_on.on_train_batch_end(0)
    assert (goes_on.stopped, goes_on.model.stop_training) == (None, False)
