"""`daskevo check` and a search take the same data, and refuse the same data in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import scipy.sparse

from daskevo.errors import InvalidProblem
from daskevo_workflows.evaluation.evaluate import _data
from daskevo_workflows.evaluation.training import Stopwatch, train
from daskevo_workflows.problems import Data, check_problem, refer
from daskevo_workflows.problems.building import build_candidate, space_of
from tests.cases import with_long

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype("float32")
Y = X[:, :1] * 2.0


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> Any:
        rows = slice(8 * number, 8 * number + 8)
        return X[rows], Y[rows]


class Endless(Batches):
    def __len__(self) -> int:
        raise AttributeError

    @property
    def num_batches(self) -> None:
        return None


def tensors(repeat: bool = False) -> Any:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    return dataset.repeat() if repeat else dataset


class Line:
    name, objective, epochs, batch_size = "line", "min val_loss", 1, 8

    def __init__(self, part: Callable[[], Any], steps: int = 3) -> None:
        self.part = part
        self.steps = steps

    def build(self, choose: Any) -> keras.Model:
        part = self.part()[0]
        named = isinstance(part, dict)
        inputs = {name: keras.Input((3,), name=name) for name in part} if named else keras.Input((3,))
        hidden = keras.layers.Dense(choose("units", (2, 3)))(inputs["a"] if named else inputs)
        if named:
            hidden = keras.layers.Concatenate()([hidden, inputs["b"]])
        out = keras.layers.Dense(1, name="out")(hidden)
        return keras.Model(inputs, {"out": out} if named else out)

    def data(self) -> Data:
        return Data(self.part(), self.part())

    def compile(self, model: keras.Model) -> None:
        model.compile("sgd", "mse", run_eagerly=True)

    def score(self, model: keras.Model, data: Data) -> dict[str, float]:
        x, y = data.validation[:2]
        return {"val_loss": float(model.evaluate(x, y, verbose=0))}


GOOD: dict[str, Callable[[], Any]] = {
    "arrays": lambda: (X, Y),
    "dicts": lambda: ({"a": X, "b": X}, {"out": Y}),
    "sample weights": lambda: (X, Y, np.ones(24, "float32")),
    "a sparse matrix": lambda: (scipy.sparse.coo_matrix(X), Y),
    "a PyDataset": lambda: (Batches(), None),
    "tf.data": lambda: (tensors(), None),
}
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "a generator": (lambda: ((row for row in X), None), "which is at its end after one epoch"),
    "targets beside a dataset": (lambda: (Batches(), Y), r"whose batches hold y: write \(Batches, None\)"),
    "a tf.data that repeats": (lambda: (tensors(repeat=True), None), "that doesn't end"),
    "a PyDataset without an end": (lambda: (Endless(), None), "that doesn't end"),
    "too few weights": (lambda: (X, Y, np.ones(5)), r"as many samples in x, y and sample_weight each, not \[5, 24\]"),
    "x alone": (lambda: (X,), r"must be \(x, y\), \(x, y, sample_weight\) or \(dataset, None\)"),
    "numbers": (lambda: (X, [1, 2, 3]), "holds what is no array of samples"),
    "none": (lambda: (X[:0], Y[:0]), "has no samples"),
}


@pytest.mark.parametrize("form", with_long(GOOD, "sample weights", "a sparse matrix", "tf.data"))
def test_what_check_finds_sound_is_trained(form: str) -> None:
    problem = Line(GOOD[form])
    check_problem(problem, candidates=1, batches=1)
    data = _data(refer(problem), problem)
    model = build_candidate(problem, space_of(problem).sample(np.random.default_rng(0)))
    metrics, steps = train(problem, model, data, Stopwatch())
    assert steps == 3
    assert np.isfinite(metrics["val_loss"])


def test_seconds_of_a_model_that_is_trained_in_two_parts_add_up() -> None:
    problem, watch = Line(lambda: (X, Y)), Stopwatch()
    watch.seconds = {"first_step": 100.0, "training": 200.0}
    model = build_candidate(problem, space_of(problem).sample(np.random.default_rng(0)))
    train(problem, model, problem.data(), watch)
    assert watch.seconds["first_step"] > 100.0
    assert watch.seconds["training"] >= 200.0


@pytest.mark.parametrize("form", BAD)
def test_what_is_refused_is_refused_in_the_same_words(form: str) -> None:
    part, words = BAD[form]
    problem = Line(part)
    with pytest.raises(InvalidProblem, match=words) as checked:
        check_problem(problem, candidates=1, batches=1)
    with pytest.raises(InvalidProblem) as searched:
        _data(refer(problem), problem)
    assert checked.value.message == searched.value.message


class Loader:
    """Batches that nobody counts."""

    def __iter__(self) -> Any:
        return iter([(X[:8], Y[:8]), (X[8:], Y[8:])])


class Fitting(Line):
    """Gives its own `fit` what Keras doesn't take."""

    def build(self, choose: Any) -> keras.Model:
        inputs = keras.Input((3,))
        return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(choose("units", (2, 3)))(inputs)))

    def fit(self, model: Any, x: Any, y: Any, **options: Any) -> Any:
        if isinstance(x, Loader):
            batches = [*x]
            x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        elif x is None:
            x, y = X, Y
        else:
            options |= {"steps_per_epoch": 3, "shuffle": False}
        return model.fit(x, y, **options)

    def score(self, model: keras.Model, data: Data) -> dict[str, float]:
        return {"val_loss": float(model.evaluate(X, Y, verbose=0))}


