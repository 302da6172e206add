"""Architectures of a problem, trained little by little on a real cluster, and models built of what was chosen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from daskevo.search import AsynchronousHalving, Grid, SuccessiveHalving
from daskevo.space import Builder, Choice, InsertingMutator, ModelGraph, Space, layer, of_kind
from daskevo.tuning import Constant, Trajectory, architectures, grid
from daskevo_workflows import tune
from daskevo_workflows.problems import Data, refer
from daskevo_workflows.problems.building import graph_of


@pytest.mark.long
@pytest.mark.processes
def test_promoted_architectures_of_the_digits_go_on_from_their_snapshots(repository: Any, tmp_path: Path) -> None:
    from daskevo_workflows.stage_training import begin

    problem = refer("digits", depth=2, widths=(8, 16), batch_size=128)
    with tune.study(problem, repository=repository, run=tmp_path / "run", seed=3) as study:
        halving = study.run(SuccessiveHalving(1, 4, 2, candidates=4, rounds=1))
        assert [request.until_step for request in halving.requests] == [1, 1, 1, 1, 2, 2, 4]
        assert halving.figures.trained_steps == halving.figures.unique_steps == 8
        asha = study.run(AsynchronousHalving(1, 4, 2, candidates=4))
        assert asha.figures.trained_steps == asha.figures.unique_steps
        requests = halving.requests + asha.requests
        begun_anew = sum(request.until_step or 0 for request in requests)
        assert asha.figures.trained_steps < begun_anew
        (best,) = halving.best()
        trained = asha.figures.trained_steps
        further = study.evaluate(best, 5)
        came_to = max(request.until_step or 0 for request in requests if request.candidate == best.candidate)
        assert study.figures().trained_steps == trained + 5 - came_to
        # The one that came to the last rung, in one piece.
        trajectory = Trajectory(study.origin, study.line(halving.requests[-1]).trial.configuration)
        loaded = problem.load()
        whole = begin(loaded, trajectory, loaded.data(), seed=3)
        whole.advance(4, lambda step: True)
        names = [
            stored.name for stored in repository.snapshots() if stored.extra["trajectory"]["key"] == trajectory.key(4)
        ]
        cut = repository.read_snapshot(names[0])
        assert len(cut.weights) == len(whole.snapshot().weights) > 0
        for one, other in zip(cut.weights, whole.snapshot().weights, strict=True):
            assert np.array_equal(one, other)
        if best.request.candidate == halving.requests[-1].candidate:
            whole.advance(5, lambda step: True)
            assert whole.score() == further


FRAIL = """
import keras
import numpy as np
from daskevo.space import Choice, Space
from daskevo_workflows.problems import Data

name, objective, epochs, batch_size = "frail", "min loss", 1, 16


def space():
    return Space(name, (Choice("units", (4, 8)),))


def build(choices):
    if choices["units"] == 8:
        raise RuntimeError("no model has 8 units")
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(choices["units"]), keras.layers.Dense(2)])


def data():
    x, y = np.ones((32, 4), "float32"), np.ones((32, 2), "float32")
    return Data((x, y), (x, y))


def compile(model):
    model.compile("sgd", "mse")


def score(model, data):
    return {"loss": model.evaluate(*data.validation, verbose=0)}
"""


@pytest.mark.processes
def test_a_candidate_that_can_not_be_built_fails_alone(repository: Any, tmp_path: Path) -> None:
    problem = tmp_path / "frail.py"
    problem.write_text(FRAIL)
    with tune.study(problem, repository=repository, run=tmp_path / "run") as study:
        result = study.run(Grid())
    units = {request.number: request.candidate.values for request in result.requests}
    reports = {units[report.number]: report for report in result.reports}
    assert reports[0,].status == "finished"
    failure = reports[1,].failure
    assert failure is not None
    assert "no model has 8 units" in failure.message


def _compile(model: Any, hyperparameters: Any) -> None:
    import keras

    assert hyperparameters["batch_size"] == 16
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)


def _problem(**parts: Any) -> Any:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 4)).astype("float32"), rng.normal(size=(32, 2)).astype("float32")
    return SimpleNamespace(
        name="any",
        objective="min loss",
        epochs=2,
        batch_size=16,
        data=lambda: Data((x, y), (x, y)),
        compile=_compile,
        score=lambda model, data: {"loss": 0.0},
        **parts,
    )


def _dense(choose: Any) -> Any:
    import keras

    x = inputs = keras.Input((4,))
    for number in range(choose("layers", (1, 2))):
        x = keras.layers.Dense(choose(f"units {number}", (4, 8)), "relu")(x)
    return keras.Model(inputs, keras.layers.Dense(2)(x))


def _with_choices() -> Any:
    import keras

    def build(choices: Any) -> Any:
        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(choices["units"], "relu")(inputs)
        hidden = keras.layers.Dropout(choices.get("dropout", 0.1))(hidden)
        return keras.Model(inputs, keras.layers.Dense(2)(hidden))

    return _problem(build=build, space=lambda: Space("layers", (Choice("units", (4, 8)),)))


def _by_mutators() -> Any:
    from daskevo.models import Mutated

    graph = ModelGraph("base")
    place = graph.add_input("in", layer("InputLayer", batch_shape=(None, 4)))
    graph.create("out", layer("Dense", units=2), [place])
    graph.outputs = ("out",)
    insert = InsertingMutator(of_kind("Dense"), [layer("Dense", units=4), layer("ReLU")], name="insert")
    space = Mutated("grown", graph, evolve=[insert], steps=2)
    return _problem(space=lambda: space)


@pytest.mark.parametrize(
    "make",
    [
        _with_choices,
        lambda: _problem(build=_dense),
        lambda: _problem(space=lambda: Builder("dense", _dense)),
        _by_mutators,
    ],
    ids=["choices", "build", "builder", "mutators"],
)
def test_any_space_of_architectures_is_one_to_tune(make: Any) -> None:
    from daskevo_workflows.stage_training import begin, resume

    problem = make()
    space: Any = tune.space_to_tune(problem)
    rng = np.random.default_rng(1)
    ids = set()
    first = space.sample(rng)
    for candidate in (first, space.mutate(first, rng)):
        trajectory = Trajectory("any-0", space.configuration(candidate))
        training = begin(problem, trajectory, problem.data(), seed=0)
        training.advance(1, lambda step: True)
        snapshot = training.snapshot()
        assert snapshot.graph is not None
        assert snapshot.graph.ids == graph_of(problem, candidate).ids
        assert resume(problem, trajectory, problem.data(), snapshot, seed=0).step == 1
        ids.add(snapshot.graph.ids)
    assert len(ids) == 2


def test_constants_of_a_grid_go_to_build_with_what_was_chosen() -> None:
    from daskevo_workflows.stage_training import begin

    problem = _with_choices()
    rates = grid(learning_rate=[Constant(0.1)], batch_size=[Constant(16)], dropout=[0.0, 0.7], unit="epoch")
    space = architectures(problem.space(), rates)
    candidate = space.candidate(
        {"units": 8, "learning_rate": Constant(0.1).to_json(), "batch_size": Constant(16).to_json(), "dropout": 0.7}
    )
    graph = begin(problem, Trajectory("any-0", space.configuration(candidate)), problem.data(), seed=0).snapshot().graph
    assert graph is not None
    assert "0.7" in str(graph.to_json())
