"""What is the same to a search, and what isn't: trainings, data and problems go by what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.protocol.pickle import dumps

from daskevo.errors import RunMismatch
from daskevo.search import Grid
from daskevo.space import Choice, Space
from daskevo_workflows import nas
from daskevo_workflows.execution.trainers import DELIVERED, kill_process
from daskevo_workflows.problems import Data, refer
from daskevo_workflows.problems.delivery import Delivery
from tests.waiting import wait_until
from tests.workflows.waiting import wait_for_workers

NAMES = {"provider-0", "trainer-0", "trainer-1"}

pytestmark = pytest.mark.processes

REGULARISED = """
def space():
    return Space(name, (Choice("l2", (0.0, 0.1, 10.0)), Choice("initializer", ("zeros", "ones", "he_normal")),
                        Choice("idle", (0, 1))))


def build(choices):
    import keras

    inputs = keras.Input((8,))
    layer = keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2(choices["l2"]),
                               kernel_initializer=choices["initializer"])
    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(layer(inputs)))
"""


def changed(path: Path, *changes: tuple[str, str], more: str = "") -> Path:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text + more)
    return path


@pytest.mark.long
def test_settings_that_no_id_has_make_other_trainings(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """All of them may share weights, so their ids are equal; choices without any effect are found all the same."""
    problem = changed(tiny(), more=REGULARISED)
    result = nas.search(problem, Grid(), repository=repository, evaluations=18, run=tmp_path / "run", transfer=False)
    finished = [report for report in result.reports if report.status == "finished"]
    assert result.stop[0] == "exhausted"
    requests = {request.number: request for request in result.requests}
    options = [tuple(result.choices(requests[report.number]).values())[:2] for report in finished]
    assert sorted(options) == sorted(product((0.0, 0.1, 10.0), ("zeros", "ones", "he_normal")))
    assert [report.status for report in result.reports].count("duplicate") == 9


class Folds:
    """A problem object that holds its arrays, as of one fold; true labels, or shuffled ones, which nothing learns."""

    name = "folds"
    objective = "max val_accuracy"
    epochs, batch_size = 8, 16

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def space(self) -> Space:
        return Space(self.name, (Choice("units", (8, 16)),))

    def build(self, choices: Any) -> Any:
        import keras

        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(choices["units"], "relu")(inputs)
        return keras.Model(inputs, keras.layers.Dense(2, "softmax")(hidden))

    def compile(self, model: Any) -> None:
        import keras

        model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy", run_eagerly=True)

    def data(self) -> Data:
        return Data((self.x[:96], self.y[:96]), (self.x[96:], self.y[96:]))

    def score(self, model: Any, data: Data) -> dict[str, float]:
        x, y = data.validation
        return {"val_accuracy": float(np.mean(np.asarray(model(x)).argmax(1) == y)), "sum": float(data.train[0].sum())}


@pytest.mark.long
def test_each_fold_is_searched_with_its_own_arrays_which_travel_once(
    repository: Any, client: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((128, 4)).astype(np.float32) for _ in range(2)]
    for fold, x in enumerate(parts):
        problem = Folds(x, (x[:, 0] > 0).astype(np.int32))
        result = nas.search(
            problem, Grid(), repository=repository, evaluations=2, run=tmp_path / f"fold{fold}", transfer=False
        )
        assert [report.metrics["sum"] for report in result.reports] == pytest.approx([x[:96].sum()] * 2, rel=1e-4)
    wait_until(lambda: not any(key.startswith(DELIVERED) for key in client.run_on_scheduler(tasks_of)))


def total(parcel: Any) -> float:
    return float(parcel.instance.x.sum())


@pytest.mark.long
def test_a_problem_object_outlives_the_trainers_that_had_it(client: Any) -> None:
    """Dask makes it again on one that comes later, as after a recycling of all."""
    reference = refer(Folds(np.ones((100_000, 4)), np.zeros(4)))
    delivery = Delivery(client, reference)
    assert len(dumps(delivery.reference)) < 20_000 < len(dumps(reference))
    first = delivery.parcel()

    def summed() -> float:
        future = client.submit(total, delivery.parcel(), resources={"evaluation": 1}, pure=False)
        return float(future.result(timeout=180))

    assert summed() == 400_000
    running = wait_for_workers(client, NAMES)
    client.run(kill_process, workers=[running[name] for name in NAMES if name != "provider-0"], nanny=True)
    assert summed() == 400_000
    assert delivery.parcel() is first
    delivery.close()
    wait_for_workers(client, NAMES)


def tasks_of(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


def test_a_run_does_not_go_on_with_other_data(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    table = tmp_path / "shift"
    table.write_text("0")
    reading = f"x = rng.standard_normal((96, 8)).astype(np.float32) + float(Path({str(table)!r}).read_text())"
    problem = changed(tiny(), ("x = rng.standard_normal((96, 8)).astype(np.float32)", reading))
    options = {"repository": repository, "run": tmp_path / "run", "transfer": False}
    nas.search(problem, Grid(), evaluations=1, **options)
    table.write_text("1")
    with pytest.raises(RunMismatch, match=r"holds a run on other data than .* has prepared") as caught:
        nas.search(problem, Grid(), evaluations=3, **options)
    assert caught.value.facts["parts"] == ["data"]
    found = nas.look(tmp_path / "run")
    assert len(found.reports) == 1
    assert len(repository.models(repository.scope)) == 1
    table.write_text("0")
    assert len(nas.search(problem, Grid(), evaluations=2, **options).reports) == 2