OWN: dict[str, Callable[[], Any]] = {
    "a loader": lambda: (Loader(), None),
    "nothing": lambda: (None, None),
    "a tf.data that repeats": lambda: (tensors(repeat=True), None),
}


@pytest.mark.parametrize("form", OWN)
def test_a_fit_of_the_problems_own_is_given_what_it_takes(form: str) -> None:
    problem = Fitting(OWN[form])
    check_problem(problem, candidates=1, batches=1)
    data = _data(refer(problem), problem)
    model = build_candidate(problem, space_of(problem).sample(np.random.default_rng(0)))
    metrics, steps = train(problem, model, data, Stopwatch(), until_step=2)
    assert steps == 2
    assert np.isfinite(metrics["val_loss"])


def test_a_fit_of_the_problems_own_needs_two_parts() -> None:
    problem = Fitting(lambda: (X,))
    with pytest.raises(InvalidProblem, match=r"must be \(x, y\)"):
        _data(refer(problem), problem)


def test_until_a_step_of_a_dataset() -> None:
    problem = Line(GOOD["a PyDataset"])
    model = build_candidate(problem, space_of(problem).sample(np.random.default_rng(0)))
    assert train(problem, model, problem.data(), Stopwatch(), until_step=5)[1] == 5


def test_a_layer_that_all_candidates_share_is_refused_unless_it_is_frozen() -> None:
    shared = keras.layers.Dense(3)

    class Sharing(Line):
        def build(self, choose: Any) -> keras.Model:
            inputs = keras.Input((3,))
            return keras.Model(inputs, keras.layers.Dense(choose("units", (1, 2)))(shared(inputs)))

    with pytest.raises(InvalidProblem, match="again, which an earlier candidate had"):
        check_problem(Sharing(GOOD["arrays"]), candidates=1, batches=1)
    problem = Sharing(GOOD["arrays"])
    space = space_of(problem)
    # A search looks at each candidate's graph before it is trained: it finds out there.
    shared = keras.layers.Dense(3)
    build_candidate(problem, next(space.enumerate()))
    with pytest.raises(InvalidProblem, match="again, which an earlier candidate had"):
        build_candidate(problem, next(space.enumerate()))
    shared.trainable = False
    build_candidate(problem, next(space.enumerate()))
