"""Callbacks that watch validation data act as in Keras; whoever asks for none is fitted as ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest

from daskevo.errors import InvalidProblem
from daskevo.tuning import Configuration, Constant, Trajectory
from daskevo_workflows.evaluation.training import Stopped, Stopwatch, train
from daskevo_workflows.fitting import validation_options, watched_in_vain
from daskevo_workflows.problems import Data, check_problem, refer
from daskevo_workflows.stage_training import begin
from tests.cases import with_long


class Line:
    """Its loss on validation data is the same in every epoch, as no learning rate moves a weight."""

    name, objective, epochs, batch_size = "line", "max val_loss", 5, 8
    watched: tuple[Any, ...] = ()

    def build(self, choose: Any) -> keras.Model:
        inputs = keras.Input((3,))
        return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(choose("units", (1, 2)))(inputs)))

    def data(self) -> Data:
        x = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
        return Data((x[:16], x[:16, :1]), (x[16:], x[16:, :1]))

    def compile(self, model: keras.Model) -> None:
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"], run_eagerly=True)

    def callbacks(self) -> list[Any]:
        return list(self.watched)

    def score(self, model: keras.Model, data: Data) -> dict[str, float]:
        return {}


class OwnFit(Line):
    def fit(self, model: Any, x: Any, y: Any, **options: Any) -> Any:
        self.given = sorted(options)
        return model.fit(x, y, **options)


class Validating(OwnFit):
    validate = True


class Naming(OwnFit):
    def fit(self, model: Any, x: Any, y: Any, validation_data: Any = None, **options: Any) -> Any:
        return super().fit(model, x, y, validation_data=validation_data, **options)


def stopping(monitor: str = "val_loss") -> keras.callbacks.Callback:
    return keras.callbacks.EarlyStopping(monitor=monitor, patience=1, mode="min")


def trained(problem: Any, **options: Any) -> tuple[Mapping[str, Any], int]:
    model = problem.build(lambda name, choices: choices[0])
    return train(problem, model, problem.data(), Stopwatch(), **options)


@pytest.mark.parametrize("kind", with_long([Line, Validating, Naming], Line, Naming))
def test_early_stopping_stops(kind: type[Line]) -> None:
    """Be it the problem's callback or the search's, with daskevo's fit or one of the problem's own."""
    problem = kind()
    metrics, steps = trained(problem, callbacks=[stopping()])
    assert steps == 2 * 2
    assert {"val_loss", "val_mae"} <= set(metrics)
    problem.watched = (stopping("val_mae"),)
    assert trained(problem)[1] == 2 * 2


@pytest.mark.long
def test_who_asks_for_no_validation_gets_none() -> None:
    problem = OwnFit()
    problem.watched = (stopping("loss"), keras.callbacks.ModelCheckpoint("nowhere/{epoch}.weights.h5"))
    assert validation_options(problem, problem.watched, problem.data()) == {}
    problem.watched = ()
    metrics, steps = trained(problem)
    assert (steps, sorted(metrics)) == (5 * 2, ["loss", "mae"])
    assert problem.given == ["batch_size", "callbacks", "epochs", "verbose"]
    # A fit of one's own may give Keras such data itself: it gets none that it doesn't name.
    problem.watched = (stopping(),)
    with pytest.warns(UserWarning, match="val_loss"):
        trained(problem)
    assert "validation_data" not in problem.given


@pytest.mark.long
def test_a_problem_may_want_validation_by_itself() -> None:
    problem = Validating()
    assert "val_loss" in trained(problem)[0]
    assert "validation_data" in problem.given


@pytest.mark.long
def test_a_function_of_that_name_asks_for_none() -> None:
    class Helping(OwnFit):
        def validate(self, x: Any) -> Any:
            return x

    problem = Helping()
    assert refer(problem).load() is problem
    assert "val_loss" not in trained(problem)[0]
    assert "validation_data" not in problem.given


def test_a_dataset_to_score_with_goes_alone() -> None:
    batches = object()
    data = Data((1, 2), (batches, None))
    assert validation_options(Validating(), (), data) == {"validation_data": batches}


def test_what_a_callback_watches_in_vain() -> None:
    assert watched_in_vain([stopping("val_acc"), stopping("loss"), keras.callbacks.History()], ["loss"]) == [
        ("EarlyStopping", "val_acc")
    ]


def test_check_says_what_is_watched_in_vain() -> None:
    problem = Line()
    problem.watched = (stopping("val_acc"),)
    with (
        pytest.warns(UserWarning, match="val_acc"),
        pytest.raises(InvalidProblem, match="watches 'val_acc', and training gave loss, mae, val_loss, val_mae"),
    ):
        check_problem(problem, candidates=1, batches=1)
    problem.watched = (stopping(),)
    check_problem(problem, candidates=1, batches=1)


def test_training_that_is_given_up_ends_while_it_validates() -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 2  # after both batches of the first epoch

    with pytest.raises(Stopped):
        trained(Validating(), cancelled=cancelled, epochs=1)


def test_a_study_gives_callbacks_what_they_watch() -> None:
    class Seen(keras.callbacks.Callback):  # type: ignore[misc]
        stateless = True
        monitor = "val_mae"
        logs: Any = None

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.logs = logs

    problem, seen = Line(), Seen()
    problem.watched = (seen,)
    values = {"batch_size": Constant(8), "learning_rate": Constant(0.0)}
    trajectory = Trajectory("line", Configuration(values, {"units": 1}, unit="epoch"))
    problem.build = lambda choose: Line.build(problem, lambda name, options: choose[name])  # type: ignore[method-assign]
    training = begin(problem, trajectory, problem.data(), seed=0)
    training.advance(1, lambda step: True)
    assert set(seen.logs) == {"loss", "mae", "val_loss", "val_mae"}
    before = training.snapshot()
    training.advance(2, lambda step: True)
    assert all(np.array_equal(old, new) for old, new in zip(before.weights, training.snapshot().weights, strict=True))
